"""What is written for a job that nobody serves any more."""

import json
from typing import Any

import pytest

from agents.router.dispatcher import Dispatcher
from agents.router.rerouting import WAITS, Rerouting
from agents.worker.jobs import Taken
from planner.serving.outcomes import step_of
from schemas.messages import Event, GenerateJob, Outcome, PaintOptions, Plan, Status
from schemas.topics import DLQ, EVENTS, OUTCOMES
from streams import metrics
from streams.kafka.consumer import now_ms
from streams.kafka.memory import MemoryRecordProducer
from tests.agents.stubs import StubFleet, a_record, read
from tests.builders import a_catalog, a_classified, a_heartbeat, a_job, a_plan, a_request, an_image

LIGHT = "jobs.light.v1"
PLAN = a_plan(version=4, allocation={"w-1": "light"}, cascades=())


@pytest.fixture
def producer() -> MemoryRecordProducer:
    return MemoryRecordProducer()


@pytest.fixture
def fleet() -> StubFleet:
    return StubFleet().hear(a_heartbeat(), now_ms())


@pytest.fixture
def rerouting(producer: MemoryRecordProducer, fleet: StubFleet) -> Rerouting:
    return Rerouting(a_catalog(), {"ended"}, Dispatcher(a_catalog(), fleet, "router"), producer)  # type: ignore[arg-type]


def on_heavy(attempt: int = 1, **changes: Any) -> Taken:
    job = a_job(**({"level": "heavy", "variant": "heavy"} | changes))
    return Taken(a_record(job, topic="jobs.heavy.v1"), attempt)


def asked(**request: Any) -> Any:
    return a_classified(a_request(**request))


def test_a_job_goes_to_a_served_level_under_the_plan_in_force_with_a_note_and_is_counted(
    rerouting: Rerouting, producer: MemoryRecordProducer, fleet: StubFleet
) -> None:
    counter = metrics.FALLBACKS.labels("router", "stranded")
    before = counter._value.get()
    assert rerouting.serve([on_heavy()], PLAN) == ["to light"]
    job = read(producer.topics[LIGHT][0], GenerateJob)
    assert (job.level, job.variant, job.plan_version, job.worker_id) == ("light", "light", 4, "w-1")
    note = read(producer.topics[EVENTS][0], Event)
    assert (note.kind, json.loads(note.detail)["from"], json.loads(note.detail)["to"]) == ("rerouted", "heavy", "light")
    assert counter._value.get() == before + 1
    assert fleet.acknowledged_at == [0]


def test_the_owners_that_died_with_a_job_still_count(rerouting: Rerouting, producer: MemoryRecordProducer) -> None:
    rerouting.serve([on_heavy(attempt=3), on_heavy(attempt=1, job_id="j-2")], PLAN)
    assert [read(record, GenerateJob).attempt for record in producer.topics[LIGHT]] == [3, 1]


def test_a_draft_that_was_to_be_replaced_is_the_answer(rerouting: Rerouting, producer: MemoryRecordProducer) -> None:
    draft = step_of(an_image(), 0.2, 0.5)
    assert rerouting.serve([on_heavy(stage=1, path=(draft,))], PLAN) == ["kept their draft"]
    outcome = read(producer.topics[OUTCOMES][0], Outcome)
    assert (outcome.status, outcome.path, outcome.by) == (Status.COMPLETED, (draft,), "router")
    assert outcome.reason == "nobody serves heavy any more; the draft was kept"


def test_what_waits_or_had_ended_writes_nothing(rerouting: Rerouting, producer: MemoryRecordProducer) -> None:
    insisting = on_heavy(classified=asked(options=PaintOptions(model="heavy")))
    ended = on_heavy(classified=asked(request_id="ended"))
    assert rerouting.serve([insisting, ended], PLAN) == [WAITS, "had ended"]
    assert producer.topics == {}


def test_what_cannot_be_in_time_expires(rerouting: Rerouting, producer: MemoryRecordProducer) -> None:
    assert rerouting.serve([on_heavy(classified=asked(deadline_ms=1))], PLAN) == ["expired"]
    assert read(producer.topics[OUTCOMES][0], Outcome).status is Status.EXPIRED


@pytest.mark.parametrize("plan", [PLAN, a_plan(routes=(), allocation={"w-1": "light"})], ids=["broken job", "no route"])
def test_what_cannot_be_answered_fails_and_its_bytes_are_kept(
    rerouting: Rerouting, producer: MemoryRecordProducer, plan: Plan
) -> None:
    broken = Taken(a_record(value=b"\x00nonsense"), 1)
    told = rerouting.serve([broken if plan is PLAN else on_heavy(), on_heavy()], plan)
    assert told[0] == "failed"
    assert told[1] == ("to light" if plan is PLAN else "failed")
    assert read(producer.topics[OUTCOMES][0], Outcome).status is Status.FAILED
    assert len(producer.topics[DLQ]) >= 1
