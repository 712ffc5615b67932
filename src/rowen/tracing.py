"""OpenTelemetry spans of incoming requests, runs, and outgoing requests, if a collector is configured.

Without a collector, nothing is imported, and a span costs one lookup of a variable.
"""

import atexit
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

from rowen.version import how_to_install

log = logging.getLogger(__name__)

Facts: TypeAlias = Mapping[str, str | int | float | bool | None]
Note: TypeAlias = Callable[[Facts], None]
"""Adds facts to an open span."""

# Variables defined by OpenTelemetry; other programs use the same names.
_COLLECTORS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@contextmanager
def span(name: str, facts: Facts, *, is_server: bool = False, is_client: bool = False) -> Iterator[Note]:
    """Send the duration of a block to the collector; if the block raises, mark the span as failed.

    Only the type of the exception is sent. Facts never contain private data: no query of an address, no header, no
    error message.
    """
    tracer = _tracer()
    if tracer is None:
        yield lambda _: None
        return
    from opentelemetry.trace import SpanKind, Status, StatusCode

    kind = SpanKind.SERVER if is_server else SpanKind.CLIENT if is_client else SpanKind.INTERNAL
    started = tracer.start_as_current_span(
        name, kind=kind, attributes=_present(facts), record_exception=False, set_status_on_exception=False
    )
    with started as opened:
        try:
            yield lambda more: opened.set_attributes(_present(more))
        except BaseException as problem:
            opened.set_attributes({"error.type": type(problem).__name__})
            opened.set_status(Status(StatusCode.ERROR))
            raise


def _present(facts: Facts) -> dict[str, str | int | float | bool]:
    return {name: value for name, value in facts.items() if value is not None}


@cache
def _tracer() -> Any:
    """Return the tracer; None if no collector is configured or its packages are missing."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if is_off or not any(os.environ.get(name) for name in _COLLECTORS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider, export
    except ImportError:
        log.warning("traces are disabled: `%s` installs the missing packages", how_to_install("telemetry"))
        return None
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
    name = os.environ.get("OTEL_SERVICE_NAME") or "rowen"
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(export.BatchSpanProcessor(OTLPSpanExporter()))
    atexit.register(provider.shutdown)
    return provider.get_tracer("rowen")
