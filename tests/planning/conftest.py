"""A small prepared corpus, made once."""

import subprocess
import sys

import pytest

from support.small_corpus import write_corpus


@pytest.fixture(scope="session")
def prepared_recipe(tmp_path_factory):
    """The recipe of a small prepared corpus."""
    recipe = write_corpus(tmp_path_factory.mktemp("planned"), 1200)
    command = [sys.executable, "-m", "dragoman", "prepare", recipe, "--workers", "1"]
    subprocess.run(command, check=True, capture_output=True)
    return recipe
