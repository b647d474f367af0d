"""The metrics of the server, in the format of Prometheus.

There are fewer than 200 series: all labels have a fixed set of values, and none contains a text, a
key or an address. Each process of the server has its own metrics on its own port.
"""

from __future__ import annotations

from typing import Literal, get_args
from wsgiref.simple_server import WSGIServer

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Api = Literal["libretranslate", "deepl", "apertium", "native", "other"]
"""`other`: the page for people. Unknown addresses count as `libretranslate`."""

CLIENT_GONE = 499
"""In place of a status, if the client closed the connection before the answer."""

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 20.0)
"""5 s and 20 s are the deadlines of the APIs."""
_TOKENS = (16, 64, 128, 256, 512, 1024, 2048)
_STATUSES = ("2xx", "3xx", "4xx", "5xx", "gone")
_OUTCOMES = ("ok", "refused", "failed")
_REFUSALS = (503, 529)


class Metrics:
    """Counters of one process of the server; they have a registry of their own."""

    def __init__(self) -> None:
        # Their time of creation would double the number of series of counters.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "dragoman_requests",
            "Requests that ended, by status.",
            ["api", "status"],
            registry=self.registry,
        )
        self._latency = Histogram(
            "dragoman_request_seconds",
            "Time from the request to the end of the answer.",
            ["api", "outcome"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._queue_tokens = Gauge(
            "dragoman_queue_tokens", "Estimated tokens that wait.", registry=self.registry
        )
        self._queue_segments = Gauge(
            "dragoman_queue_segments", "Segments that wait.", registry=self.registry
        )
        self._batch_tokens = Histogram(
            "dragoman_batch_tokens",
            "Estimated tokens of a batch.",
            buckets=_TOKENS,
            registry=self.registry,
        )
        self._batch_seconds = Histogram(
            "dragoman_batch_seconds",
            "Time in which the engine translated a batch.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._wasted = Counter(
            "dragoman_tokens_wasted",
            "Tokens that were translated for a client that was gone.",
            registry=self.registry,
        )
        self._expired = Counter(
            "dragoman_expired", "Calls whose deadline passed in the queue.", registry=self.registry
        )
        self._reloads = Counter(
            "dragoman_model_reloads",
            "Reloads of a model, by result.",
            ["result"],
            registry=self.registry,
        )
        self._restarts = Counter(
            "dragoman_engine_restarts",
            "Engine processes that ended and were started again.",
            registry=self.registry,
        )
        self._create_series()

    def _create_series(self) -> None:
        """Create all series with 0, so that a rate is right from the first request on."""
        for api in get_args(Api):
            for status in _STATUSES:
                self._requests.labels(api, status)
            for outcome in _OUTCOMES if api != "other" else ():
                self._latency.labels(api, outcome)
        for result in ("ok", "failed"):
            self._reloads.labels(result)

    def request(self, api: Api, status: int, seconds: float) -> None:
        """Count a request that ended; the latency of `other` is not measured."""
        if status == CLIENT_GONE:
            self._requests.labels(api, "gone").inc()
            return
        self._requests.labels(api, f"{min(max(status // 100, 2), 5)}xx").inc()
        if api != "other":
            self._latency.labels(api, _outcome(status)).observe(seconds)

    def batch(self, tokens: int, seconds: float) -> None:
        """Record a batch that was translated."""
        self._batch_tokens.observe(tokens)
        self._batch_seconds.observe(seconds)

    def wasted(self, tokens: int) -> None:
        """Count tokens that were translated for a call that was cancelled."""
        self._wasted.inc(tokens)

    def expired(self) -> None:
        """Count a call whose deadline passed."""
        self._expired.inc()

    def waiting(self, segments: int, tokens: int) -> None:
        """Add to what waits in all queues; a negative number is subtracted."""
        self._queue_segments.inc(segments)
        self._queue_tokens.inc(tokens)

    def reloaded(self, *, is_ok: bool) -> None:
        """Count a reload of a model; if it failed, the old model stays."""
        self._reloads.labels("ok" if is_ok else "failed").inc()

    def engine_restarted(self) -> None:
        """Count an engine process that ended and was started again."""
        self._restarts.inc()


def serve_metrics(metrics: Metrics, host: str, port: int) -> WSGIServer:
    """Answer Prometheus on an address of its own, in a thread; end it with `stop_metrics`.

    Port 0 takes a free one: `server.server_port`.
    """
    server, _ = prometheus_client.start_http_server(port, host, metrics.registry)
    return server


def stop_metrics(server: WSGIServer) -> None:
    """Stop the thread and close the port."""
    server.shutdown()
    server.server_close()


def _outcome(status: int) -> str:
    if status < 400:
        return "ok"
    return "refused" if status < 500 or status in _REFUSALS else "failed"
