"""Do the documents tell the truth: paths exist, commands run, every part is listed?"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from small_models import EVERY_PART

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
PATH = re.compile(r"`((?:src|tests|docs|model|decoding|presets)/[\w./*-]+)`")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (dragoman .+)$", re.MULTILINE)


def identity(document):
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_paths_that_are_named_exist(document):
    for path in PATH.findall(document.read_text(encoding="utf-8")):
        homes = [ROOT, ROOT / "src" / "dragoman"]
        assert any(list(home.glob(path.rstrip("/"))) for home in homes), path


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_commands_that_are_shown_run(document, tmp_path):
    for command in COMMAND.findall(document.read_text(encoding="utf-8")):
        words, _, redirected = command.partition(" > ")
        ended = subprocess.run(
            [sys.executable, "-m", *shlex.split(words)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "80"},
        )
        assert ended.returncode == 0, f"{command}\n{ended.stderr}"
        if redirected:
            (tmp_path / redirected.strip()).write_text(ended.stdout, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_python_that_is_shown_runs(document, tmp_path):
    for block in PYTHON.findall(document.read_text(encoding="utf-8")):
        ended = subprocess.run(
            [sys.executable, "-c", block], capture_output=True, text=True, cwd=tmp_path
        )
        assert ended.returncode == 0, f"{block}\n{ended.stderr}"


def test_the_page_of_parts_lists_every_part():
    page = (ROOT / "docs" / "parts.md").read_text(encoding="utf-8")
    missing = [f"{kind}/{name}" for kind, name in EVERY_PART if f"| `{name}` |" not in page]
    assert not missing


def test_one_version_everywhere():
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{dragoman.__version__}"\n' in metadata
    assert f"## [{dragoman.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_file_opens_with_what_it_answers():
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not text or text.startswith(('"""', 'r"""')), file


def test_model_files_open_with_their_source():
    """Each part's docstring names a seed of the lectures, or says that it is not in them."""
    for kind, name in EVERY_PART:
        file = ROOT / "src" / "dragoman" / "model" / kind / f"{name}.py"
        opening = file.read_text(encoding="utf-8").split('"""')[1]
        assert "seed" in opening or "not in the lectures" in opening, file
