"""Engine processes: batches, crashes, reloads and pivots, with real child processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from dragoman.errors import ArtifactError
from dragoman.serving.engines import EngineProcess, fingerprint
from dragoman.serving.interface import Caller, ServiceError, TextRequest
from dragoman.serving.worker import WorkerSettings
from dragoman.storage.remote import StorageError
from support.serving import serving, write_stub
from support.stub_worker import CRASH

CALLER = Caller("test", deadline=20.0)


async def texts(service, *sources, caller=CALLER, source="en", target="de", **more):
    request = TextRequest(sources, target, source, **more)
    return [result.text for result in await service.translate(request, caller)]


def test_texts_are_translated_in_order_with_spans_and_line_breaks(tmp_path):
    async def run():
        async with serving(write_stub(tmp_path / "run", function="upper")) as (service, _):
            sources = ("Save %s now.", "", "  \n", "One line.\r\nTwo lines. Three.", "x" * 2000)
            assert await texts(service, *sources) == [
                "SAVE %s NOW.",
                "",
                "  \n",
                "ONE LINE.\r\nTWO LINES. THREE.",
                "X" * 2000,
            ]

    asyncio.run(run())


def test_a_missing_model_is_named(tmp_path):
    async def run():
        with pytest.raises(ArtifactError, match="broken stub"):
            async with serving(write_stub(tmp_path / "run", is_broken=True)):
                pass
        with pytest.raises(ArtifactError, match="both translate from en to de"):
            async with serving(write_stub(tmp_path / "a"), write_stub(tmp_path / "b")):
                pass

    asyncio.run(run())


def test_an_engine_that_does_not_describe_its_model_is_an_error(tmp_path):
    async def run():
        # The watcher of models ends with any other error.
        with pytest.raises(ArtifactError, match="did not describe its model"):
            await EngineProcess.start(WorkerSettings(run=str(tmp_path)), "this")

    asyncio.run(run())


def test_a_folder_that_is_out_of_reach_is_no_error_for_the_watcher(tmp_path, monkeypatch):
    def fail(folder):
        raise StorageError("the store does not answer")

    before = fingerprint(tmp_path)
    monkeypatch.setattr("dragoman.serving.engines.resolve_model", fail)
    assert fingerprint(tmp_path) == before


@pytest.mark.slow
def test_only_the_text_that_ends_the_engine_fails(tmp_path):
    async def run():
        async with serving(write_stub(tmp_path / "run", slots=1)) as (service, models):
            calls = [texts(service, f"Text {number}.") for number in range(10)]
            bad = texts(service, f"Now {CRASH}.")
            results = await asyncio.gather(*calls, bad, *calls[:0], return_exceptions=True)
            assert results[:10] == [[f"Text {number}."] for number in range(10)]
            assert isinstance(results[10], ServiceError)
            assert results[10].kind == "internal"
            (version,) = models.versions.values()
            assert await texts(service, "Still here.") == ["Still here."]
            restarts = version.restarts
            assert restarts == 2
            # The text is refused now without another crash.
            with pytest.raises(ServiceError):
                await texts(service, f"Now {CRASH}.")
            assert version.restarts == restarts
            assert await texts(service, "Still here.") == ["Still here."]

    asyncio.run(run())


@pytest.mark.slow
def test_a_killed_engine_loses_no_request(tmp_path):
    async def run():
        stub = write_stub(tmp_path / "run", seconds_per_token=0.01)
        async with serving(stub, batch_tokens=30) as (service, models):
            calls = [
                asyncio.create_task(texts(service, f"This is text {number}."))
                for number in range(20)
            ]
            await asyncio.sleep(0.2)
            (version,) = models.versions.values()
            os.kill(version.process_id, signal.SIGKILL)
            assert await asyncio.gather(*calls) == [
                [f"This is text {number}."] for number in range(20)
            ]
            assert version.restarts == 1

    asyncio.run(run())


@pytest.mark.slow
def test_a_request_is_answered_by_one_version_during_reloads(tmp_path):
    async def run():
        folder = write_stub(tmp_path / "run", version="1", prefix="V1 ", seconds_per_token=0.002)
        async with serving(folder, batch_tokens=20) as (service, models):

            async def client(number):
                request = TextRequest(
                    (f"Text {number} is long. It has two sentences.",), "de", "en"
                )
                (result,) = await service.translate(request, CALLER)
                return number, result

            answers = []
            for version in ("2", "3", "broken"):
                calls = [asyncio.create_task(client(number)) for number in range(10)]
                await asyncio.sleep(0.05)
                is_broken = version == "broken"
                write_stub(
                    folder,
                    version=version,
                    prefix=f"V{version} ",
                    seconds_per_token=0.002,
                    is_broken=is_broken,
                )
                assert await models.reload() is not is_broken
                answers += await asyncio.gather(*calls)
            answers.append(await client(99))
            for number, result in answers:
                prefix = f"V{result.model} "
                assert (
                    result.text == f"{prefix}Text {number} is long. {prefix}It has two sentences."
                )
            assert answers[-1][1].model == "3"

    asyncio.run(run())


@pytest.mark.slow
def test_two_models_are_joined_by_a_pivot_language(tmp_path):
    async def run():
        first = write_stub(tmp_path / "a", source="de", target="en", function="brackets")
        second = write_stub(tmp_path / "b", source="en", target="fr", function="brackets")
        async with serving(first, second) as (service, _):
            request = TextRequest(("Die Datei ist offen.",), "FR", "DE")
            (result,) = await service.translate(request, CALLER)
            assert (result.text, result.pivot, result.source) == (
                "[[Die Datei ist offen.]]",
                "en",
                "de",
            )
            assert result.model == "1+1"
            targets = {language.code: language.targets for language in service.languages()}
            assert targets == {"de": ("en", "fr"), "en": ("fr",), "fr": ()}
            with pytest.raises(ServiceError, match="not available as a target"):
                await texts(service, "x", source="fr", target="de")
            with pytest.raises(ServiceError, match="xx is not supported"):
                await texts(service, "x", source="en", target="xx")

    asyncio.run(run())


@pytest.mark.slow
def test_overload_is_refused_at_once_and_expired_work_is_dropped(tmp_path):
    async def run():
        stub = write_stub(tmp_path / "run", seconds_per_token=0.01, slots=1)
        async with serving(stub, batch_tokens=40) as (service, models):
            (version,) = models.versions.values()
            version.queue.speed = 100.0
            hurried = Caller("hurried", deadline=3.0)
            calls = [texts(service, "Four words are here.", caller=hurried) for _ in range(100)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            refused = [one for one in results if isinstance(one, ServiceError)]
            assert {error.kind for error in refused} == {"overloaded"}
            assert 5 <= len(results) - len(refused) < 100
            assert version.queue.waiting_tokens == 0

    asyncio.run(run())


@pytest.mark.slow
def test_interactive_requests_pass_bulk_and_cancelled_work_is_dropped(tmp_path):
    async def run():
        stub = write_stub(tmp_path / "run", seconds_per_token=0.002, slots=1)
        async with serving(stub, batch_tokens=60) as (service, models):
            (version,) = models.versions.values()
            loop = asyncio.get_running_loop()
            bulk = asyncio.create_task(texts(service, *[f"Bulk text {n}." for n in range(400)]))
            await asyncio.sleep(0.2)
            start = loop.time()
            assert await texts(service, "Quick.", caller=Caller("other")) == ["Quick."]
            assert loop.time() - start < 0.5
            assert not bulk.done()
            bulk.cancel()
            with pytest.raises(asyncio.CancelledError):
                await bulk
            assert version.queue.waiting_tokens == 0

    asyncio.run(run())


@pytest.mark.slow
def test_an_engine_that_finds_another_model_begins_its_requests_again(tmp_path):
    async def run():
        folder = write_stub(tmp_path / "run", version="1", prefix="V1 ", seconds_per_token=0.003)
        async with serving(folder, batch_tokens=20) as (service, models):
            (old,) = models.versions.values()
            sources = [f"Text {number} is long. It has two sentences." for number in range(10)]
            request = TextRequest(tuple(sources), "de", "en")
            call = asyncio.create_task(service.translate(request, CALLER))
            await asyncio.sleep(0.1)
            write_stub(folder, version="2", prefix="V2 ", seconds_per_token=0.003)
            os.kill(old.process_id, signal.SIGKILL)
            results = await call
            assert {result.model for result in results} == {"2"}
            assert [result.text.count("V2 ") for result in results] == [2] * 10
            assert "V1" not in "".join(result.text for result in results)
            (new,) = models.versions.values()
            assert (new.info.version, old.restarts) == ("2", 1)

    asyncio.run(run())


@pytest.mark.slow
def test_a_replaced_version_whose_engine_dies_begins_its_requests_again(tmp_path):
    async def run():
        folder = write_stub(tmp_path / "run", version="1", prefix="V1 ", seconds_per_token=0.05)
        async with serving(folder, batch_tokens=20) as (service, models):
            (old,) = models.versions.values()
            patient = Caller("patient", deadline=60.0)
            # It has been started again once before.
            os.kill(old.process_id, signal.SIGKILL)
            assert await texts(service, "One.") == ["V1 One."]
            sources = [f"Text {n}." for n in range(300)]
            call = asyncio.create_task(texts(service, *sources, caller=patient))
            await asyncio.sleep(0.1)
            write_stub(folder, version="2", prefix="V2 ")
            assert await models.reload()
            assert not call.done()
            os.kill(old.process_id, signal.SIGKILL)
            assert await call == [f"V2 Text {n}." for n in range(300)]

    asyncio.run(run())


def test_an_engine_whose_server_has_gone_ends_without_a_word(tmp_path):
    folder = write_stub(tmp_path / "run")
    engine = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "support.stub_worker",
            WorkerSettings(run=str(folder)).model_dump_json(),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    engine.stdout.close()
    engine.stdin.close()
    assert engine.stderr.read() == b""
    assert engine.wait(60) == 0
    engine.stderr.close()
