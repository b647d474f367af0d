"""The server as a process: it starts, answers, and ends."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from support.live_server import live_server
from support.serving import write_stub

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_starts_answers_and_ends(tmp_path, processes):
    run = write_stub(tmp_path / "run", function="upper")
    with live_server(tmp_path / "server", run, processes=processes) as server:
        assert server.translate("Hello world.") == "HELLO WORLD."
        assert server.request("GET", "/readyz").json() == {"status": "ready"}
        assert server.request("GET", "/nothing").status == 404
        assert 50 < len(server.metrics()) < 200
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.log().splitlines()]
        assert {line["level"] for line in lines} == {"info"}
        assert "ello" not in server.log().lower()


def test_a_reload_while_the_models_are_loaded_does_not_end_the_server(tmp_path):
    run = write_stub(tmp_path / "run", function="upper", asks_for_reload=True)
    with live_server(tmp_path / "server", run) as server:
        assert server.translate("Hello world.") == "HELLO WORLD."


@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_without_a_model_ends(tmp_path, processes):
    run = write_stub(tmp_path / "run", is_broken=True)
    folder = tmp_path / "server"
    with (
        pytest.raises(AssertionError, match="broken stub"),
        live_server(folder, run, processes=processes),
    ):
        pass
    assert "started again" not in (folder / "server.log").read_text()


def test_a_mistake_in_the_options_is_said_before_a_model_is_loaded(tmp_path):
    run = write_stub(tmp_path / "run", is_broken=True)
    with (
        pytest.raises(AssertionError, match=r"expected an address \(10.0.0.5\) or a network"),
        live_server(tmp_path / "server", run, trusted_proxies=("proxy.example",)),
    ):
        pass


def test_a_process_that_dies_is_started_again(tmp_path):
    run = write_stub(tmp_path / "run")
    with live_server(tmp_path / "server", run, processes=2) as server:
        # The children of the first process are servers here, not engines.
        first, second = server.engines()
        os.kill(first, signal.SIGKILL)
        for _ in range(20):
            assert server.translate("Hello.") == "Hello."
        end = time.monotonic() + 60
        while len(server.engines()) < 2 or first in server.engines():
            assert time.monotonic() < end
            time.sleep(0.1)
        assert second in server.engines()
        assert server.translate("Hello.") == "Hello."
        assert server.stop() == 0
