"""Spans of hops: their parents, what follows from them, links within batches, sampling; and collectors in trouble."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY

from schemas.record import Incoming, Outgoing
from schemas.topics import DLQ
from streams.codec.headers import stamp
from streams.settings import InvalidSettings, load
from streams.tracing import conventions as names
from streams.tracing import exporting, spans
from streams.tracing.exporting import MAX_WAITING, OtelRecorder
from tests.patience import PATIENCE_S

CLIENTS = b"00-" + b"ab" * 16 + b"-" + b"cd" * 8 + b"-01"  # of a client that records its own span


def a_record(traceparent: bytes | None = None, topic: str = "prompts.v1", offset: int = 0) -> Incoming:
    headers = {} if traceparent is None else {"traceparent": traceparent}
    return Incoming(topic=topic, partition=0, offset=offset, timestamp_ms=1, key=b"r-1", value=b"x", headers=headers)


def written(cause: Incoming, topic: str = "classified.v1", **facts: str) -> Outgoing:
    headers = stamp(cause.headers, kind="X", source="role", subject="r-1", time_ms=0, facts=facts)
    return Outgoing(topic=topic, key=b"r-1", value=b"y", headers=headers)


def passed(role: str, cause: Incoming, topic: str = "classified.v1", **facts: str) -> Outgoing:
    """What a role writes because of a record, in a span where it is recorded."""
    hop = spans.begin(role, [cause])
    with spans.within(hop):
        record = written(cause, topic, **facts)
    spans.end(hop, [record])
    return record


class Tracing:
    """A recorder of a process, and the spans that it has sent."""

    def __init__(self, ratio: float) -> None:
        self._exporter = InMemorySpanExporter()
        self._recorder = OtelRecorder(self._exporter, ratio, "pochade")
        spans.use(self._recorder)

    def ended(self) -> list[ReadableSpan]:
        self._recorder.flush()
        return [*self._exporter.get_finished_spans()]

    def close(self) -> None:
        spans.use(None)
        self._recorder.close()


@pytest.fixture
def every() -> Iterator[Tracing]:
    tracing = Tracing(1)
    yield tracing
    tracing.close()


@pytest.fixture
def none() -> Iterator[Tracing]:
    tracing = Tracing(0)
    yield tracing
    tracing.close()


def ids(span: ReadableSpan) -> tuple[int, int, int | None]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id, span.parent.span_id if span.parent else None


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def as_read(record: Outgoing) -> Incoming:
    return a_record(record.headers["traceparent"], record.topic)


def test_each_hop_is_the_child_of_the_one_before_it(every: Tracing) -> None:
    first = passed("classifier", a_record())
    passed("router", as_read(first), "jobs.light.v1")
    one, two = sorted(every.ended(), key=lambda span: span.start_time or 0)
    assert (ids(one)[2], ids(two)[2]) == (None, ids(one)[1])
    assert ids(one)[0] == ids(two)[0]
    assert [span.name for span in (one, two)] == ["process prompts.v1", "process classified.v1"]
    assert [span.resource.attributes[names.SERVICE] for span in (one, two)] == ["pochade-classifier", "pochade-router"]


def test_a_clients_recorded_span_is_the_parent_and_one_that_is_not_recorded_is_not(every: Tracing) -> None:
    passed("classifier", a_record(CLIENTS))
    passed("classifier", a_record(CLIENTS[:-2] + b"00"))
    recorded, other = every.ended()
    assert ids(recorded)[0] == ids(other)[0] == int(b"ab" * 16, 16)
    assert (ids(recorded)[2], ids(other)[2]) == (int(b"cd" * 8, 16), None)


def test_all_that_a_hop_writes_names_its_one_span(every: Tracing) -> None:
    cause = a_record(CLIENTS)
    hop = spans.begin("discriminator", [cause])
    with spans.within(hop):
        both = [written(cause), written(cause, "events.v1")]
    spans.end(hop, both)
    (span,) = every.ended()
    assert {record.headers["traceparent"] for record in both} == {b"00-%032x-%016x-01" % ids(span)[:2]}


def test_jobs_of_a_batch_have_spans_of_their_own_traces_with_links_and_a_child_each_for_the_call(
    every: Tracing,
) -> None:
    batch = [passed("router", a_record(), "jobs.light.v1") for _ in range(3)]
    records = [as_read(record) for record in batch]
    before = len(every.ended())
    hop = spans.begin("worker", records)
    with spans.within(hop):
        spans.note("worker", records, "generate_content light", 1_000, 3_000, {names.BATCH_JOBS: 3})
    spans.end(hop)
    *calls, a, b, c = every.ended()[before:]
    jobs = [a, b, c]
    assert len({ids(job)[0] for job in jobs}) == 3
    for job in jobs:
        linked = {link.context.span_id for link in job.links}
        assert linked == {ids(other)[1] for other in jobs} - {ids(job)[1]}
    assert {ids(call)[2] for call in calls} == {ids(job)[1] for job in jobs}
    assert [(call.end_time or 0) - (call.start_time or 0) for call in calls] == [2 * 10**9] * 3


def test_a_trace_is_sampled_by_its_id_alike_in_every_role_and_a_client_may_ask_for_it(none: Tracing) -> None:
    record = passed("classifier", a_record())
    assert record.headers["traceparent"].endswith(b"-00")
    passed("router", as_read(record))
    assert none.ended() == []
    passed("classifier", a_record(CLIENTS))
    assert len(none.ended()) == 1
    half = OtelRecorder(InMemorySpanExporter(), 0.5, "pochade")
    low, high = (b"00-" + b"f" * 16 + half_id * 16 + b"-" + b"1" * 16 + b"-00" for half_id in (b"7", b"8"))
    assert (half.samples(low), half.samples(high)) == (True, False)
    half.close()


def test_a_prompt_without_a_trace_keeps_the_one_that_began_with_it(none: Tracing) -> None:
    cause = a_record()
    hop = spans.begin("classifier", [cause])
    with spans.within(hop):
        one, two = written(cause), written(cause)
    assert one.headers["traceparent"] == two.headers["traceparent"]
    assert none.ended() == []


def test_what_became_of_a_record_stands_on_its_span_and_a_dead_letter_is_an_error(every: Tracing) -> None:
    passed("router", a_record(), "jobs.light.v1", level="light", plan_version="7")
    cause = a_record(topic="classified.v1", offset=5)
    hop = spans.begin("router", [cause], "pochade.router")
    with spans.within(hop):
        outcome = written(cause, DLQ)
    outcome.headers["pochade_error_class"] = b"InvalidRecord"  # type: ignore[index]
    spans.end(hop, [outcome])
    placed, refused = every.ended()
    assert (attributes(placed)["pochade.level"], attributes(placed)["pochade.plan_version"]) == ("light", "7")
    assert attributes(placed)[names.WROTE] == ("jobs.light.v1",)
    assert (attributes(refused)[names.ERROR], refused.status.is_ok) == ("InvalidRecord", False)
    assert attributes(refused)[names.OFFSET] == 5
    assert (attributes(refused)[names.REQUEST], attributes(refused)[names.GROUP]) == ("r-1", "pochade.router")
    assert attributes(refused)[names.SYSTEM] == "kafka"


def test_an_http_request_is_the_parent_of_what_is_submitted_in_it(every: Tracing) -> None:
    with spans.serving("gateway", "POST", CLIENTS.decode()):
        prompt = written(a_record())
    passed("classifier", as_read(prompt))
    http, classifier = every.ended()
    assert ids(http) == (int(b"ab" * 16, 16), ids(classifier)[2], int(b"cd" * 8, 16))


def test_an_http_clients_trace_goes_on_while_tracing_is_off() -> None:
    with spans.serving("gateway", "POST", CLIENTS.decode()) as span:
        assert span is None
        assert written(a_record()).headers["traceparent"] == CLIENTS
    with spans.serving("gateway", "POST", "nonsense"):
        assert written(a_record()).headers["traceparent"] != CLIENTS


def test_while_off_no_span_is_made_and_headers_stay() -> None:
    assert spans.begin("router", [a_record(CLIENTS)]) is None
    assert passed("router", a_record(CLIENTS)).headers["traceparent"] == CLIENTS


class Broken(SpanExporter):
    """A collector that raises."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002  the port's name
        raise OSError("connection refused")


class Stuck(SpanExporter):
    """A collector that answers when it is let."""

    def __init__(self) -> None:
        self.lets = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002
        self.lets.wait(PATIENCE_S)
        return SpanExportResult.SUCCESS


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("pochade_spans_total", {"outcome": outcome}) or 0.0


def test_a_collector_that_fails_costs_counted_spans_and_no_request(caplog: pytest.LogCaptureFixture) -> None:
    before, recorder = counted("failed"), OtelRecorder(Broken(), 1, "pochade")
    spans.use(recorder)
    try:
        for _ in range(2):
            assert passed("router", a_record()).topic == "classified.v1"
            recorder.flush()
    finally:
        spans.use(None)
        recorder.close()
    assert counted("failed") == before + 2
    assert [record.message for record in caplog.records if "collector" in record.message] == [
        "spans do not reach the collector: OSError: connection refused; they are dropped and counted until they do"
    ]


def test_spans_beyond_what_may_wait_are_dropped_and_closing_does_not_wait_for_the_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporting, "CLOSE_S", 0.1)
    before, stuck = counted("dropped"), Stuck()
    recorder = OtelRecorder(stuck, 1, "pochade")
    spans.use(recorder)
    try:
        for _ in range(MAX_WAITING + 10):
            passed("router", a_record())
        assert counted("dropped") == before + 10
        recorder.close()
    finally:
        spans.use(None)
        stuck.lets.set()


def test_an_endpoint_that_is_no_address_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="endpoint must be like"):
        load({"tracing": {"endpoint": "collector:4318"}})


def test_while_off_the_library_is_not_loaded() -> None:
    script = (
        "import sys; from streams.settings import load; from streams.tracing.opening import traced\n"
        "with traced(load()): assert not [n for n in sys.modules if n.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
