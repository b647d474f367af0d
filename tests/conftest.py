"""What do all tests share?

Shapes are checked here and nowhere else: the hook must be installed before the model is imported.
Set DRAGOMAN_SHAPES=off to run the same tests without it; the Makefile does so for most of CI.
"""

import gc
import os

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

# Before transformers, which some tests import: where warnings are errors, SentencePiece must be
# imported with care, or its first use ends the process.
import dragoman.tokenizer.sentencepiece  # noqa: F401

if os.environ.get("DRAGOMAN_SHAPES") != "off":
    install_import_hook(["dragoman.model", "dragoman.decoding"], "beartype.beartype")

# Two workers on two cores: more threads than cores only wait for each other. The commands that
# tests start read it from their environment.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Machines are shared, so no single example has a deadline; a failure prints how to repeat it. The
# same code gets the same examples, so that CI does not fail by chance. More of them in CI would be
# the same ones in every run; `make proof` searches for new ones.
hypothesis.settings.register_profile(
    "dragoman", max_examples=50, deadline=None, print_blob=True, derandomize=True, database=None
)
hypothesis.settings.register_profile("proof", deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "quick", hypothesis.settings.get_profile("dragoman"), max_examples=30
)
hypothesis.settings.load_profile("dragoman")

SEED = 20170612


# Modules and collected tests are never garbage. Searching them for garbage would take most of a
# second, at any moment, also in tests that measure time.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage only among what tests create."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Start every test from the same seed; pytest shows this line when a test fails."""
    print(f"torch seed {SEED}")
    torch.manual_seed(SEED)
