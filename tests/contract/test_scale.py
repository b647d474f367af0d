"""Tests of large models: many parameters, long sentences, several processes.

Run as a script, this file is one of several processes that share a model.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.errors import LengthError
from dragoman.model.build import build_model
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.initialization import initialize
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import ModelRecipe
from support.small_models import (
    BASELINES,
    EVERY_PART,
    VOCABULARY,
    sentences,
    small_model,
    small_recipe,
)

# FSDP warns that a layer's output is a view, which must not be changed in place. The keys and
# values that a decoder layer remembers are views, and nothing changes them.
pytestmark = pytest.mark.filterwarnings(
    "ignore:FSDP2-wrapped module .* returned a view:UserWarning"
)


# Parameters.


def test_a_billion_parameters_on_the_meta_device() -> None:
    vocabulary, width, inner, layers = 256_000, 2048, 8192, 6
    settings = ModelRecipe(
        width=width,
        heads=16,
        feed_forward_width=inner,
        encoder_layers=layers,
        decoder_layers=layers,
    )
    start = time.perf_counter()
    with torch.device("meta"):
        model = Transformer(settings, vocabulary, vocabulary)
    assert time.perf_counter() - start < 10
    attention = 4 * (width * width + width)
    feed_forward = 2 * width * inner + inner + width
    norm = 2 * width
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    counted = sum(weight.numel() for weight in model.parameters())
    assert counted == vocabulary * width + layers * (encoder_layer + decoder_layer)
    assert counted >= 1e9


# Length.


@pytest.mark.parametrize("case", EVERY_PART, ids="-".join)
def test_a_thousand_tokens_work(case: tuple[str, str]) -> None:
    model = small_model(**dict([case]), encoder_layers=1, decoder_layers=1)
    source, target = torch.randint(VOCABULARY, (2, 1, 1024)).unbind()
    with torch.no_grad():
        logits = model(source, torch.ones_like(source, dtype=torch.bool), target)
    assert logits.shape == (1, 1024, VOCABULARY)
    assert logits.isfinite().all()


def test_too_long_a_sequence_is_refused_with_both_numbers() -> None:
    model = small_model(position={"name": "learned", "maximum": 7})
    source, is_real, target = sentences(lengths=(7, 4), target_length=7)
    with torch.no_grad():
        memory = model.encode(source, is_real)
        _, cache = model.decode(target, memory)
        with pytest.raises(LengthError, match=r"\b8 tokens.*\b7 positions"):
            model.decode(target[:, :1], memory, cache)
        with pytest.raises(LengthError, match=r"\b9 tokens.*\b7 positions"):
            model.encode(*sentences(lengths=(9, 4))[:2])


# Shards.

# Parts with weights of all kinds, everywhere in a model: in layers, in positions,
# in the vocabularies. One decoder layer: where several add to the gradient of the memory, FSDP
# adds them in another order, and the last bit differs, as it may.
SHARDED: dict[str, dict[str, Any]] = {
    "usual": {"decoder_layers": 1},
    "pre-norm, untied": {"decoder_layers": 1, "norm": "pre", "tied_embeddings": "none"},
    "narrow, additive": {"decoder_layers": 1, "head_kind": "narrow", "similarity": "additive"},
    "shaw": {"decoder_layers": 1, "position": "shaw"},
    "learned": {"decoder_layers": 1, "position": "learned", "position_entry": "concatenated"},
    **{name: {"decoder_layers": 1} | settings for name, settings in BASELINES.items()},
}


def build_sharded(settings: dict[str, Any], world_size: int) -> EncoderDecoder:
    """Build as a large model must be: on the meta device, sharded, materialized, initialized."""
    recipe = small_recipe(**settings)
    mesh = init_device_mesh("cpu", (world_size,))
    with torch.device("meta"):
        model = build_model(recipe.model, VOCABULARY, VOCABULARY)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    initialize(model, recipe.seed)
    return model


def whole(sharded: Tensor | None) -> Tensor:
    """Gather a tensor whose shards are spread over the processes."""
    assert isinstance(sharded, DTensor), "is not sharded at all"
    return sharded.full_tensor()


def pairs(sharded: nn.Module, plain: nn.Module) -> Iterator[tuple[str, nn.Parameter, nn.Parameter]]:
    """Each weight, sharded and plain, by its name."""
    others = dict(plain.named_parameters())
    assert dict(sharded.named_parameters()).keys() == others.keys()
    for name, weight in sharded.named_parameters():
        yield name, weight, others[name]


def join_processes(store: distributed.Store, rank: int, world_size: int) -> None:
    """Connect the processes on this machine, without a network."""
    distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )


def loopback() -> str:
    """Return the loopback interface: lo on Linux, lo0 on macOS."""
    return next(name for _, name in socket.if_nameindex() if name.startswith("lo"))


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", loopback())
    join_processes(distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("case", SHARDED)
def test_a_sharded_model_in_one_process_gives_the_same(case: str) -> None:
    plain, sharded = small_model(**SHARDED[case]), build_sharded(SHARDED[case], world_size=1)
    batch = sentences()
    expected, actual = plain(*batch), sharded(*batch)
    assert torch.equal(actual, expected)
    for logits in (expected, actual):
        logits.square().mean().backward()
    for name, weight, other in pairs(sharded, plain):
        assert torch.equal(whole(weight), other), name
        # Keys and values of a convolutional source are two sums that meet in one gradient.
        rounding = 1e-6 if case == "convolutional" else 0
        assert (whole(weight.grad) - other.grad).abs().max() <= rounding, name


@pytest.mark.slow
def test_a_sharded_model_in_two_processes_gives_the_same(tmp_path: Path) -> None:
    helpers = Path(__file__).parent.parent  # Where small_models.py lives.
    paths = os.pathsep.join([str(helpers), *filter(None, [os.environ.get("PYTHONPATH")])])
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(tmp_path / "meeting")],
            env=os.environ | {"PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": loopback()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
        for case in SHARDED:
            assert f"{case}: the same" in output.splitlines()


# The rest of this file runs in the other processes.


def main(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    join_processes(distributed.FileStore(meeting, 2), rank, 2)
    for case, settings in SHARDED.items():
        compare_half(rank, settings)
        print(f"{case}: the same")
    distributed.destroy_process_group()


def compare_half(rank: int, settings: dict[str, Any]) -> None:
    """Run one of two processes: each reads half of the batch, as in training."""
    plain, sharded = small_model(**settings), build_sharded(settings, world_size=2)
    torch.manual_seed(0)
    batch = sentences(lengths=(7, 4, 1, 7))
    labels = batch.target.roll(-1, dims=1)

    def loss_of(model: nn.Module, part: slice) -> Tensor:
        logits = model(*(tensor[part] for tensor in batch))
        return F.cross_entropy(logits.flatten(0, 1), labels[part].flatten())

    expected, actual = loss_of(plain, slice(4)), loss_of(sharded, slice(2 * rank, 2 * rank + 2))
    expected.backward()
    actual.backward()
    mean = actual.detach().clone()
    distributed.all_reduce(mean)
    # Two halves of a mean of float32 numbers of size 1 to 10.
    assert (mean / 2 - expected).abs() <= 1e-6
    for name, weight, other in pairs(sharded, plain):
        assert isinstance(weight, DTensor)
        assert weight.to_local().shape[0] <= (weight.shape[0] + 1) // 2, f"{name} is not shared"
        assert torch.equal(whole(weight), other), name
        assert other.grad is not None
        assert (whole(weight.grad) - other.grad).abs().max() <= 1e-6, name


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
