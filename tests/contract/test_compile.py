"""Tests that every part compiles as one graph and gives the same results.

Run as a script, this file compiles the models of its arguments, in a process without the import
hook that checks shapes: the compiler cannot trace the checks, and users do not run with them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dragoman.model.cache import Cache, Memory
from dragoman.model.transformer import Transformer
from dragoman.recipe import parts
from support.small_models import KINDS, sentences, small_model

ROUNDING = 1e-5
"""The compiler fuses sums and so changes their order; logits are of size 1 to 10."""

pytestmark = pytest.mark.slow


def run(*arguments: str) -> None:
    """Run this file in its own process; its last line names what it has compiled."""
    helpers = Path(__file__).parent.parent  # The folder that `support` is imported from.
    paths = os.pathsep.join([str(helpers), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"DRAGOMAN_SHAPES": "off", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"compiled: {' '.join(arguments)}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
def test_every_part_compiles_as_one_graph(kind: str, backend: str) -> None:
    """With `eager` the forward pass is traced, with `aot_eager` also the backward pass."""
    run(backend, *(f"{kind}={name}" for name in parts.names(f"model.{kind}")))


def test_the_backward_pass_of_the_default_parts_compiles() -> None:
    run("aot_eager", "head_kind=standard")


@pytest.mark.long  # CI trains a compiled model in tests/training/test_trainer.py.
@pytest.mark.timeout(300)
def test_inductor_compiles_the_default_parts() -> None:
    run("inductor", "head_kind=standard")


def test_a_step_with_the_cache_compiles_as_one_graph() -> None:
    run("aot_eager", "step")


# The rest of this file runs in the other process.


def compile_model(backend: str, kind: str, name: str) -> None:
    model = small_model(**{kind: name}, encoder_layers=1, decoder_layers=1).train()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    batch = sentences()
    expected, actual = model(*batch), compiled(*batch)
    check(actual, expected, "logits")
    names, weights = zip(*model.named_parameters(), strict=True)
    for name_of_weight, gradient, same in zip(
        names,
        torch.autograd.grad(actual.square().mean(), weights),
        torch.autograd.grad(expected.square().mean(), weights),
        strict=True,
    ):
        check(gradient, same, name_of_weight)


@torch.no_grad()
def compile_step(backend: str) -> None:
    model = small_model(encoder_layers=1, decoder_layers=1)

    def step(
        model: Transformer, last: Tensor, memory: Memory, cache: Cache
    ) -> tuple[Tensor, Cache]:
        return model.decode(last, memory, cache)

    compiled = torch.compile(step, backend=backend, fullgraph=True)
    source, is_real, target = sentences()
    memory = model.encode(source, is_real)
    whole, _ = model.decode(target, memory)
    _, cache = model.decode(target[:, :1], memory)
    for position in range(1, target.shape[1]):
        logits, cache = compiled(model, target[:, position : position + 1], memory, cache)
        check(logits, whole[:, position : position + 1], f"step {position}")


def check(actual: Tensor, expected: Tensor, what: str) -> None:
    difference = (actual - expected).abs().max().item()
    assert difference <= ROUNDING, f"{what} differ by {difference}"


def main(backend: str, *subjects: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for subject in subjects:
        print(subject, flush=True)
        torch.compiler.reset()
        if subject == "step":
            compile_step(backend)
        else:
            compile_model(backend, *subject.split("="))
    print("compiled:", backend, *subjects)


if __name__ == "__main__":
    main(*sys.argv[1:])
