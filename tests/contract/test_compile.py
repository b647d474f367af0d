"""Can every part be compiled whole, and does it then say the same?

Run as a script, this file compiles the models it is given, in a process without the hook that
checks shapes: the compiler would have to see through the checks, and no user runs with them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dragoman import part
from dragoman.model.cache import Cache
from dragoman.model.transformer import Memory, Transformer
from small_models import KINDS, sentences, small_model

ROUNDING = 1e-5
"""The full compiler fuses sums and so groups them anew; logits are of size 1 to 10."""

pytestmark = pytest.mark.slow


def run(*arguments: str) -> None:
    """Run this file in a process of its own; it names on its last line what it has compiled."""
    helpers = Path(__file__).parent.parent  # Where small_models.py lives.
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
def test_every_part_compiles_whole(kind: str) -> None:
    run("aot_eager", *(f"{kind}={name}" for name in part.names(f"model.{kind}")))


@pytest.mark.timeout(300)
def test_the_full_compiler_takes_the_usual_parts() -> None:
    run("inductor", "heads=standard")


def test_a_step_with_the_cache_compiles_whole() -> None:
    run("aot_eager", "step")


# What follows runs in the other process.


def compile_model(backend: str, kind: str, name: str) -> None:
    model = small_model(**{kind: name}, encoder_layers=1, decoder_layers=1).train()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    batch = sentences()
    expected, found = model(*batch), compiled(*batch)
    check(found, expected, "logits")
    names, weights = zip(*model.named_parameters(), strict=True)
    for name_of_weight, gradient, same in zip(
        names,
        torch.autograd.grad(found.square().mean(), weights),
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
    for place in range(1, target.shape[1]):
        logits, cache = compiled(model, target[:, place : place + 1], memory, cache)
        check(logits, whole[:, place : place + 1], f"step {place}")


def check(found: Tensor, expected: Tensor, what: str) -> None:
    difference = (found - expected).abs().max().item()
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
