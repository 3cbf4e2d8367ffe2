"""Records are addressed, framed and stamped in one way."""

import json

from agents.writing import buried, event_record, job_record, outcome_record, outgoing, refused
from schemas.messages import Event, GenerateJob, Outcome
from schemas.topics import DLQ, EVENTS, OUTCOMES, RESULTS, jobs_topic
from streams.producer import check_size
from tests.agents.stubs import a_record, read
from tests.builders import NOW_MS, a_job, an_outcome

TRACE = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"


def test_a_record_is_keyed_by_its_request_and_carries_its_causes_trace_and_headers() -> None:
    cause = {"traceparent": TRACE, "x-own": b"travels"}
    record = outgoing(
        RESULTS, an_outcome(), request_id="r-9", cause=cause, role="ledger", now_ms=NOW_MS, facts={"status": "OK"}
    )
    assert (record.topic, record.key, record.partition, record.headers["x-own"]) == (RESULTS, b"r-9", None, b"travels")
    assert record.headers["traceparent"][:36] == TRACE[:36]
    assert record.headers["traceparent"] != TRACE
    assert (record.headers["ce_subject"], record.headers["pochade_status"]) == (b"r-9", b"OK")
    assert cause == {"traceparent": TRACE, "x-own": b"travels"}


def test_an_outcome_goes_to_the_ledger_under_its_request() -> None:
    record = outcome_record(an_outcome(request_id="r-9"), {}, NOW_MS)
    assert (record.topic, record.key, read(record, Outcome)) == (OUTCOMES, b"r-9", an_outcome(request_id="r-9"))


def test_a_job_goes_to_its_variants_topic_and_the_partition_of_its_worker() -> None:
    job = a_job(level="light", variant="heavy")
    record = job_record(job, 3, {}, "router", NOW_MS)
    assert (record.topic, record.partition, record.key) == (jobs_topic("heavy", 1).name, 3, b"r-1")
    assert read(record, GenerateJob) == job
    assert (record.headers["pochade_worker"], record.headers["pochade_level"]) == (b"w-1", b"light")


def test_an_event_tells_details_as_json() -> None:
    record = event_record("r-9", "escalated", "discriminator", NOW_MS, to="heavy")
    said = read(record, Event)
    assert (record.topic, said.kind, json.loads(said.detail)) == (EVENTS, "escalated", {"to": "heavy"})


def test_a_refused_record_is_answered_and_kept_untouched() -> None:
    record = a_record(value=b"raw", key=b"\xff")
    outcome, kept = refused(record, an_outcome(request_id="r-9"), ValueError("no"), NOW_MS)
    assert (outcome.topic, kept.topic, kept.value, kept.key) == (OUTCOMES, DLQ, b"raw", b"\xff")
    assert (kept.headers["x-own"], kept.headers["pochade_error_message"]) == (b"travels", b"no")
    assert "pochade_error_cut_from_bytes" not in kept.headers


def test_a_record_as_large_as_a_topic_takes_can_still_be_kept() -> None:
    kept = buried(a_record(value=b"x" * 1_048_000), error=ValueError("no" * 5000), role="ledger", request_id="r-1")
    check_size(kept)
    assert len(kept.value or b"") > 900_000
    assert kept.headers["pochade_error_cut_from_bytes"] == b"1048000"
