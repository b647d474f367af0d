"""Wheel and sdist: the same bytes from any folder at any time, and no files from elsewhere."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import dragoman

ROOT = Path(__file__).parents[2]
NAME = f"dragoman-{dragoman.__version__}"
DATA = {".css", ".html", ".js", ".svg", ".yaml"}
"""Endings of files in the wheel that are not code."""


def build(sources, output, *options):
    """Build as `make dist` does, and return the hash of each file."""
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    command = ["-m", "build", "--no-isolation", *options, "--outdir", str(output), str(sources)]
    built = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in output.iterdir()}


def copy_sources(folder, date):
    """Copy the project, with another date and other rights of the files."""
    left_out = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", "__pycache__", "dist", "recipes", "runs", "site"
    )
    shutil.copytree(ROOT, folder, ignore=left_out)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o600 if date % 2 else 0o664)
        os.utime(path, (date, date))
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The folder of a wheel and an sdist, and their hashes."""
    work = tmp_path_factory.mktemp("packages")
    return work / "dist", build(copy_sources(work / "here", 1_600_000_000), work / "dist")


@pytest.mark.slow
def test_another_folder_at_another_time_gives_the_same_bytes(packages, tmp_path):
    _, hashes = packages
    assert set(hashes) == {f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz"}
    sources = copy_sources(tmp_path / "somewhere" / "else", 1_700_000_001)
    assert build(sources, tmp_path / "dist") == hashes
    # `build` makes the wheel from the sdist. The sources must give the same one.
    wheel = build(sources, tmp_path / "direct", "--wheel")
    assert wheel.items() <= hashes.items()


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(packages):
    folder, _ = packages
    with zipfile.ZipFile(folder / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    package = {name for name in names if name.startswith("dragoman/")}
    assert all(name.startswith(f"{NAME}.dist-info/") for name in names - package)
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    source = ROOT / "src" / "dragoman"
    expected = {
        f"dragoman/{path.relative_to(source).as_posix()}"
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == expected
    assert "dragoman/py.typed" in package
    assert {Path(name).suffix for name in package} == DATA | {".py", ".typed"}


@pytest.mark.slow
def test_the_sdist_has_no_data_and_no_runs(packages):
    folder, _ = packages
    with tarfile.open(folder / f"{NAME}.tar.gz") as sdist:
        members = {Path(member.name).relative_to(NAME): member.size for member in sdist}
    top = {path.parts[0] for path in members}
    assert {"src", "tests", "docs", "PKG-INFO", "LICENSE", "SECURITY.md"} <= top
    assert not top & {"recipes", "runs", "site", "dist", "data", ".git"}
    # A corpus or a trained model would be larger.
    assert max(members.values()) < 2_000_000, max(members, key=members.get)
