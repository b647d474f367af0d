"""A server follows the current version of a model, and drops no request when it changes."""

from __future__ import annotations

import asyncio
import time

import pytest

from dragoman.adaptation.versions import VersionedModel
from dragoman.serving.models import WORKER
from dragoman.workflow.exporting import export
from support.history import Client
from support.live_server import live_server
from support.serving import serving
from support.translator_models import lines
from support.version_models import record_for, write_candidate, write_tiny

RATE = 100.0
API_SECONDS = 4.5
"""The shortest time after which an API gives up a request."""


def stub_candidate(folder, number):
    """A model folder whose stub engine writes `V1 ` before each sentence."""
    options = {"version": str(number), "prefix": f"V{number} ", "seconds_per_token": 0.0003}
    return write_tiny(folder / f"candidate {number}", str(number), **options)


async def change_under_load(server, change, version) -> Client:
    """Send requests until the server uses another version, and 100 requests more."""
    # Few at a time: a slow machine would refuse what cannot be ready in time.
    client = Client(server.address, seed=version, most_open=4)
    client.share_cancelled = 0.0

    async def wait_for_change():
        await asyncio.sleep(0.5)
        await asyncio.to_thread(change)
        end = time.monotonic() + 60
        while await client.read_version() != version:
            assert time.monotonic() < end, "the server does not follow"
            await asyncio.sleep(0.1)

    waiting = asyncio.create_task(wait_for_change())
    while not waiting.done():
        await client.send(20, RATE)
    await waiting
    await client.send(100, RATE)
    await client.wait()
    client.close()
    return client


def versions_in(client) -> set[int]:
    """The versions that answered; every request must have an answer from one version."""
    dropped = [
        entry
        for entry in client.history.entries
        # A machine without time for the server makes a request wait until its API gives up.
        if entry.outcome != "answered"
        and not (entry.outcome == "refused" and entry.end - entry.start > API_SECONDS)
    ]
    assert dropped == []
    return {entry.version for entry in client.history.entries if entry.version}


@pytest.mark.slow
def test_a_server_follows_an_adaptation_and_a_rollback_without_a_dropped_request(tmp_path):
    model = VersionedModel.create(tmp_path / "adapted", stub_candidate(tmp_path, 1))
    candidate = stub_candidate(tmp_path, 2)
    with live_server(tmp_path / "server", model.folder, batch_tokens=128) as server:
        added = asyncio.run(
            change_under_load(
                server, lambda: model.add(candidate, record_for(candidate, 2, 1)), version=2
            )
        )
        assert versions_in(added) == {1, 2}
        added.history.check()
        rolled_back = asyncio.run(change_under_load(server, model.rollback, version=1))
        assert versions_in(rolled_back) == {1, 2}
        for entry in rolled_back.history.entries:
            entry.version = {2: 1, 1: 2, 0: 0}[entry.version]  # In the order of their use.
        rolled_back.history.check()
        reloads = server.metrics()['dragoman_model_reloads_total{result="ok"}']
        assert reloads == 2
        assert server.stop() == 0


@pytest.mark.slow
def test_a_link_to_a_missing_version_changes_nothing(tmp_path):
    model = VersionedModel.create(tmp_path / "adapted", stub_candidate(tmp_path, 1))
    link = model.folder / "current"

    def point_to(target):
        link.unlink()
        link.symlink_to(target)

    async def run():
        async with serving(model.folder) as (_, models):
            (old,) = models.versions.values()
            point_to("versions/2")
            assert not await models.reload(only_changed=True)
            assert list(models.versions.values()) == [old]
            # It is tried again when the link changes, and not before.
            assert await models.reload(only_changed=True)
            assert list(models.versions.values()) == [old]
            point_to("versions/1")
            assert await models.reload(only_changed=True)
            (new,) = models.versions.values()
            assert new is not old
            assert new.info == old.info

    asyncio.run(run())


@pytest.mark.slow
def test_a_rollback_restores_the_answers_of_a_real_model_exactly(tmp_path):
    candidates = []
    for number in (1, 2):
        candidates.append(write_candidate(tmp_path / str(number), number))
        export(candidates[-1])  # So that the engines need not load PyTorch.
    model = VersionedModel.create(tmp_path / "adapted", candidates[0])
    texts = lines(20)
    answers = []
    with live_server(tmp_path / "server", model.folder, worker=WORKER, threads=1) as server:

        def read_answers():
            end = time.monotonic() + 60
            expected = model.current.model_sha256[:12]
            while server.request("GET", "/v1/models").json()["models"][0]["version"] != expected:
                assert time.monotonic() < end, "the server does not follow"
                time.sleep(0.1)
            body = {"texts": texts, "source": "en", "target": "de"}
            answers.append(server.request("POST", "/v1/translate", body).json()["translations"])

        read_answers()
        model.add(candidates[1], record_for(candidates[1], 2, 1))
        server.reload()
        read_answers()
        model.rollback()
        server.reload()
        read_answers()
        assert server.stop() == 0
    first, second, third = answers
    assert first == third
    # Small random models give the same answer to some sentences.
    changed = sum(one["text"] != other["text"] for one, other in zip(first, second, strict=True))
    assert changed >= 5
