# ruff: noqa: ARG002  the ports name their arguments
"""What is written for a job that nobody serves any more, which topics are read for such jobs, and how far."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agents.router.dispatcher import Dispatcher
from agents.router.reroute import RETRY_S, WAITS, Rerouter, Rerouting
from agents.worker.jobs import Taken
from planner.serving.ending.outcomes import step_of
from planner.serving.routing.reroute import OrphanRouting
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic
from schemas.messages import Event, GenerateJob, GenerateOptions, Outcome, Plan, Stage, Status
from schemas.topics import DLQ, EVENTS, OUTCOMES
from streams import metrics
from streams.clock import now_ms
from streams.kafka.consumers.offsets import Unread
from tests.agents.stubs import SILENT_MS, StubFleet, StubPlans, a_record, read
from tests.builders import a_catalog, a_classified, a_heartbeat, a_job, a_plan, a_request, an_image
from tests.memory_kafka import MemoryRecordProducer

LIGHT = "jobs.light.v1"
PLAN = a_plan(version=4, allocation={"w-1": "light"}, cascades=())


@pytest.fixture
def producer() -> MemoryRecordProducer:
    return MemoryRecordProducer()


@pytest.fixture
def fleet() -> StubFleet:
    return StubFleet().receive(a_heartbeat(), now_ms())


@pytest.fixture
def rerouting(producer: MemoryRecordProducer, fleet: StubFleet) -> Rerouting:
    return Rerouting(a_logic(), {"ended"}, Dispatcher(a_catalog(), fleet, "router"), producer)  # type: ignore[arg-type]


def a_logic() -> OrphanRouting:
    return OrphanRouting(a_catalog(), RoutingLogic(a_catalog(), NO_LIMITS), SILENT_MS)


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
    assert outcome.reason == "no worker serves heavy any more; the draft was kept"


def test_what_waits_or_had_ended_writes_nothing(rerouting: Rerouting, producer: MemoryRecordProducer) -> None:
    insisting = on_heavy(classified=asked(options=GenerateOptions(model="heavy")))
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
    reported = rerouting.serve([broken if plan is PLAN else on_heavy(), on_heavy()], plan)
    assert reported[0] == "failed"
    assert reported[1] == ("to light" if plan is PLAN else "failed")
    assert read(producer.topics[OUTCOMES][0], Outcome).status is Status.FAILED
    assert len(producer.topics[DLQ]) >= 1


# when the topics of variants without workers are read, and how far they are committed


class Topic:
    """The job topic of one variant with what its group has committed, and the members that were opened."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[Taken]] = {}
        self.committed: dict[int, int] = {}
        self.opened = self.closed = 0
        self.on_take: Callable[[], None] = lambda: None

    def add(self, request_id: str, partition: int = 0, path: tuple[Stage, ...] = (), **request: Any) -> None:
        log = self.partitions.setdefault(partition, [])
        asked = a_classified(a_request(request_id=request_id, **request))
        job = a_job(asked, level="heavy", variant="heavy", path=path)
        log.append(Taken(a_record(job, partition=partition, offset=len(log)), 1))

    def unread(self, variant: str) -> dict[int, Unread]:
        if variant != "heavy":
            return {}
        spans = {p: Unread(self.committed.get(p, 0), len(log)) for p, log in self.partitions.items()}
        return {p: span for p, span in spans.items() if span.start < span.end}

    def open(self, variant: str) -> "Member":
        assert variant == "heavy"
        self.opened += 1
        return Member(self)


class Member:
    """A member of the group that has all partitions at once."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._next = {partition: topic.committed.get(partition, 0) for partition in topic.partitions}

    def take(self, most: int, timeout_s: float) -> Sequence[Taken]:
        self._topic.on_take()
        for partition, log in self._topic.partitions.items():
            at = self._next[partition]
            if log[at : at + 2]:
                self._next[partition] = at + len(log[at : at + 2])
                return log[at : at + 2]
        return []

    def commit(self, batch: Sequence[Taken]) -> None:
        assert batch, "librdkafka refuses to commit nothing"
        for taken in batch:
            self._topic.committed[taken.record.partition] = taken.record.offset + 1

    def close(self) -> None:
        self._topic.closed += 1


class Scene:
    """`heavy` has lost its worker, `light` has one; by the plan in force nobody is to serve heavy."""

    def __init__(self) -> None:
        self.topic, self.producer, self.plans = Topic(), MemoryRecordProducer(), StubPlans()
        self.plans.plan = a_plan(allocation={"w-1": "light"}, cascades=())
        self.fleet = StubFleet().receive(a_heartbeat(), now_ms())
        catalog = a_catalog()
        logic = a_logic()
        rerouting = Rerouting(logic, set(), Dispatcher(catalog, self.fleet, "router"), self.producer)  # type: ignore[arg-type]
        self.passed_s = 0.0
        self.rerouter = Rerouter(
            catalog, logic, self.plans, self.fleet, SILENT_MS, rerouting, self.topic.open, self.topic.unread,  # type: ignore[arg-type]
            clock_s=lambda: self.passed_s,
        )  # fmt: skip

    def look(self) -> list[str]:
        """The requests that were sent to light by now."""
        self.rerouter.search(threading.Event())
        jobs = [read(record, GenerateJob) for record in self.producer.topics.get(LIGHT, [])]
        return [job.classified.request.request_id for job in jobs]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_all_jobs_are_moved_and_committed_and_the_group_is_left(scene: Scene) -> None:
    for n in range(5):
        scene.topic.add(f"r-{n}", partition=n % 2)
    assert sorted(scene.look()) == [f"r-{n}" for n in range(5)]
    assert scene.topic.committed == {0: 3, 1: 2}
    assert (scene.topic.opened, scene.topic.closed) == (1, 1)


def test_the_group_is_not_joined_where_nothing_lies_or_somebody_may_come(scene: Scene) -> None:
    assert scene.look() == []
    scene.topic.add("r-0")
    scene.plans.plan = a_plan()  # w-2, which is gone, is to serve heavy: the next plan may name another
    assert scene.look() == []
    scene.plans.plan = None
    assert scene.look() == []
    assert scene.topic.opened == 0


def test_nothing_is_committed_from_a_job_that_waits_on_and_those_behind_it_are_moved_once(scene: Scene) -> None:
    scene.topic.add("r-0")
    scene.topic.add("insists", options=GenerateOptions(model="heavy"))
    for n in (2, 3, 4):
        scene.topic.add(f"r-{n}")
    scene.topic.add("r-5", partition=1)
    moved = ["r-0", "r-2", "r-3", "r-4", "r-5"]
    assert scene.look() == moved
    assert scene.topic.committed == {0: 1, 1: 1}
    assert scene.look() == moved  # a second look finds nothing new
    assert scene.topic.opened == 1
    scene.topic.add("r-6")
    assert scene.look() == [*moved, "r-6"]
    assert scene.topic.committed == {0: 1, 1: 1}


def test_a_job_that_found_no_worker_is_decided_on_again_until_one_serves_and_those_behind_it_once(scene: Scene) -> None:
    scene.topic.add("r-0")
    scene.topic.add("insists", partition=1, options=GenerateOptions(model="heavy"))
    scene.fleet.receive(a_heartbeat(partitions=()), now_ms())  # ready, and its group has given it no partition yet
    assert scene.look() == []
    scene.topic.add("drafted", path=(step_of(an_image(), 0.2, 0.5),))
    assert scene.look() == []
    assert len(scene.producer.topics[OUTCOMES]) == 1
    scene.fleet.receive(a_heartbeat(), now_ms())
    assert scene.look() == []
    assert scene.topic.opened == 2, "not before it is due"
    scene.passed_s += RETRY_S
    assert scene.look() == ["r-0"]
    assert scene.topic.committed == {0: 2}, "with the job behind it, which had been answered"
    assert len(scene.producer.topics[OUTCOMES]) == 1
    scene.passed_s += RETRY_S
    assert scene.look() == ["r-0"]
    assert scene.topic.opened == 4, "for the one that names its model"
    scene.topic.committed[1] = 1  # by a worker that came for it
    scene.topic.add("r-1", partition=1)
    assert scene.look() == ["r-0", "r-1"]
    scene.passed_s += RETRY_S
    assert scene.look() == ["r-0", "r-1"]
    assert scene.topic.opened == 5


def test_it_leaves_at_once_when_the_variant_gets_a_worker(scene: Scene) -> None:
    for n in range(6):
        scene.topic.add(f"r-{n}")

    def allocate() -> None:
        scene.plans.plan = a_plan(allocation={"w-1": "heavy"})

    scene.topic.on_take = allocate
    scene.look()
    assert (scene.topic.committed, scene.topic.closed) == ({0: 2}, 1)


def test_the_offsets_of_variants_that_nobody_serves_are_kept(scene: Scene) -> None:
    kept: list[str] = []
    scene.rerouter._refresh = kept.append
    scene.rerouter.refresh()
    assert kept == ["heavy"]
