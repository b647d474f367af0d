"""How do many devices train one model?

The model knows nothing of it; it is wrapped from outside. DDP copies the model to every rank and
adds up the gradients; FSDP2 gives each rank a shard of every weight. torchrun starts the ranks and
starts them again when one dies.

What K micro-batches say is added up as in a tournament: neighbours first, then neighbours of
neighbours. A rank holds neighbours, so ranks add up their own and then each other's in the same
order as one rank alone. Where K and the ranks are powers of two, the sum is the same to the last
bit for any number of ranks: floating-point sums depend on their order, and here it is one.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from dragoman.errors import DragomanError
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.shapes import Tensor
from dragoman.training.loss import MicroBatch, Objective

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket

Added = torch.futures.Future[Tensor]
_PATIENCE = {"gloo": timedelta(seconds=30), "nccl": timedelta(seconds=120)}
"""How long ranks wait for one that says nothing before they give up together."""
_PATIENCE_FOR_DISKS = timedelta(hours=1)
"""And while the first reads or writes a whole checkpoint."""


@dataclass(frozen=True, slots=True)
class World:
    """Who trains: this rank among how many, and on which device."""

    rank: int
    ranks: int
    device: torch.device
    patient: dist.ProcessGroup | None = None
    """The same ranks, with patience for a disk."""

    @property
    def is_first(self) -> bool:
        """The first rank writes what is written once."""
        return self.rank == 0

    def add_up(self, values: Sequence[float], *, is_slow: bool = False) -> list[float]:
        """Add numbers over all ranks; where only one has other than zero, exactly.

        Slow is what comes after work with a disk that the first rank does for all.
        """
        if self.ranks == 1:
            return list(values)
        device = "cpu" if is_slow else self.device
        shared = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(shared, group=self.patient if is_slow else None)
        added: list[float] = shared.tolist()
        return added

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.ranks > 1:
            dist.barrier()


@contextlib.contextmanager
def join_world() -> Iterator[World]:
    """Join the ranks that torchrun started; without it, be alone."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local) if has_gpu else torch.device("cpu")
    if has_gpu and local >= torch.cuda.device_count():
        raise DragomanError(
            f"rank {local} of this machine has no GPU: found {torch.cuda.device_count()}; start "
            "torchrun with at most as many processes (--nproc-per-node)"
        )
    if has_gpu:
        torch.cuda.set_device(device)
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield World(0, 1, device)
        return
    backend = "nccl" if has_gpu else "gloo"
    patience = _PATIENCE[backend]
    store, rank, _ = next(rendezvous("env://", timeout=patience))
    if ranks == int(os.environ["LOCAL_WORLD_SIZE"]):
        # When torchrun starts ranks again it keeps its store, and they may find the addresses of
        # the dead (pytorch/pytorch#167288). Machines may differ in their counts; one does not.
        store = PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=patience)
    try:
        patient = dist.new_group(backend="gloo", timeout=_PATIENCE_FOR_DISKS)
        yield World(dist.get_rank(), ranks, device, patient)
    finally:
        dist.destroy_process_group()


class Sum:
    """Adds up the gradients of micro-batches, neighbours first."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = parameters
        self._waiting: list[tuple[int, list[Tensor]]] = []

    def put(self) -> None:
        """Take the gradients from the parameters, and add them to their neighbours'."""
        count, gradients = 1, [_gradient(each) for each in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        while self._waiting and self._waiting[-1][0] == count:
            _, earlier = self._waiting.pop()
            torch._foreach_add_(earlier, gradients)
            count, gradients = 2 * count, earlier
        self._waiting.append((count, gradients))

    def finish(self) -> None:
        """Add to the last gradients, which the parameters hold, all that wait for them."""
        gradients = [_gradient(each) for each in self._parameters]
        for _, earlier in reversed(self._waiting):
            torch._foreach_add_(gradients, earlier)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient  # Where the last had none, all that waited is in a new one.
        self._waiting.clear()

    def finish_some(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Do so for these gradients of these parameters only, as DDP hands them out."""
        if self._waiting:
            index = {id(each): number for number, each in enumerate(self._parameters)}
            for parameter, gradient in zip(parameters, gradients, strict=True):
                for _, earlier in reversed(self._waiting):
                    gradient.add_(earlier[index[id(parameter)]])

    def clear(self) -> None:
        """Forget; DDP has handed out everything."""
        self._waiting.clear()


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


class Learner:
    """Goes forward and backward; at the end it has the sum of all ranks' gradients."""

    def __init__(self, objective: Objective, world: World) -> None:
        self.objective = objective
        self.named_parameters = dict(objective.model.named_parameters())
        self.parameters = list(self.named_parameters.values())
        self._sum = Sum(self.parameters)
        self._wrapped: nn.Module = objective
        self._is_ddp = False
        if world.ranks > 1 and not isinstance(objective, FSDPModule):
            self._is_ddp = True
            devices = [world.device] if world.device.type == "cuda" else None
            ddp = DistributedDataParallel(objective, devices)
            # A lambda: DDP reads annotations, and does not understand them as text.
            hook = lambda world, bucket: self._add_up(world, bucket)  # noqa: E731, PLW0108
            ddp.register_comm_hook(world, hook)
            self._wrapped = ddp

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Let the objective be asked without learning from it."""
        self.objective.eval()
        yield
        self.objective.train()
        if isinstance(self.objective, FSDPModule):
            # Else the whole weights of now would stay, and be taken for those of later.
            self.objective.reshard()

    def learn(self, batch: MicroBatch, *, is_last: bool) -> float:
        """Go forward and backward once; give the loss. With the last, gradients are complete."""
        is_quiet = self._is_ddp and not is_last
        with self._wrapped.no_sync() if is_quiet else contextlib.nullcontext():  # type: ignore[operator]
            loss: Tensor = self._wrapped(batch)
            loss.backward()  # type: ignore[no-untyped-call]
        if not is_last:
            self._sum.put()
        elif self._is_ddp:
            self._sum.clear()
        else:
            self._sum.finish()
        return float(loss.detach())

    def _add_up(self, world: World, bucket: GradBucket) -> Added:
        """Add up a bucket of DDP's: first what waits here, then over the ranks."""
        self._sum.finish_some(bucket.parameters(), bucket.gradients())
        buffer = bucket.buffer()
        if world.device.type == "cuda" or world.ranks == 2:
            # Two can be added in one order only; and NCCL's speed is worth more than our order.
            work = dist.all_reduce(buffer, async_op=True)
            return cast(Added, work.get_future().then(lambda future: future.value()[0]))
        everyone = [torch.empty_like(buffer) for _ in range(world.ranks)]
        gathered = dist.all_gather(everyone, buffer, async_op=True)
        return cast(Added, gathered.get_future().then(lambda _: _tournament(everyone)))

    def forget(self) -> None:
        """Drop the gradients."""
        for parameter in self.parameters:
            parameter.grad = None


def _tournament(tensors: list[Tensor]) -> Tensor:
    """Add neighbours, then neighbours of neighbours."""
    while len(tensors) > 1:
        pairs = [left + right for left, right in zip(tensors[::2], tensors[1::2], strict=False)]
        tensors = pairs + tensors[2 * len(pairs) :]
    return tensors[0]


def shard(objective: Objective, precision: torch.dtype | None) -> None:
    """Give each rank a shard of every weight (FSDP2); layer by layer they are whole when needed."""
    # Our layers give views of keys and values, and nobody writes into them.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    policy = MixedPrecisionPolicy(
        param_dtype=precision, reduce_dtype=torch.float32 if precision else None
    )
    for layer in objective.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(objective, mp_policy=policy)
    for module in objective.modules():
        if isinstance(module, FSDPModule):
            # A sum, as everywhere; it is divided by its tokens once.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    for name in ("encode", "decode"):
        register_fsdp_forward_method(objective, name)


def compile_layers(model: EncoderDecoder) -> None:
    """Compile the layers, each kind once: they are most of the work, and their shapes are plain."""
    for layer in model.layers:
        layer.compile(dynamic=True)


def recompute(model: EncoderDecoder) -> None:
    """Keep only what enters a layer, and compute its inside again when going backward."""
    for layer in model.layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
