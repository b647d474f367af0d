"""OpenTelemetry traces of the server: one span per request, without any text.

Needs the extra `otel`; `logs.open_traces` imports this module only if traces are wanted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dragoman.serving.logs import RequestRecord

if TYPE_CHECKING:
    from starlette.types import Scope

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


class Traces:
    """Starts and ends the span of each request; the tracer provider is ours, not the global one."""

    def __init__(self, exporter: SpanExporter) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME", "dragoman")
        self._provider = TracerProvider(resource=Resource.create({"service.name": name}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("dragoman.serving")

    def start(self, scope: Scope) -> Span:
        """Start the span of a request; it continues the trace that the client names."""
        headers = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        parent = TraceContextTextMapPropagator().extract(headers)
        return self._tracer.start_span("request", context=parent, kind=SpanKind.SERVER)

    def end(self, span: Span, method: str, record: RequestRecord) -> None:
        """Name the span by its route, and give it the numbers of the log line but no key id."""
        method = method if method in _METHODS else "_OTHER"
        span.update_name(f"{method} {record.route}")
        span.set_attributes(
            {
                "http.request.method": method,
                "http.route": record.route,
                "http.response.status_code": record.status,
                "dragoman.api": record.api,
                "dragoman.texts": record.texts,
                "dragoman.characters": record.characters,
                "dragoman.model": record.model,
            }
        )
        if record.status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end()

    def close(self) -> None:
        """Send what was not sent yet."""
        self._provider.shutdown()
