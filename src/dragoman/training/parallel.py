"""Data-parallel training: DDP and FSDP2, started by torchrun.

The model contains no code for this: DDP or FSDP2 wraps it. DDP copies the model to every rank and
sums the gradients. FSDP2 gives each rank a shard of every weight. torchrun starts the ranks, and
restarts all of them when one fails.

The gradients of the K micro-batches of an update are summed pairwise, for example (1+2) + (3+4). A
rank has neighboring micro-batches, so several ranks add in the same order as one rank. The result
of a floating-point sum depends on this order. If K and the number of ranks are powers of two, the
sum is therefore bit-identical for any number of ranks.
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
from dragoman.training.adapters import plain_weights
from dragoman.training.loss import MicroBatch, Objective

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket

SumFuture = torch.futures.Future[Tensor]
_TIMEOUT = {"gloo": timedelta(seconds=30), "nccl": timedelta(seconds=120)}
"""How long ranks wait for a rank that does not respond, before all of them fail."""
_DISK_TIMEOUT = timedelta(hours=1)
"""The same timeout while the main rank reads or writes a checkpoint."""


@dataclass(frozen=True, slots=True)
class World:
    """The processes of a training run: the rank of this one, their number, and its device."""

    rank: int
    world_size: int
    device: torch.device
    disk_group: dist.ProcessGroup | None = None
    """The same ranks with a longer timeout, for waiting until a disk operation ends."""
    local_rank: int = 0
    """The rank among the processes of this machine."""

    @property
    def is_node_main(self) -> bool:
        """Whether this is the first rank of its machine: without a shared disk, it writes there."""
        return self.local_rank == 0

    @property
    def is_main(self) -> bool:
        """Whether this is the main rank, which writes the files."""
        return self.rank == 0

    def all_reduce_sum(self, values: Sequence[float], *, is_slow: bool = False) -> list[float]:
        """Return the sum of each value over all ranks.

        A sum is exact if the value is nonzero on one rank only. With `is_slow`, the timeout is
        longer, for disk operations of the main rank.
        """
        if self.world_size == 1:
            return list(values)
        device = "cpu" if is_slow else self.device
        shared = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(shared, group=self.disk_group if is_slow else None)
        sums: list[float] = shared.tolist()
        return sums

    def gather_text(self, text: str) -> list[str]:
        """Return the texts of all ranks, in the order of the ranks; for disk operations."""
        if self.world_size == 1:
            return [text]
        data = text.encode()
        sizes = [0.0] * self.world_size
        sizes[self.rank] = len(data)
        sizes = self.all_reduce_sum(sizes, is_slow=True)
        longest = int(max(sizes))
        mine = torch.tensor(list(data.ljust(longest)), dtype=torch.uint8)
        gathered = [torch.empty_like(mine) for _ in sizes]
        dist.all_gather(gathered, mine, group=self.disk_group)
        pairs = zip(gathered, sizes, strict=True)
        return [bytes(part[: int(size)].tolist()).decode() for part, size in pairs]

    def barrier(self, *, is_slow: bool = False) -> None:
        """Wait for all ranks; with `is_slow` longer, for disk operations."""
        if self.world_size > 1:
            dist.barrier(self.disk_group if is_slow else None)


@contextlib.contextmanager
def join_world() -> Iterator[World]:
    """Join the ranks that torchrun started; without torchrun there is one rank."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if has_gpu else torch.device("cpu")
    if has_gpu and local_rank >= torch.cuda.device_count():
        raise DragomanError(
            f"local rank {local_rank} has no GPU: found {torch.cuda.device_count()} GPUs; start "
            f"torchrun with --nproc-per-node={torch.cuda.device_count()} or fewer"
        )
    if has_gpu:
        torch.cuda.set_device(device)
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield World(0, 1, device)
        return
    backend = "nccl" if has_gpu else "gloo"
    timeout = _TIMEOUT[backend]
    store, rank, _ = next(rendezvous("env://", timeout=timeout))
    if world_size == int(os.environ["LOCAL_WORLD_SIZE"]):
        # When torchrun restarts ranks, it keeps its store, and the new ranks may read addresses of
        # ended ranks (pytorch/pytorch#167288). A prefix per restart avoids this. Restart counts
        # can differ between machines, so the prefix is used on a single machine only.
        store = PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=timeout)
    try:
        disk_group = dist.new_group(backend="gloo", timeout=_DISK_TIMEOUT)
        yield World(dist.get_rank(), world_size, device, disk_group, local_rank)
    finally:
        dist.destroy_process_group()


class PairwiseGradientSum:
    """Sums the gradients of micro-batches pairwise."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = parameters
        self._partial_sums: list[tuple[int, list[Tensor]]] = []
        """(number of micro-batches, their summed gradients), largest first."""

    def add(self) -> None:
        """Remove the gradients from the parameters, and add them to the partial sums."""
        count, gradients = 1, [_gradient(parameter) for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        while self._partial_sums and self._partial_sums[-1][0] == count:
            _, earlier = self._partial_sums.pop()
            torch._foreach_add_(earlier, gradients)
            count, gradients = 2 * count, earlier
        self._partial_sums.append((count, gradients))

    def finish(self) -> None:
        """Add all partial sums to the gradients of the last micro-batch, in the parameters."""
        gradients = [_gradient(parameter) for parameter in self._parameters]
        for _, earlier in reversed(self._partial_sums):
            torch._foreach_add_(gradients, earlier)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient  # A new tensor if the last micro-batch gave no gradient.
        self._partial_sums.clear()

    def finish_bucket(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Do the same as `finish` for the parameters of one DDP bucket."""
        if self._partial_sums:
            index = {id(parameter): number for number, parameter in enumerate(self._parameters)}
            for parameter, gradient in zip(parameters, gradients, strict=True):
                for _, earlier in reversed(self._partial_sums):
                    gradient.add_(earlier[index[id(parameter)]])

    def clear(self) -> None:
        """Delete the partial sums, after DDP has processed all buckets."""
        self._partial_sums.clear()


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


class Learner:
    """Runs forward and backward passes; sums gradients over micro-batches and ranks."""

    def __init__(self, objective: Objective, world: World) -> None:
        self.objective = objective
        everything = dict(objective.model.named_parameters())
        self.named_parameters = {
            name: value for name, value in everything.items() if value.requires_grad
        }
        self.has_adapters = len(self.named_parameters) < len(everything)
        self.parameters = list(self.named_parameters.values())
        self._sum = PairwiseGradientSum(self.parameters)
        self._wrapped: nn.Module = objective
        self._is_ddp = False
        if world.world_size > 1 and not isinstance(objective, FSDPModule):
            self._is_ddp = True
            devices = [world.device] if world.device.type == "cuda" else None
            ddp = DistributedDataParallel(objective, devices)
            # A lambda, because DDP cannot read annotations that are strings.
            hook = lambda world, bucket: self._sum_bucket(world, bucket)  # noqa: E731, PLW0108
            ddp.register_comm_hook(world, hook)
            self._wrapped = ddp

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of the model, with merged adapters."""
        if self.has_adapters:
            return plain_weights(self.objective.model)
        return {name: value.detach() for name, value in self.named_parameters.items()}

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Use evaluation mode inside a `with` block."""
        self.objective.eval()
        try:
            yield
        finally:
            self.objective.train()
            if isinstance(self.objective, FSDPModule):
                # Otherwise later updates would use the unsharded weights of this evaluation.
                self.objective.reshard()

    def forward_backward(self, batch: MicroBatch, *, is_last: bool) -> float:
        """Run one forward and backward pass, and return the loss.

        After the last micro-batch of an update, `grad` of each parameter is the sum of all.
        """
        is_local = self._is_ddp and not is_last
        with self._wrapped.no_sync() if is_local else contextlib.nullcontext():  # type: ignore[operator]
            loss: Tensor = self._wrapped(batch)
            loss.backward()  # type: ignore[no-untyped-call]
        if not is_last:
            self._sum.add()
        elif self._is_ddp:
            self._sum.clear()
        else:
            self._sum.finish()
        return float(loss.detach())

    def _sum_bucket(self, world: World, bucket: GradBucket) -> SumFuture:
        """Sum a DDP bucket: first the micro-batches of this rank, then all ranks."""
        self._sum.finish_bucket(bucket.parameters(), bucket.gradients())
        buffer = bucket.buffer()
        if world.device.type == "cuda" or world.world_size == 2:
            # The sum of two values does not depend on their order. With NCCL, speed is more
            # important than a fixed order.
            work = dist.all_reduce(buffer, async_op=True)
            return cast(SumFuture, work.get_future().then(lambda future: future.value()[0]))
        all_buffers = [torch.empty_like(buffer) for _ in range(world.world_size)]
        gathered = dist.all_gather(all_buffers, buffer, async_op=True)
        return cast(SumFuture, gathered.get_future().then(lambda _: pairwise_sum(all_buffers)))

    def zero_grad(self) -> None:
        """Delete the gradients."""
        for parameter in self.parameters:
            parameter.grad = None


def pairwise_sum(tensors: list[Tensor]) -> Tensor:
    """Add neighbors, then neighboring sums, and so on."""
    while len(tensors) > 1:
        pairs = [left + right for left, right in zip(tensors[::2], tensors[1::2], strict=False)]
        tensors = pairs + tensors[2 * len(pairs) :]
    return tensors[0]


def shard(objective: Objective, precision: torch.dtype | None) -> None:
    """Give each rank a shard of every weight (FSDP2); a layer is gathered while it is computed."""
    # The layers return views of keys and values, and no code writes into these views. The caller
    # restores the warning filters.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    policy = MixedPrecisionPolicy(
        param_dtype=precision, reduce_dtype=torch.float32 if precision else None
    )
    for layer in objective.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(objective, mp_policy=policy)
    for module in objective.modules():
        if isinstance(module, FSDPModule):
            # Sum gradients over ranks instead of averaging: `clip_grad_norm` divides by the tokens.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    for name in ("encode", "decode", "validation_loss"):
        register_fsdp_forward_method(objective, name)


def compile_layers(model: EncoderDecoder) -> None:
    """Compile each layer: layers take most of the time, and equal layers are compiled once."""
    for layer in model.layers:
        layer.compile(dynamic=True)


def checkpoint_activations(model: EncoderDecoder) -> None:
    """Store only the inputs of each layer, and compute the layer again in the backward pass."""
    for layer in model.layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
