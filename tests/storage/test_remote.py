"""Do both kinds of stores keep the same contract, and are credentials kept out of everything?"""

import io
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError, DragomanError
from dragoman.storage import remote
from dragoman.storage.remote import StorageError, Store, open_store, parse_url
from support.s3_server import ACCESS_KEY, SECRET_KEY

_NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="/\\"),
    min_size=1,
    max_size=20,
).filter(lambda name: name not in (".", "..") and "#" not in name)


@pytest.fixture
def place(folder_url) -> tuple[Store, str]:
    """A store and the key of an empty folder in it."""
    url = parse_url(folder_url)
    return open_store(url.bucket), url.key


def test_an_object_is_read_as_it_was_written(place):
    store, folder = place
    key = f"{folder}/a/b.txt"
    assert not store.exists(key)
    store.put(key, b"first")
    store.put(key, b"second text")
    assert store.exists(key)
    assert store.size(key) == 11
    assert store.read(key) == b"second text"
    assert store.read_range(key, 7, 4) == b"text"
    store.delete(key)
    store.delete(key)
    assert not store.exists(key)


def test_a_missing_object_is_named(place):
    store, folder = place
    for read in (store.read, store.size, store.open, lambda key: store.read_range(key, 0, 3)):
        with pytest.raises(FileNotFoundError, match=r"no object (s3|az|file)://.*/absent"):
            read(f"{folder}/absent")
    assert store.info(f"{folder}/absent") is None


def test_a_large_file_is_written_in_parts_and_read_in_blocks(place, tmp_path):
    store, folder = place
    file = tmp_path / "large"
    data = random.Random(1).randbytes(19 << 20)
    file.write_bytes(data)
    store.put(f"{folder}/large", file)
    blocks = list(store.stream(f"{folder}/large"))
    assert [len(block) for block in blocks[:-1]] == [remote.BLOCK_BYTES] * (len(blocks) - 1)
    assert len(blocks) > 2
    assert b"".join(blocks) == data


def test_an_empty_object_is_an_object(place):
    store, folder = place
    store.put(f"{folder}/empty", b"")
    assert store.exists(f"{folder}/empty")
    assert store.read(f"{folder}/empty") == b""
    assert store.open(f"{folder}/empty").read() == b""


def test_a_list_has_the_objects_of_the_folder_only(place):
    store, folder = place
    for name in ("x/2", "x/1", "x/deep/3", "xy/4"):
        store.put(f"{folder}/{name}", b"1")
    expected = [f"{folder}/x/1", f"{folder}/x/2", f"{folder}/x/deep/3"]
    assert store.list(f"{folder}/x") == expected
    assert store.list(f"{folder}/none") == []


def test_a_copy_has_the_same_content(place):
    store, folder = place
    store.put(f"{folder}/a", b"text")
    store.copy(f"{folder}/a", f"{folder}/b/c")
    assert store.read(f"{folder}/b/c") == b"text"
    with pytest.raises(FileNotFoundError):
        store.copy(f"{folder}/none", f"{folder}/d")


def test_of_writers_with_different_contents_exactly_one_wins(place):
    store, folder = place
    contents = [f"writer {number}".encode() for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        won = list(pool.map(lambda data: store.put_if_absent(f"{folder}/once", data), contents))
    assert sum(won) == 1
    assert store.read(f"{folder}/once") == contents[won.index(True)]
    assert store.put_if_absent(f"{folder}/once", contents[won.index(True)])
    assert not store.put_if_absent(f"{folder}/once", b"late")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(_NAMES, min_size=1, max_size=3), data=st.binary(max_size=200))
def test_any_name_and_any_content(place, names, data):
    store, folder = place
    key = "/".join([folder, *names, "end"])
    store.put(key, data)
    assert store.read(key) == data
    assert key in store.list(f"{folder}/{names[0]}")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(0, 5000),
    window=st.integers(1, 2000),
    moves=st.lists(st.tuples(st.integers(0, 2), st.integers(-5500, 5500), st.integers(0, 3000))),
)
def test_random_access_reads_what_a_file_would_give(place, size, window, moves):
    store, folder = place
    data = bytes(number * 7 % 251 for number in range(size))
    store.put(f"{folder}/data", data)
    ours, theirs = store.open(f"{folder}/data", window), io.BytesIO(data)
    for whence, offset, length in moves:
        position = theirs.tell() if whence == 1 else size if whence == 2 else 0
        target = max(0, position + offset)
        assert ours.seek(target - position, whence) == theirs.seek(target)
        assert ours.read(length) == theirs.read(length)
        assert ours.tell() == theirs.tell()


def test_urls_and_paths_are_told_apart():
    assert parse_url("s3://bucket/a//b/./c") == ("s3://bucket", "a/b/c")
    assert parse_url("s3:/bucket/a") == ("s3://bucket", "a")
    assert parse_url("gs://bucket") == ("gs://bucket", "")
    assert parse_url("az://box/x y") == ("az://box", "x y")
    assert parse_url("file:///tmp/x") == ("file://", "tmp/x")
    for path in ("a/b", "/a", "C:/x", "a:b", "s3", "", "./s3:/x"):
        assert parse_url(path) is None


@pytest.mark.parametrize(
    "url",
    [
        "s3://user:secret@bucket/key",
        "s3://user@bucket/key",
        "s3://bucket:secret/key",
        "s3://bucket/key?X-Amz-Signature=secret",
        "az://box/key?sv=1&sig=secret",
        "ftp://user:secret@host/x",
        "s3://bucket/a/../../secret",
        "s3://",
    ],
)
def test_a_url_with_credentials_or_without_sense_is_refused(url):
    with pytest.raises(DataError) as caught:
        parse_url(url)
    if ".." not in url:
        assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_a_wrong_secret_is_refused_without_naming_it(bucket, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    url = parse_url(bucket)
    with pytest.raises(StorageError, match=r"was refused.*AWS_ACCESS_KEY_ID") as caught:
        Store(url.bucket).read(f"{url.key}/x")
    error: BaseException | None = caught.value
    assert error is not None
    assert error.__suppress_context__
    for secret in ("wrong-secret", SECRET_KEY, ACCESS_KEY):
        assert secret not in str(error)


class Refuse(BaseHTTPRequestHandler):
    """Answers 403 to a request for credentials, as a proxy may do."""

    def do_PUT(self):
        self.send_error(403)

    do_GET = do_PUT  # noqa: N815  (the name of the base class)

    def log_message(self, *_):
        pass


def test_missing_credentials_are_named_at_once(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # Without credentials in the environment, the client asks the machine's own service.
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.raises(StorageError, match=r"was refused.*missing.*AWS_ACCESS_KEY_ID"):
            Store("s3://texts", attempts=2, pause=60).read("a/b")
        server.shutdown()


def test_a_store_that_cannot_be_reached_ends_in_a_plain_error(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-key")
    store = Store("s3://texts", attempts=2, pause=0.01)
    with pytest.raises(StorageError) as caught:
        store.read("a/b")
    message = str(caught.value)
    for part in ("s3://texts/a/b", "failed 2 times", "no connection", "type the same command"):
        assert part in message
    assert "the-access-key" not in message
    assert "the-secret-key" not in message
    assert isinstance(caught.value, DragomanError)
    assert caught.value.exit_code == 74


class _NotFound(BaseHTTPRequestHandler):
    """Answers as S3 does if there is no bucket of this name."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_bucket_that_does_not_exist_is_named(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), _NotFound) as answering:
        threading.Thread(target=answering.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{answering.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_REGION", "here")
        store = Store("s3://typo")
        for write in (store.put, store.put_if_absent):
            with pytest.raises(StorageError, match=r"there is no bucket s3://typo; create it"):
                write("a", b"x")
        answering.shutdown()


def test_pauses_between_attempts_grow(monkeypatch, tmp_path):
    pauses: list[float] = []
    monkeypatch.setattr(remote.time, "sleep", pauses.append)
    monkeypatch.setattr(remote.random, "uniform", lambda low, high: 1.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    with pytest.raises(StorageError):
        Store("s3://texts", attempts=5, pause=0.5).read("x")
    assert pauses == [0.5, 1.0, 2.0, 4.0]
    assert all(later == 2 * earlier for earlier, later in pairwise(pauses))


def test_an_unencrypted_connection_is_only_for_this_machine(monkeypatch):
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    for endpoint, is_allowed in (
        ("http://127.0.0.1:1", True),
        ("http://localhost:1", True),
        ("http://store.example", False),
        ("", False),
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert remote._allows_http() is is_allowed
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert remote._allows_http()


def test_without_the_package_the_error_says_what_to_install():
    script = (
        "import sys; sys.modules['obstore'] = None\n"
        "from dragoman.storage.remote import Store\n"
        "from dragoman.errors import MissingExtraError\n"
        "try: Store('s3://texts')\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pip install 'dragoman[cloud]'" in done.stdout


def test_plain_paths_do_not_load_the_package():
    script = (
        "import sys; from pathlib import Path\n"
        "from dragoman.storage.files import write_text\n"
        "from dragoman.storage.mirror import fetch, local_path\n"
        "fetch(local_path('x', Path('/tmp')))\n"
        "print('obstore' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
