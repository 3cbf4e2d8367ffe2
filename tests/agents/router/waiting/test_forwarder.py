# ruff: noqa: ARG002  the ports name their arguments
"""The forwarder on a topic in memory: whom it serves, what it commits, and what a kill leaves behind."""

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from agents.router.dispatcher import Dispatcher
from agents.router.waiting import forwarder as forwarding
from agents.router.waiting.forwarder import Forwarder
from agents.router.waiting.progress import Committed, Progress
from agents.router.waiting.source import OnLost
from agents.runtime.views import WaitingCounts
from planner.serving.ending.outcomes import step_of
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic
from schemas.messages import GenerateJob, Outcome, Status
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import DLQ, OUTCOMES
from streams import metrics
from streams.clock import now_ms
from streams.kafka.producers.writing import DeliveryFailed
from tests.agents.router.placing import on
from tests.agents.stubs import StubFleet, StubPlans, a_record, read
from tests.builders import a_catalog, a_classified, a_heartbeat, a_job, a_plan, a_request, an_image, owned
from tests.memory_kafka import MemoryRecordProducer

PULL = a_plan(dispatch="pull")
BUSY_MS = 60_000


class Topics:
    """The topics of waiting jobs, and what the group of forwarders has committed of each."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Incoming]] = {}
        self.committed: dict[str, tuple[int, str]] = {}

    def append(self, record: Outgoing) -> None:
        log = self.logs.setdefault(record.topic, [])
        log.append(
            a_record(
                topic=record.topic, offset=len(log), key=record.key, value=record.value, headers=record.headers
            )
        )  # fmt: skip

    def waiting(self, variant: str) -> list[str]:
        """The requests whose jobs a new owner would forward."""
        member = Member(self, lambda _variant, _partitions: None)
        return [key(record) for record in member.take(1000, 0) if record.topic == f"waiting.{variant}.v1"]


class Member:
    """A member of the group that has all topics."""

    def __init__(self, topics: Topics, on_lost: OnLost) -> None:
        self._topics, self.on_lost, self.paused = topics, on_lost, set[str]()
        self._owned: dict[str, Progress] = {}

    def variant_of(self, record: Incoming) -> str:
        return record.topic.removeprefix("waiting.").removesuffix(".v1")

    def take(self, most: int, timeout_s: float) -> Sequence[Incoming]:
        found = []
        for topic, log in self._topics.logs.items():
            progress = self._owned.setdefault(
                topic, Progress(Committed.of(*self._topics.committed.get(topic, (0, ""))))
            )
            found += [record for record in log if progress.take(record.offset)]
        return [record for record in found if self.variant_of(record) not in self.paused]

    def went(self, record: Incoming) -> None:
        self._owned[record.topic].went(record.offset)

    def commit(self) -> None:
        for topic, progress in self._owned.items():
            committed = progress.committed()
            self._topics.committed[topic] = committed.offset, committed.metadata

    def pause(self, variant: str, *, is_paused: bool) -> None:
        (self.paused.add if is_paused else self.paused.discard)(variant)

    def close(self) -> None:
        for topic in self._owned:
            self.on_lost(topic.removeprefix("waiting.").removesuffix(".v1"), [0])
        self.commit()


class Producer(MemoryRecordProducer):
    """Answers when it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_silent, self.unanswered = False, list[tuple[Future[Delivered], Delivered]]()

    def send(self, record: Outgoing) -> Future[Delivered]:
        done = super().send(record)
        if not self.is_silent:
            return done
        future: Future[Delivered] = Future()
        self.unanswered.append((future, done.result()))
        return future

    def answer(self) -> None:
        for future, delivered in self.unanswered:
            future.set_result(delivered)
        self.unanswered.clear()


class Process:
    """The forwarder of a router's process, from its start to `die` or `close`."""

    def __init__(self, topics: Topics, fleet: StubFleet, producer: Producer, ended: Collection[str] = ()) -> None:
        self.topics, self.plans, self.counts = topics, StubPlans(PULL), WaitingCounts()
        self.dispatcher = Dispatcher(a_catalog(), fleet, "router", self.counts)  # type: ignore[arg-type]
        self.forwarder = Forwarder(
            a_catalog(), self.plans, ended, self.dispatcher, producer, self.counts, lambda lost: Member(topics, lost)
        )  # type: ignore[arg-type]
        self.member = self.forwarder._source = Member(topics, self.forwarder._lose)

    def route(self, request_id: str, variant: str = "light", **request: Any) -> None:
        classified = a_classified(a_request(request_id=request_id, **request))
        self.topics.append(self.dispatcher.send(PULL, classified, on(variant), cause={}))


def key(record: Incoming | Outgoing) -> str:
    return (record.key or b"").decode()


def sent(producer: MemoryRecordProducer, variant: str = "light") -> list[str]:
    return [key(record) for record in producer.topics.get(f"jobs.{variant}.v1", ())]


@pytest.fixture
def fleet() -> StubFleet:
    """A worker of each variant, the one of `heavy` idle and the one of `light` busy for long."""
    fleet = StubFleet().receive(a_heartbeat(partitions=(owned(0, remaining_ms=BUSY_MS),)), now_ms())
    return fleet.receive(a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(3),)), now_ms())


@pytest.fixture
def producer() -> Producer:
    return Producer()


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
def process(topics: Topics, fleet: StubFleet, producer: Producer) -> Process:
    return Process(topics, fleet, producer)


def is_idle(fleet: StubFleet, seen: int = 0) -> None:
    """A heartbeat says that the worker of `light` has done all that it had."""
    fleet.receive(a_heartbeat(partitions=(owned(0, seen),)), now_ms())


def test_jobs_of_a_busy_variant_keep_none_of_another_variant_waiting(process: Process, producer: Producer) -> None:
    process.route("r-1", "light")
    process.route("r-2", "heavy")
    process.forwarder.step()
    assert (sent(producer, "light"), sent(producer, "heavy")) == ([], ["r-2"])
    job = read(producer.topics["jobs.heavy.v1"][0], GenerateJob)
    assert (job.worker_id, producer.topics["jobs.heavy.v1"][0].partition) == ("w-2", 3)


def test_the_first_of_a_lane_goes_when_a_heartbeat_says_that_a_worker_is_idle(
    process: Process, fleet: StubFleet, producer: Producer
) -> None:
    for name, tier in (("batch", "batch"), ("r-1", "standard"), ("r-2", "interactive")):
        process.route(name, tier=tier)
    process.forwarder.step()
    assert sent(producer) == []
    for seen, names in enumerate((["r-2"], ["r-2", "r-1"], ["r-2", "r-1", "batch"])):
        is_idle(fleet, seen)
        process.forwarder.step()
        process.forwarder.step()
        assert sent(producer) == names
    assert process.topics.waiting("light") == []
    assert process.counts.count("light") == 0


def test_after_a_kill_the_next_owner_forwards_what_waits_in_order_and_nothing_that_went(
    process: Process, topics: Topics, fleet: StubFleet, producer: Producer
) -> None:
    for name, tier in (("batch", "batch"), ("r-1", "standard"), ("r-2", "standard"), ("r-3", "standard")):
        process.route(name, tier=tier)
    is_idle(fleet)
    process.forwarder.step()
    assert topics.waiting("light") == ["batch", "r-2", "r-3"]
    again = Process(topics, fleet, producer)  # nothing is said to the first one
    for seen in range(1, 4):
        is_idle(fleet, seen)
        again.forwarder.step()
    assert sent(producer) == ["r-1", "r-2", "r-3", "batch"]
    assert topics.waiting("light") == []


def test_what_the_broker_has_not_acknowledged_is_forwarded_again_after_a_kill(
    process: Process, topics: Topics, fleet: StubFleet, producer: Producer
) -> None:
    process.route("r-1")
    is_idle(fleet)
    producer.is_silent = True
    process.forwarder.step()
    process.forwarder.step()
    assert (sent(producer), topics.waiting("light")) == (["r-1"], ["r-1"])
    producer.answer()
    process.forwarder.step()
    assert topics.waiting("light") == []


def test_a_queue_that_another_process_gets_is_handed_over_with_what_was_written(
    process: Process, topics: Topics, fleet: StubFleet, producer: Producer
) -> None:
    for name in ("r-1", "r-2"):
        process.route(name)
    is_idle(fleet)
    producer.is_silent = True
    process.forwarder.step()
    producer.answer()
    process.member.close()
    assert topics.waiting("light") == ["r-2"]
    assert process.forwarder._queues.variants() == []


def test_a_job_that_is_not_written_is_taken_again(process: Process, topics: Topics, producer: Producer) -> None:
    process.route("r-1", "heavy")
    producer.is_silent = True
    process.forwarder.step()
    producer.unanswered[0][0].set_exception(DeliveryFailed("the broker is away"))
    with pytest.raises(DeliveryFailed):
        process.forwarder.step()
    process.member.close()
    assert topics.waiting("heavy") == ["r-1"]


def test_a_cancelled_request_leaves_its_queue_and_takes_no_worker(
    topics: Topics, fleet: StubFleet, producer: Producer
) -> None:
    ended: set[str] = set()
    process, before = Process(topics, fleet, producer, ended), metrics.DEAD_WORK.labels("router")._value.get()
    for name in ("r-1", "r-2"):
        process.route(name)
    process.forwarder.step()
    ended.add("r-1")
    is_idle(fleet)
    process.forwarder.step()
    assert sent(producer) == ["r-2"]
    assert metrics.DEAD_WORK.labels("router")._value.get() == before + 1
    process.forwarder.step()
    assert topics.waiting("light") == []


def test_a_job_whose_deadline_passes_while_it_waits_ends_with_the_reason(process: Process, producer: Producer) -> None:
    process.route("r-1", deadline_ms=now_ms() + 5)  # light takes 20 ms
    process.forwarder.step()
    outcome = read(producer.topics[OUTCOMES][0], Outcome)
    assert (outcome.status, outcome.code, outcome.by) == (Status.EXPIRED, "deadline", "router")
    assert "no worker was idle before" in outcome.reason
    process.forwarder.step()
    assert process.topics.waiting("light") == []


def test_a_job_that_would_be_late_behind_the_work_of_its_worker_ends_with_its_draft(
    topics: Topics, producer: Producer
) -> None:
    busy = a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(3, remaining_ms=BUSY_MS),))
    process = Process(topics, StubFleet().receive(busy, now_ms()), producer)
    process.plans.obey(a_plan(version=2, dispatch="pull", batch={"heavy": 1000}))  # its next call is not full
    for name, left_ms in (("late", BUSY_MS + 100), ("in time", BUSY_MS + 10_000)):  # heavy takes 200 ms
        classified = a_classified(a_request(request_id=name, deadline_ms=now_ms() + left_ms))
        draft = step_of(an_image(a_job(classified)), 0.2, 0.5)
        topics.append(process.dispatcher.send(PULL, classified, on("heavy"), cause={}, path=(draft,)))
    process.forwarder.step()
    (outcome,) = (read(record, Outcome) for record in producer.topics[OUTCOMES])
    assert (outcome.request_id, outcome.status) == ("late", Status.COMPLETED)
    assert "its next worker was busy for" in outcome.reason
    assert "the draft was kept" in outcome.reason
    assert sent(producer, "heavy") == ["in time"]


def test_a_plan_that_pushes_empties_the_queues_at_once(process: Process, producer: Producer) -> None:
    for n in range(3):
        process.route(f"r-{n}")
    process.plans.obey(a_plan(version=2, dispatch="least-work"))
    process.forwarder.step()
    assert sent(producer) == ["r-0", "r-1", "r-2"]


def test_jobs_of_a_variant_that_a_plan_drops_go_where_orphaned_jobs_are_rerouted_from(
    topics: Topics, producer: Producer
) -> None:
    fleet = StubFleet().receive(a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(3),)), now_ms())
    process, counter = Process(topics, fleet, producer), metrics.FALLBACKS.labels("router", "no-owner")
    before = counter._value.get()
    process.route("r-1")
    process.forwarder.step()
    assert sent(producer) == []  # the plan gives `light` a worker
    process.plans.obey(a_plan(version=2, dispatch="pull", allocation={"w-2": "heavy"}))
    process.forwarder.step()
    assert sent(producer) == ["r-1"]
    assert producer.topics["jobs.light.v1"][0].partition is None
    assert counter._value.get() == before + 1


def test_what_cannot_be_read_fails_and_its_bytes_are_kept(process: Process, topics: Topics, producer: Producer) -> None:
    topics.append(Outgoing(topic="waiting.light.v1", key=b"broken", value=b"\x00nonsense"))
    foreign = a_job(a_classified(a_request(request_id="foreign")), variant="heavy", level="heavy")
    topics.append(Outgoing(topic="waiting.light.v1", key=b"foreign", value=a_record(foreign).value))
    process.route("r-1", "heavy")
    process.forwarder.step()
    outcomes = [read(record, Outcome) for record in producer.topics[OUTCOMES]]
    assert [(each.request_id, each.status) for each in outcomes] == [("broken", "FAILED"), ("foreign", "FAILED")]
    assert "lies on waiting.light.v1" in outcomes[1].reason
    assert len(producer.topics[DLQ]) == 2
    assert sent(producer, "heavy") == ["r-1"]
    process.forwarder.step()
    assert topics.waiting("light") == []


def test_no_more_jobs_are_held_than_fit_and_the_rest_is_read_when_they_have_gone(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "MAX_WAITING", 4)
    for n in range(5):
        process.route(f"r-{n}")
    process.forwarder.step()
    assert process.member.paused == {"light"}
    process.plans.obey(a_plan(version=2, dispatch="least-work"))
    process.forwarder.step()
    assert process.member.paused == set()


def test_a_router_admits_by_the_queue_before_a_level_too(process: Process) -> None:
    logic = RoutingLogic(a_catalog(), NO_LIMITS)
    for n in range(50):
        process.route(f"r-{n}")
    hurried = a_classified(a_request(request_id="hurried", quality="low", deadline_ms=now_ms() + BUSY_MS + 500))
    decision = logic.route(hurried, PULL, process.dispatcher.loads(PULL, now_ms()), now_ms())
    assert getattr(decision, "code", "") == "deadline"  # 50 jobs of 20 ms before it
    overtaking = process.dispatcher.loads(PULL, now_ms(), "interactive")
    assert isinstance(logic.route(hurried, PULL, overtaking, now_ms()), Placement)
