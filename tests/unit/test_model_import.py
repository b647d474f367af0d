"""Tests of what importing the model loads."""

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    ["dragoman.model.attention", "dragoman.model.build", "dragoman.decoding.engines.pytorch"],
)
def test_importing_a_model_does_not_load_the_compiler(module):
    """`torch._dynamo` takes as long to import as everything else together."""
    code = f"import sys, {module}; print('torch._dynamo' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"
