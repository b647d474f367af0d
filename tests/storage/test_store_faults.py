"""Does the storage layer lose nothing and publish nothing by halves when a store fails often?"""

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.storage import mirror
from dragoman.storage.files import atomic_folder, sha256, write_text
from dragoman.storage.folder_manifest import read_folder_manifest
from dragoman.storage.mirror import fetch, local_path, locate
from dragoman.storage.remote import StorageError, Store, open_store, parse_url
from support.fault_proxy import FAULTS, fault_proxy

pytestmark = pytest.mark.slow


@pytest.fixture
def proxied(server, bucket, monkeypatch):
    """The URL of a folder, behind a proxy that spoils a fifth of the requests."""
    with fault_proxy(server.address) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        open_store.cache_clear()
        yield proxy, bucket


def test_nothing_is_lost_and_nothing_is_half_published(proxied, tmp_path):
    proxy, url = proxied
    folder = local_path(url)
    rng = random.Random(5)
    contents = {f"file-{number}": rng.randbytes(rng.randrange(200_000)) for number in range(12)}
    contents["large"] = rng.randbytes(17 << 20)

    def write(name: str) -> None:
        path = folder / name
        with atomic_folder(path) as temporary:
            for part in ("a", "b"):
                (temporary / part).write_bytes(contents[name] + part.encode())
        write_text(folder / "texts" / name, name)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, contents))
    for name, data in contents.items():
        fetched = fetch(folder / name)
        assert (fetched / "a").read_bytes() == data + b"a"
        with mirror.open_stream(folder / name / "b") as file:
            assert file.read() == data + b"b"
        assert mirror.read_text(folder / "texts" / name) == name
    # Every kind of fault occurred, about a fifth of all requests.
    mirror_names = [mirror.names(folder / "texts") for _ in range(40)]
    assert sorted(contents) in mirror_names
    assert set(proxy.counts) == set(FAULTS)
    assert 0.1 < proxy.counts.total() / proxy.requests < 0.3


def test_of_many_writers_one_wins_also_if_answers_are_lost(proxied):
    _, url = proxied
    place = parse_url(url)
    store = open_store(place.bucket)
    for round_ in range(10):
        contents = [f"{round_}: writer {number}".encode() for number in range(6)]
        key = f"{place.key}/once-{round_}"
        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(lambda data, key=key: store.put_if_absent(key, data), contents))
        assert sum(won) == 1
        assert store.read(key) == contents[won.index(True)]


def test_two_folders_with_other_content_race_behind_faults(proxied):
    _, url = proxied
    path = local_path(url) / "race"

    def write(text: str) -> None:
        with atomic_folder(path) as temporary:
            for name in ("a", "b", "c"):
                (temporary / name).write_text(text)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, ["one", "two", "three", "four"]))
    fetched = fetch(path)
    assert len({(fetched / name).read_text() for name in ("a", "b", "c")}) == 1


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "stale list"])
def test_a_store_that_always_fails_ends_in_a_plain_error(server, bucket, monkeypatch, fault):
    place = parse_url(bucket)
    open_store(place.bucket).put(f"{place.key}/x", b"content")
    with fault_proxy(server.address, share=1.0, faults=(fault,)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        store = Store(place.bucket, attempts=3, pause=0.01)
        begin = time.monotonic()
        with pytest.raises(StorageError) as caught:
            store.read(f"{place.key}/x")
        assert time.monotonic() - begin < 30
        # Three attempts with at most four requests each, of two kinds.
        assert proxy.requests <= 2 * 3 * 4 + 1
    message = str(caught.value)
    assert f"{bucket}/x failed 3 times" in message
    assert "type the same command again" in message
    for secret in server.variables.values():
        if secret.startswith("test-"):
            assert secret not in message


def test_a_failed_upload_leaves_the_folder_invisible(server, bucket, monkeypatch):
    path = local_path(bucket) / "failed"
    url = locate(path)
    open_store(url.bucket)
    with fault_proxy(server.address, share=1.0, faults=("error after effect",)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        monkeypatch.setattr(
            "dragoman.storage.files.open_store", lambda name: Store(name, attempts=2, pause=0.01)
        )
        with pytest.raises(StorageError), atomic_folder(path) as temporary:
            (temporary / "a").write_text("A")
    assert read_folder_manifest(open_store(url.bucket), url.key) is None
    assert not mirror.exists(path)


def test_hashes_through_faults_are_those_of_the_content(proxied, tmp_path):
    _, url = proxied
    file = tmp_path / "file"
    file.write_bytes(random.Random(9).randbytes(9 << 20))
    place = parse_url(url)
    open_store(place.bucket).put(f"{place.key}/file", file)
    assert sha256(local_path(url) / "file") == sha256(file)
