"""The metrics: what Prometheus reads, on an address of its own."""

import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.errors import ListenError
from dragoman.serving.interface import ServerSettings
from dragoman.serving.metrics import Metrics, serve_metrics, stop_metrics
from dragoman.serving.server import run_server

APIS = ("libretranslate", "deepl", "apertium", "native", "other")


@pytest.fixture
def scrape():
    servers = []

    def scrape_metrics(metrics):
        server = serve_metrics(metrics, "127.0.0.1", 0)
        servers.append(server)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {
                (sample.name, *sorted(sample.labels.items())): sample.value
                for family in families
                for sample in family.samples
            }

    yield scrape_metrics
    for server in servers:
        stop_metrics(server)


def use_everything(metrics):
    for api in APIS:
        for status in (100, 200, 201, 204, 304, 400, 403, 404, 413, 429, 456, 499, 500, 503, 529):
            metrics.request(api, status, 0.2)
    for seconds in (0.001, 2.0, 1000.0):
        metrics.batch(round(seconds * 100), seconds)
    metrics.wasted(12)
    metrics.expired()
    metrics.waiting(3, 70)
    metrics.waiting(-1, -20)
    metrics.reloaded(is_ok=True)
    metrics.reloaded(is_ok=False)
    metrics.engine_restarted()


def test_there_are_few_series_and_requests_add_none(scrape):
    metrics = Metrics()
    before = set(scrape(metrics))
    use_everything(metrics)
    after = set(scrape(metrics))
    assert after == before
    assert 100 < len(after) <= 200
    labels = {label for _, *labels in after for label in labels}
    assert {name for name, _ in labels} == {"api", "status", "outcome", "le", "result"}


def test_the_values(scrape):
    metrics = Metrics()
    use_everything(metrics)
    values = scrape(metrics)
    deepl = ("api", "deepl")
    assert values["dragoman_requests_total", deepl, ("status", "2xx")] == 4
    assert values["dragoman_requests_total", deepl, ("status", "4xx")] == 6
    assert values["dragoman_requests_total", deepl, ("status", "5xx")] == 3
    assert values["dragoman_requests_total", deepl, ("status", "gone")] == 1
    counts = {
        outcome: values["dragoman_request_seconds_count", deepl, ("outcome", outcome)]
        for outcome in ("ok", "refused", "failed")
    }
    assert counts == {"ok": 5, "refused": 8, "failed": 1}
    assert values["dragoman_queue_tokens",] == 50
    assert values["dragoman_queue_segments",] == 2
    assert values["dragoman_tokens_wasted_total",] == 12
    assert values["dragoman_batch_seconds_bucket", ("le", "5.0")] == 2
    assert values["dragoman_model_reloads_total", ("result", "failed")] == 1
    assert values["dragoman_engine_restarts_total",] == 1
    assert values["process_resident_memory_bytes",] > 1e6


def test_two_servers_in_one_process_count_apart(scrape):
    first, second = Metrics(), Metrics()
    first.expired()
    assert scrape(first)["dragoman_expired_total",] == 1
    assert scrape(second)["dragoman_expired_total",] == 0


def test_a_stopped_server_frees_its_port():
    server = serve_metrics(Metrics(), "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.server_port}/"
    stop_metrics(server)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)
    stop_metrics(serve_metrics(Metrics(), "127.0.0.1", server.server_port))


def test_a_port_that_is_in_use_is_said_before_a_model_is_loaded(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = ServerSettings(runs=(tmp_path / "missing",), port=0, metrics_port=port)
        with pytest.raises(ListenError, match=f"port {port} for metrics: .*--metrics-port"):
            run_server(settings, lambda *_: None)
