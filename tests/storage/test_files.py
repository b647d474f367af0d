"""Files are written completely or not at all, with the usual permissions, inside their folder."""

import contextlib
import os
import stat
from pathlib import Path

import pytest

from dragoman.errors import ArtifactError, DataError
from dragoman.storage.files import (
    atomic_folder,
    atomic_write,
    link_or_copy,
    refuse_outside_links,
    remove_partials,
    write_text,
)
from dragoman.storage.lock import lock_folder
from dragoman.workflow.initialization import init_demo


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o027, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def write_private(path):
    """Create a file that only its owner can read, as safetensors does."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def test_a_written_file_has_the_permissions_of_a_new_file(tmp_path, umask):
    with atomic_write(tmp_path / "model.safetensors") as temporary:
        write_private(temporary)
    write_text(tmp_path / "card.json", "{}")
    with atomic_folder(tmp_path / "checkpoint") as folder:
        write_private(folder / "weights")
    for name in ("model.safetensors", "card.json", "checkpoint/weights"):
        assert mode(tmp_path / name) == 0o666 & ~umask, name


def test_a_hard_link_keeps_the_permissions_of_its_source(tmp_path):
    (tmp_path / "source").write_text("text", encoding="utf-8")
    (tmp_path / "source").chmod(0o600)
    link_or_copy(tmp_path / "source", tmp_path / "linked")
    assert mode(tmp_path / "source") == 0o600


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    write_text(tmp_path / "file", "old")
    with contextlib.suppress(RuntimeError), atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("new", encoding="utf-8")
        raise RuntimeError
    assert (tmp_path / "file").read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def outside(tmp_path):
    """A folder of somebody else, with a file that looks like one of our temporary files."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / ".precious.tmp").write_text("precious", encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["checkpoints", ".work.tmp"])
@pytest.mark.parametrize("action", [remove_partials, refuse_outside_links])
def test_a_link_to_a_folder_outside_is_refused(tmp_path, outside, name, action):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(outside)
    with pytest.raises(ArtifactError, match="symbolic link"):
        action(tmp_path / "run")
    assert (outside / ".precious.tmp").exists()


def test_a_link_to_a_file_outside_is_refused(tmp_path, outside):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "journal.jsonl").symlink_to(outside / ".precious.tmp")
    with pytest.raises(ArtifactError, match="journal"), lock_folder(tmp_path / "run"):
        pass


def test_a_link_inside_the_folder_and_a_linked_folder_are_accepted(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best").symlink_to(tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with lock_folder(tmp_path / "link"):
        pass


def test_a_link_to_itself_is_accepted(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    refuse_outside_links(tmp_path)


def test_partial_files_are_removed_at_every_depth(tmp_path):
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / ".model.1.ab.tmp").touch()
    (tmp_path / ".card.json.1.ab.tmp").touch()
    (tmp_path / "card.json").touch()
    remove_partials(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["card.json", "tokenizer"]


def test_partial_folders_are_removed(tmp_path):
    (tmp_path / "export" / ".ctranslate2.1.ab.tmp" / "tokenizer").mkdir(parents=True)
    (tmp_path / "export" / ".ctranslate2.1.ab.tmp" / "model.bin").touch()
    remove_partials(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["export"]


def test_a_removed_folder_does_not_take_linked_files_with_it(tmp_path, outside):
    with contextlib.suppress(RuntimeError), atomic_folder(tmp_path / "new") as temporary:
        (temporary / "link").symlink_to(outside)
        raise RuntimeError
    assert (outside / ".precious.tmp").exists()


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_text(path, "text"),
        lambda path: contextlib.ExitStack().enter_context(atomic_folder(path)),
        lambda path: contextlib.ExitStack().enter_context(lock_folder(path)),
        init_demo,
    ],
)
def test_a_url_is_not_taken_for_a_local_path(tmp_path, monkeypatch, write):
    """A `Path` of a URL has lost a slash; nothing may be written to a folder named `s3:`."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"found s3://bucket/folder, .* only to local folders"):
        write(Path("s3://bucket/folder"))
    assert not list(tmp_path.iterdir())
