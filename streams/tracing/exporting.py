"""Spans by OpenTelemetry's SDK, sent over OTLP by a thread of its own; imported only where tracing is on.

A collector that is away, slow or refuses costs spans and nothing else: at most MAX_WAITING wait, the rest is dropped,
and each is counted by what became of it.
"""

import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace import Span as TheirSpan

from streams import metrics
from streams.tracing import conventions as names
from streams.tracing.spans import SAMPLED, Span

log = logging.getLogger(__name__)

MAX_WAITING: Final = 2048  # spans that are not sent yet
SEND_EVERY_MS, SENT_AT_ONCE = 5000, 512  # sending takes milliseconds of CPU time, however few spans there are
SEND_S: Final = 5.0  # for the collector to take a batch, repetitions included
CLOSE_S: Final = 3.0  # for what waits, when the process ends
KINDS: Final = {"consumer": SpanKind.CONSUMER, "server": SpanKind.SERVER, "internal": SpanKind.INTERNAL}
EVERY: Final = b"g"  # above all hexadecimal digits


class OtelSpan:
    """A `Span` of the SDK."""

    def __init__(self, span: TheirSpan) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = b"00-%032x-%016x-%b" % (context.trace_id, context.span_id, SAMPLED)

    def set(self, attributes: Mapping[str, Any]) -> None:
        self._span.set_attributes(attributes)

    def fail(self, kind: str) -> None:
        self._span.set_status(Status(StatusCode.ERROR))
        self._span.set_attribute(names.ERROR, kind)

    def link(self, other: Span) -> None:
        self._span.add_link(_context_of(other.traceparent))

    def end(self, at_ns: int | None = None) -> None:
        self._span.end(at_ns)


class OtelRecorder:
    """A `Recorder` whose spans go to a collector; each role is a service of its own."""

    def __init__(self, exporter: SpanExporter, ratio: float, prefix: str) -> None:
        """`ratio`: share of the traces that are recorded, besides those that their beginners want recorded."""
        self.prefix = prefix
        self._below = EVERY if ratio >= 1 else b"%016x" % round(ratio * 2**64)
        self._sending = Sending(exporter)
        self._ids = TraceIds()
        self._lock = threading.Lock()
        self._tracers: dict[str, Tracer] = {}

    def samples(self, traceparent: bytes) -> bool:
        """Whether a trace is recorded: by its flag, or by the lower half of its id, as TraceIdRatioBased does."""
        return traceparent[53:55] == SAMPLED or traceparent[19:35] < self._below

    def begin(
        self, role: str, name: str, cause: bytes, attributes: Mapping[str, Any], *, kind: str, at_ns: int | None = None
    ) -> OtelSpan:
        tracer, parent = self._tracer(role), _context_of(cause)
        context = Context()
        if cause[53:55] == SAMPLED:
            context = set_span_in_context(NonRecordingSpan(parent), context)
        with self._ids.of_trace(parent.trace_id):
            return OtelSpan(tracer.start_span(name, context, KINDS[kind], attributes, start_time=at_ns))

    def _tracer(self, role: str) -> Tracer:
        with self._lock:
            found = self._tracers.get(role)
            if found is None:
                facts = {
                    names.SERVICE: f"pochade-{role}",
                    names.NAMESPACE: self.prefix,
                    names.INSTANCE: f"{socket.gethostname()}-{os.getpid()}",
                }
                provider = TracerProvider(ALWAYS_ON, Resource(facts), shutdown_on_exit=False, id_generator=self._ids)
                provider.add_span_processor(self._sending)
                found = self._tracers[role] = provider.get_tracer("pochade", schema_url=names.SCHEMA_URL)
            return found

    def flush(self) -> None:
        """Send what waits, now and in this thread."""
        self._sending.force_flush()

    def close(self) -> None:
        """Send what waits, for CLOSE_S at most."""
        closing = threading.Thread(target=self._sending.shutdown, name="spans-closing", daemon=True)
        closing.start()
        closing.join(CLOSE_S)


def _context_of(traceparent: bytes) -> SpanContext:
    return SpanContext(
        int(traceparent[3:35], 16), int(traceparent[36:52], 16), is_remote=True, trace_flags=TraceFlags(1)
    )


class TraceIds(RandomIdGenerator):
    """Ids of spans by chance; a root's trace has the id that its record brought."""

    def __init__(self) -> None:
        self._given = threading.local()

    def of_trace(self, trace_id: int) -> "TraceIds":
        """Around beginning a span of this trace."""
        self._given.trace_id = trace_id
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: object) -> None:
        self._given.trace_id = None

    def generate_trace_id(self) -> int:
        given: int | None = getattr(self._given, "trace_id", None)
        return super().generate_trace_id() if given is None else given


class Sending(SpanProcessor):
    """Passes spans on to a thread that sends them, and drops those that come faster than it does."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._dropped, self._sent, self._failed = (
            metrics.SPANS.labels(outcome) for outcome in ("dropped", "sent", "failed")
        )
        self._is_failing = False
        self._exporter = exporter
        self._batches = BatchSpanProcessor(
            Reporting(exporter, self._on_sent), MAX_WAITING, SEND_EVERY_MS, SENT_AT_ONCE, SEND_S * 1000
        )

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span, or drop it."""
        with self._lock:
            is_full = self._waiting >= MAX_WAITING
            self._waiting += not is_full
        if is_full:
            self._dropped.inc()
        else:
            self._batches.on_end(span)

    def _on_sent(self, count: int, error: str) -> None:
        with self._lock:
            self._waiting -= count
        (self._failed if error else self._sent).inc(count)
        if error and not self._is_failing:
            log.warning("spans do not reach the collector: %s; they are dropped and counted until they do", error)
        elif self._is_failing and not error:
            log.info("spans reach the collector again")
        self._is_failing = bool(error)

    def shutdown(self) -> None:
        """Send what waits."""
        self._batches.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits now."""
        return self._batches.force_flush(timeout_millis)


class Reporting(SpanExporter):
    """An exporter that reports what became of each batch, and raises nothing."""

    def __init__(self, exporter: SpanExporter, report: Any) -> None:
        self._exporter = exporter
        self._report = report

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result, error = self._exporter.export(spans), ""
            if result is not SpanExportResult.SUCCESS:
                error = "it refuses them, or does not answer"
        except Exception as raised:  # whatever the library and its transport raise: a span must cost no request
            result, error = SpanExportResult.FAILURE, f"{type(raised).__name__}: {raised}"
        self._report(len(spans), error)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def open_recorder(endpoint: str, ratio: float, prefix: str) -> OtelRecorder:
    """A recorder that sends to an OTLP endpoint. Its credentials are the library's: OTEL_EXPORTER_OTLP_HEADERS."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it logs each failed batch; `Sending` reports once
    return OtelRecorder(OTLPSpanExporter(endpoint, timeout=SEND_S), ratio, prefix)
