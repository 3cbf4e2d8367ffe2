# ruff: noqa: ARG002  the ports name their arguments
"""When the topics of variants without workers are read, and how far they are committed."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agents.router.dispatcher import Dispatcher
from agents.router.reroute import Sweeper
from agents.router.rerouting import Rerouting
from agents.worker.jobs import Taken
from schemas.messages import GenerateJob, PaintOptions
from streams.kafka.consumer import now_ms
from streams.kafka.memory import MemoryRecordProducer
from streams.kafka.offsets import Unread
from tests.agents.stubs import SILENT_MS, StubFleet, StubPlans, a_record, read
from tests.builders import a_catalog, a_classified, a_heartbeat, a_job, a_plan, a_request

LIGHT = "jobs.light.v1"


class Topic:
    """The job topic of one variant with what its group has committed, and the members that were opened."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[Taken]] = {}
        self.committed: dict[int, int] = {}
        self.opened = self.closed = 0
        self.on_take: Callable[[], None] = lambda: None

    def add(self, request_id: str, partition: int = 0, **request: Any) -> None:
        log = self.partitions.setdefault(partition, [])
        job = a_job(a_classified(a_request(request_id=request_id, **request)), level="heavy", variant="heavy")
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
        self.fleet = StubFleet().hear(a_heartbeat(), now_ms())
        catalog = a_catalog()
        rerouting = Rerouting(catalog, set(), Dispatcher(catalog, self.fleet, "router"), self.producer)  # type: ignore[arg-type]
        self.sweeper = Sweeper(
            catalog, self.plans, self.fleet, SILENT_MS, rerouting, self.topic.open, self.topic.unread  # type: ignore[arg-type]
        )  # fmt: skip

    def look(self) -> list[str]:
        """The requests that were sent to light by now."""
        self.sweeper.look(threading.Event())
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
    scene.topic.add("insists", options=PaintOptions(model="heavy"))
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
    scene.sweeper._refresh = kept.append
    scene.sweeper.refresh()
    assert kept == ["heavy"]
