"""`lock_folder` lets one process at a time write into a folder."""

import os
import subprocess
import sys

import pytest

from dragoman.storage.lock import FolderLockedError, lock_folder

HOLD = """\
import sys
from pathlib import Path
from dragoman.storage.lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_and_learns_the_pid_of_the_first(tmp_path, holder):
    with pytest.raises(FolderLockedError) as caught, lock_folder(tmp_path / "run"):
        pass
    assert caught.value.pid == str(holder.pid)


def test_the_lock_ends_when_its_process_is_killed(tmp_path, holder):
    holder.kill()
    holder.wait()
    with lock_folder(tmp_path / "run"):
        pass


def test_the_lock_can_be_taken_again_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), lock_folder(tmp_path):
        raise RuntimeError
    with lock_folder(tmp_path):
        pass


def test_a_folder_without_write_permission_is_an_os_error(tmp_path):
    if os.getuid() == 0:
        (tmp_path / "run").write_text("a file, not a folder", encoding="utf-8")
    else:
        (tmp_path / "run").mkdir(mode=0o555)
    with pytest.raises(OSError, match="run"), lock_folder(tmp_path / "run"):
        pass
