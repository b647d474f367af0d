"""Do local paths stand for remote files, and are remote folders complete or invisible?"""

import hashlib
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import BaseModel

from dragoman.errors import DataError
from dragoman.storage import mirror
from dragoman.storage.files import (
    atomic_folder,
    atomic_symlink,
    atomic_write,
    link_or_copy,
    remove,
    sha256,
    write_text,
)
from dragoman.storage.folder_manifest import FOLDER_MANIFEST
from dragoman.storage.mirror import StoredPath, fetch, local_path, locate, path_text
from dragoman.storage.remote import StorageError, open_store
from dragoman.storage.working_folder import fetch_folder


def _open(path: Path):
    url = locate(path)
    return open_store(url.bucket), url.key


def test_a_plain_path_stays_as_it_is(tmp_path):
    assert local_path("a/b", tmp_path) == tmp_path / "a/b"
    assert local_path("/a/b", tmp_path) == Path("/a/b")
    assert locate(tmp_path) is None
    assert fetch(tmp_path / "none") == tmp_path / "none"
    assert path_text(tmp_path / "x") == str(tmp_path / "x")
    # A folder with such a name is no mirror.
    (tmp_path / "x.mirror" / "files").mkdir(parents=True)
    assert locate(tmp_path / "x.mirror" / "files" / "y") is None


def test_the_path_of_a_url_leads_back_to_the_url(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    path = local_path("s3://bucket/a/b")
    assert path.is_relative_to(tmp_path)
    assert path_text(path / "c") == "s3://bucket/a/b/c"
    assert path_text(path.parent / "../x/./y") == "s3://bucket/x/y"
    assert local_path("../x", path) == path / "../x"
    assert local_path("s3://other/x", path) != local_path("s3://bucket/x")
    with pytest.raises(DataError, match="outside of the bucket"):
        locate(path / "../../../x")
    assert path_text(local_path("s3://bucket/..data/x")) == "s3://bucket/..data/x"


def test_a_path_is_sent_to_another_machine_as_a_url(tmp_path, monkeypatch):
    class Message(BaseModel):
        plain: StoredPath
        remote: tuple[StoredPath, ...]

    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "here"))
    message = Message(plain=Path("/a/b"), remote=(local_path("s3://bucket/a"),))
    text = message.model_dump_json()
    assert json.loads(text) == {"plain": "/a/b", "remote": ["s3://bucket/a"]}
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "there"))
    (received,) = Message.model_validate_json(text).remote
    assert received.is_relative_to(tmp_path / "there")
    assert path_text(received) == "s3://bucket/a"


def test_a_file_is_uploaded_and_not_kept(folder_url):
    path = local_path(folder_url) / "deep" / "text"
    assert not mirror.exists(path)
    write_text(path, "one\n")
    assert mirror.exists(path)
    assert not path.exists()
    partial = path.parents[len(locate(path).key.split("/"))] / "partial"
    assert not list(partial.iterdir())
    assert mirror.size(path) == 4
    assert mirror.read_text(path) == "one\n"
    assert fetch(path).read_text() == "one\n"
    assert sha256(path) == "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"


def test_a_changed_file_is_fetched_again_and_an_unchanged_one_is_not(folder_url):
    path = local_path(folder_url) / "text"
    write_text(path, "one")
    status = fetch(path).stat()
    assert fetch(path).stat().st_ino == status.st_ino
    write_text(path, "two")
    assert fetch(path).read_text() == "two"
    assert mirror.fingerprint(path)[0] == 3
    remove(path)
    assert not fetch(path).exists()


def test_an_error_while_writing_publishes_nothing(folder_url):
    folder = local_path(folder_url)

    def write_half(writer, name: str) -> None:
        with writer(folder / name) as temporary:
            (temporary / "a" if writer is atomic_folder else temporary).write_text("half")
            raise ZeroDivisionError

    for writer in (atomic_write, atomic_folder):
        with pytest.raises(ZeroDivisionError):
            write_half(writer, writer.__name__)
    assert mirror.names(folder) == []


def test_a_folder_is_visible_when_its_manifest_is(folder_url, monkeypatch):
    path = local_path(folder_url) / "whole"
    with atomic_folder(path) as temporary:
        (temporary / "a.txt").write_text("A")
        (temporary / "deep").mkdir()
        (temporary / "deep" / "b.txt").write_text("B")
        assert not mirror.exists(path)
    store, key = _open(path)
    assert mirror.exists(path)
    assert mirror.is_folder(path)
    assert mirror.names(path) == ["a.txt", "deep/b.txt"]
    assert mirror.read_text(path / "deep" / "b.txt") == "B"
    assert sha256(path / "a.txt") == sha256(fetch(path / "a.txt"))
    assert (fetch(path) / "deep" / "b.txt").read_text() == "B"
    # Readers do not depend on lists, which may be stale.
    monkeypatch.setattr(type(store), "list", lambda self, prefix: [])
    assert mirror.names(path) == ["a.txt", "deep/b.txt"]
    # Without the manifest the same objects are no folder.
    store.delete(f"{key}/{FOLDER_MANIFEST}")
    assert not mirror.exists(path)
    with pytest.raises(FileNotFoundError):
        mirror.open_input(path / "a.txt")


def test_the_first_of_two_folders_is_kept_as_a_whole(folder_url):
    path = local_path(folder_url) / "race"

    def write(text: str) -> None:
        with atomic_folder(path) as temporary:
            for name in ("a", "b", "c"):
                (temporary / name).write_text(text)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, ["one", "two", "three", "four"]))
    fetched = fetch(path)
    texts = {(fetched / name).read_text() for name in ("a", "b", "c")}
    assert len(texts) == 1
    write("late")
    assert (fetch(path) / "a").read_text() in texts


def test_a_damaged_object_of_a_folder_is_found(folder_url):
    path = local_path(folder_url) / "damaged"
    with atomic_folder(path) as temporary:
        (temporary / "a").write_text("right")
    store, key = mirror.find_object(path / "a")
    store.put(key, b"wrong")
    with pytest.raises(StorageError, match="is damaged"):
        fetch(path)


@pytest.mark.parametrize("size", [0, 6])
@pytest.mark.parametrize("name", ["{victim}", "../victim", "a/../../victim", "a//b", ".", ""])
def test_a_manifest_cannot_name_a_file_outside_of_its_folder(folder_url, tmp_path, name, size):
    """Fetching the model of a stranger changes no file of the user."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    path = local_path(folder_url) / "model"
    digest = hashlib.sha256(b"theirs"[:size]).hexdigest()
    files = {name.format(victim=victim): [size, digest]}
    manifest = {"format": 1, "version": "0" * 16, "files": files}
    write_text(path / FOLDER_MANIFEST, json.dumps(manifest))
    with pytest.raises(StorageError, match="is damaged"):
        fetch(path)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(("version", "size"), [("../..", 1), ("", 1), ("0" * 16, -1)])
def test_a_manifest_with_another_version_or_size_is_damaged(folder_url, version, size):
    path = local_path(folder_url) / "model"
    manifest = {"format": 1, "version": version, "files": {"a": [size, "x"]}}
    write_text(path / FOLDER_MANIFEST, json.dumps(manifest))
    with pytest.raises(StorageError, match="is damaged"):
        fetch(path)


def test_a_bucket_is_never_emptied():
    with pytest.raises(DataError, match=r"never emptied"):
        remove(local_path("file://"))


def test_a_local_file_of_another_content_is_fetched_again(folder_url, tmp_path):
    path = local_path(folder_url) / "step-1"
    with atomic_folder(path) as temporary:
        (temporary / "weights").write_text("new")
        (temporary / "state").write_text("{}")
    for name, text in (("weights", "old"), ("state", "{}")):
        (tmp_path / name).write_text(text)
    url = locate(path)
    assert url is not None
    before = (tmp_path / "state").stat().st_ino
    fetch_folder(url, tmp_path)
    assert (tmp_path / "weights").read_text() == "new"
    assert (tmp_path / "state").stat().st_ino == before


def test_a_folder_may_vanish_while_a_file_is_put_into_it(tmp_path, monkeypatch):
    """Another process removes an empty folder just after this one has made it."""
    made = []
    touch = Path.touch

    def late(path, *arguments, **named):
        if not made:
            made.append(path)
            path.parent.rmdir()
        touch(path, *arguments, **named)

    monkeypatch.setattr(Path, "touch", late)
    temporary = mirror._new_temporary(tmp_path / "a" / "b")
    assert made == [temporary]
    assert temporary.is_file()


def test_a_fetched_folder_has_no_files_of_an_earlier_version(folder_url):
    path = local_path(folder_url) / "versions"
    for names in (("a", "b"), ("b", "c")):
        remove(path)
        with atomic_folder(path) as temporary:
            for name in names:
                (temporary / name).write_text(f"{names}")
        assert sorted(file.name for file in fetch(path).iterdir()) == list(names)
        assert (fetch(path) / "b").read_text() == f"{names}"
        (fetch(path) / "mine").write_text("kept")
        assert (fetch(path) / "mine").exists()
        (fetch(path) / "mine").unlink()
    remove(path)
    assert mirror.names(path) == []
    assert not fetch(path).exists()


def test_a_folder_that_a_user_uploaded_is_listed(folder_url):
    path = local_path(folder_url) / "run"
    for name in ("recipe.yaml", "tokenizer/source/x", "tokenizer/target/x"):
        write_text(path / name, name)
    with atomic_folder(path / "checkpoints" / "step-1") as temporary:
        (temporary / "weights").write_text("w")
    names = ["checkpoints/step-1/weights", "recipe.yaml", "tokenizer/source/x"]
    assert mirror.names(path) == [*names, "tokenizer/target/x"]
    fetched = fetch(path)
    assert (fetched / names[0]).read_text() == "w"
    assert (fetched / names[2]).read_text() == names[2]
    remove(path)
    assert mirror.names(path) == []


def test_files_are_copied_inside_a_store_into_it_and_out_of_it(folder_url, tmp_path):
    folder = local_path(folder_url)
    with atomic_folder(folder / "whole") as temporary:
        (temporary / "a").write_text("A")
    link_or_copy(folder / "whole" / "a", folder / "b")
    assert mirror.read_text(folder / "b") == "A"
    link_or_copy(folder / "b", tmp_path / "c")
    assert (tmp_path / "c").read_text() == "A"
    link_or_copy(tmp_path / "c", folder / "d")
    assert mirror.read_text(folder / "d") == "A"
    with pytest.raises(StorageError, match="symbolic link"):
        atomic_symlink("x", folder / "e")


def test_patterns_match_names_but_not_slashes(folder_url):
    folder = local_path(folder_url)
    for name in ("a/1.en", "a/2.en", "a/2.de", "a/b/3.en", "c/4.en"):
        write_text(folder / name, "x")

    def found(pattern: str) -> list[str]:
        return [path.relative_to(folder).as_posix() for path in mirror.matches(folder / pattern)]

    assert found("a/*.en") == ["a/1.en", "a/2.en"]
    assert found("*/?.en") == ["a/1.en", "a/2.en", "c/4.en"]
    assert found("a/[13].en") == ["a/1.en"]
    assert found("none/*.en") == []


def test_many_paths_are_asked_for_at_once(folder_url, tmp_path):
    folder = local_path(folder_url)
    paths = [folder / str(number) for number in range(20)]
    for path in paths[::3]:
        write_text(path, "x")
    assert mirror.existing(paths) == set(paths[::3])
    (tmp_path / "here").touch()
    assert mirror.existing([tmp_path / "here", tmp_path / "not"]) == {tmp_path / "here"}


def test_a_killed_writer_leaves_nothing_visible(folder_url, tmp_path):
    path = local_path(folder_url) / "killed"
    script = (
        "import os, sys\n"
        "from dragoman.storage import files\n"
        "from dragoman.storage.mirror import local_path\n"
        "from dragoman.storage.remote import Store\n"
        "put = Store.put\n"
        "def put_then_die(self, key, data):\n"
        "    put(self, key, data)\n"
        "    if key.endswith('/b'): os._exit(9)\n"
        "Store.put = put_then_die\n"
        "with files.atomic_folder(local_path(sys.argv[1])) as temporary:\n"
        "    for name in 'ab': (temporary / name).write_text(name)\n"
    )
    command = [sys.executable, "-c", script, path_text(path)]
    assert subprocess.run(command).returncode == 9
    store, key = _open(path)
    assert store.list(key)  # Some of its objects are there.
    assert not mirror.exists(path)
    with atomic_folder(path) as temporary:
        for name in "ab":
            (temporary / name).write_text(name)
    assert mirror.names(path) == ["a", "b"]


def test_a_plain_path_costs_almost_nothing(tmp_path):
    path = tmp_path / "a" / "b" / "c" / "file.arrow"
    begin = time.perf_counter()
    for _ in range(10_000):
        locate(path)
    seconds = time.perf_counter() - begin
    assert seconds / 10_000 < 20e-6  # It is below 1 µs; the machine may be busy.
