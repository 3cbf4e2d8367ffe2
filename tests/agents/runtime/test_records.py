"""Records are addressed, framed and stamped in one way."""

import json

import pytest

from agents.runtime import records
from agents.runtime.records import event_record, fitted_dead_letter, job_record, outcome_record, outgoing, refused
from planner.serving.ending.outcomes import step_of
from schemas.messages import Event, GenerateJob, Outcome
from schemas.topics import DLQ, EVENTS, OUTCOMES, RESULTS, jobs_topic
from streams.kafka.producers.topic_limits import TopicLimits
from tests.agents.stubs import a_record, read
from tests.builders import NOW_MS, a_classified, a_job, a_request, an_image, an_outcome

TRACE = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"


def test_a_record_is_keyed_by_its_request_and_carries_its_causes_trace_and_headers() -> None:
    cause = {"traceparent": TRACE, "x-own": b"travels"}
    record = outgoing(
        RESULTS, an_outcome(), request_id="r-9", cause=cause, role="ledger", now_ms=NOW_MS, facts={"status": "OK"}
    )
    assert (record.topic, record.key, record.partition, record.headers["x-own"]) == (RESULTS, b"r-9", None, b"travels")
    assert record.headers["traceparent"] == TRACE
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
    kept = fitted_dead_letter(
        a_record(value=b"x" * 1_048_000), error=ValueError("no" * 5000), role="ledger", request_id="r-1"
    )
    TopicLimits().check(kept)
    assert len(kept.value or b"") > 900_000
    assert kept.headers["pochade_error_cut_from_bytes"] == b"1048000"


def test_an_outcome_too_long_to_be_written_keeps_how_it_ended_and_its_images() -> None:
    classified = a_classified(a_request(tenant="x" * 600_000))
    outcome = an_outcome(request=classified.request, classified=classified, path=(step_of(an_image(), None, None),))
    record = outcome_record(outcome, {"h": b"x" * 900_000}, NOW_MS)
    TopicLimits().check(record)
    said = read(record, Outcome)
    assert (said.status, said.path, said.request, said.classified) == (outcome.status, outcome.path, None, None)


@pytest.mark.parametrize("size", [300_000, 600_000, 1_000_000])
def test_a_record_under_a_key_of_any_size_is_kept(size: int) -> None:
    record = a_record(value=b"raw", key=b"k" * size, headers={"h": b"x" * 500_000})
    written = refused(record, an_outcome(request_id="k" * size), ValueError("no"), NOW_MS)
    for each in written:
        TopicLimits().check(each)
    assert (written[-1].topic, written[-1].value) == (DLQ, b"raw")


def test_what_is_written_fits_what_its_topics_take(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = TopicLimits({OUTCOMES: 2_000, DLQ: 1_500})
    monkeypatch.setattr(records, "LIMITS", limits)
    asked = a_classified(a_request(prompt="x" * 7_000))
    outcome = an_outcome(classified=asked, request=asked.request, reason="classified.v1 takes no such record")
    record = a_record(value=b"x" * 7_000, headers={"h": b"x" * 7_000})
    said, letter = refused(record, outcome, ValueError("no" * 900), NOW_MS)
    limits.check(said)
    limits.check(letter)
    assert read(said, Outcome).reason == outcome.reason
    assert letter.headers["pochade_error_cut_from_bytes"] == b"7000"
