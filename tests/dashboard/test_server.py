"""The server of the dashboard: what it answers, to whom, and how it ends."""

import http.client
import json
import threading
import time

import pytest

from dragoman.dashboard import server as server_module
from dragoman.dashboard.run_data import read_heading
from dragoman.dashboard.server import DashboardServer
from dragoman.errors import ListenError, Stopped
from dragoman.training.events import UpdateCompleted
from support.dashboard import write_run


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server that does not wait for a last request at the end."""
    monkeypatch.setattr(server_module, "_LAST_ANSWER_SECONDS", 0.0)
    folder = write_run(tmp_path / "run")
    server = DashboardServer(folder, read_heading(folder), step=0)
    with server.serving():
        yield server


def get(server, path="", host=None):
    """Send a request to a path below the address of the page; return the answer."""
    _, _, authority, key, _ = server.address.split("/")
    connection = http.client.HTTPConnection(authority, timeout=10)
    connection.request("GET", f"/{key}/{path}", headers={"Host": host or authority})
    answer = connection.getresponse()
    answer.body = answer.read()
    connection.close()
    return answer


def test_the_page_and_its_data_are_served(server):
    page = get(server)
    assert page.status == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
    server.show(UpdateCompleted(7, 3.0, 60.0))
    data = json.loads(get(server, "data?journal=0&samples=0").body)
    assert data["status"]["step"] == 7
    assert data["status"]["state"] == "training"
    assert len(data["points"]["progress"]) == 30
    position = data["points"]["position"]
    rest = json.loads(get(server, f"data?journal={position['journal']}&samples=0").body)
    assert rest["points"]["progress"] == []
    assert len(rest["points"]["samples"]) == 1


def test_wrong_positions_and_addresses_are_harmless(server):
    for query in ("", "journal=-1", "journal=x&samples=%C2%B2", "journal=99999999999999999999"):
        assert len(json.loads(get(server, f"data?{query}").body)["points"]["progress"]) == 30
    assert get(server, "../../etc/passwd").status == 404
    assert get(server, "journal.jsonl").status == 404


def test_only_names_of_this_machine_and_the_key_open_it(server):
    assert get(server, host="localhost:1234").status == 200  # A forwarded port has another number.
    assert get(server, host="[::1]:1").status == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "[", "localhost@evil.example"):
        assert get(server, host=host).status == 403
    authority = server.address.split("/")[2]
    connection = http.client.HTTPConnection(authority, timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().status == 404
    connection.close()


def test_it_listens_on_the_loopback_interface_only(server):
    assert server.address.startswith("http://127.0.0.1:")


def test_a_port_that_is_in_use_is_an_error_that_says_what_to_do(server, tmp_path):
    port = int(server.address.split("/")[2].split(":")[1])
    with pytest.raises(ListenError, match="Choose another --dashboard-port"):
        DashboardServer(tmp_path, read_heading(tmp_path / "run"), 0, port)


def test_an_open_page_is_told_how_the_training_ended(tmp_path):
    folder = write_run(tmp_path / "run")
    server = DashboardServer(folder, read_heading(folder), step=0)
    states = []

    def poll():
        while not states or states[-1]["state"] == "training":
            states.append(json.loads(get(server, "data").body)["status"])
            time.sleep(0.05)

    def train():
        with server.serving():
            page.start()
            while not states:
                time.sleep(0.01)
            raise Stopped("stopped and saved at update 8")

    page = threading.Thread(target=poll)
    with pytest.raises(Stopped):
        train()
    page.join(10)
    assert states[-1]["state"] == "stopped"
    assert states[-1]["text"] == "stopped and saved at update 8"


def test_without_an_open_page_nothing_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(server_module, "_LAST_ANSWER_SECONDS", 100.0)
    folder = write_run(tmp_path / "run")
    with DashboardServer(folder, read_heading(folder), step=0).serving():
        pass
