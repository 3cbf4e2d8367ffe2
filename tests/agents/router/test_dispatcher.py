"""The dispatcher: own sends count at once, on the right worker, until a heartbeat has seen them."""

import math

import pytest

from agents.router import dispatcher as dispatching
from agents.router.dispatcher import Dispatcher
from planner.catalog.components import NOTHING
from planner.serving.dispatch.dispatch import Retry
from planner.serving.dispatch.worker_loads import Load
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic
from schemas.messages import GenerateJob, GenerateOptions, Plan, WorkerComponents
from schemas.record import Delivered, Outgoing
from streams.clock import now_ms
from tests.agents.router import placing
from tests.agents.router.placing import finish_in_ms, on
from tests.agents.stubs import StubFleet, read
from tests.builders import a_catalog, a_classified, a_heartbeat, a_job, a_plan, a_request, owned, sized_variant


@pytest.fixture
def fleet() -> StubFleet:
    fleet = StubFleet().receive(a_heartbeat(partitions=(owned(0),)), now_ms())
    return fleet.receive(a_heartbeat(worker_id="w-2", partitions=(owned(1),)), now_ms())


@pytest.fixture
def dispatcher(fleet: StubFleet) -> Dispatcher:
    return Dispatcher(a_catalog(), fleet, "router")


def both_on_light(**changes: object) -> Plan:
    """A plan that keeps both workers of the fleet where they are."""
    return a_plan(allocation={"w-1": "light", "w-2": "light"}, **changes)


def placed(dispatcher: Dispatcher, request_id: str = "r-1", **plan: object) -> Outgoing:
    classified = a_classified(a_request(request_id=request_id))
    return dispatcher.send(both_on_light(**plan), classified, on("light"), cause={})


def test_a_second_job_goes_to_the_other_worker(dispatcher: Dispatcher) -> None:
    assert {placed(dispatcher, "r-1").partition, placed(dispatcher, "r-2").partition} == {0, 1}


def test_round_robin_takes_turns(dispatcher: Dispatcher) -> None:
    turns = [placed(dispatcher, f"r-{n}", dispatch="round-robin").partition for n in range(4)]
    assert turns[:2] != turns[1:3]
    assert turns[:2] == turns[2:]


def test_own_sends_lengthen_the_wait(dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    now = now_ms()
    for module in (dispatching, placing):
        monkeypatch.setattr(module, "now_ms", lambda: now)
    before = finish_in_ms(dispatcher, "light")
    for n in range(20):
        placed(dispatcher, f"r-{n}")
    assert finish_in_ms(dispatcher, "light") == pytest.approx(before + 200)  # ten jobs of 20 ms each


def test_a_job_that_skips_steps_is_counted_with_what_is_left(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = now_ms()
    for module in (dispatching, placing):
        monkeypatch.setattr(module, "now_ms", lambda: now)
    assert finish_in_ms(dispatcher, "light", 1) == pytest.approx(10)  # one of two steps of 20 ms
    for n in range(20):
        sending = dispatcher.send(
            both_on_light(), a_classified(a_request(request_id=f"r-{n}")), on("light", 1), cause={}
        )
        assert read(sending, GenerateJob).refine_from_step == 1
    assert finish_in_ms(dispatcher, "light") == pytest.approx(120)  # ten jobs of 10 ms, and itself


def test_a_job_that_a_heartbeat_has_counted_is_not_counted_twice(dispatcher: Dispatcher, fleet: StubFleet) -> None:
    for n in range(20):
        record = placed(dispatcher, f"r-{n}")
        dispatcher.on_delivered(record, Delivered(partition=record.partition or 0, offset=n))
    for worker, partition in (("w-1", 0), ("w-2", 1)):
        fleet.receive(a_heartbeat(worker_id=worker, partitions=(owned(partition, end_offset=20),)), now_ms())
    assert finish_in_ms(dispatcher, "light") == pytest.approx(20)


def test_a_job_that_its_topic_does_not_take_is_before_nobody(dispatcher: Dispatcher, fleet: StubFleet) -> None:
    for n in range(20):
        dispatcher.on_undelivered(placed(dispatcher, f"r-{n}"))
    for worker, partition in (("w-1", 0), ("w-2", 1)):
        fleet.receive(a_heartbeat(worker_id=worker, partitions=(owned(partition),)), now_ms())
    assert finish_in_ms(dispatcher, "light") < 100  # not ten jobs of 20 ms


def test_a_record_of_somebody_else_is_ignored(dispatcher: Dispatcher, fleet: StubFleet) -> None:
    dispatcher.on_delivered(Outgoing(topic="events.v9", key=None, value=None), Delivered(partition=0, offset=3))
    assert fleet.acknowledged_at == []


def test_a_level_that_nobody_serves_is_never_finished(dispatcher: Dispatcher) -> None:
    assert finish_in_ms(dispatcher, "heavy") == math.inf


def test_pull_writes_to_the_queue_of_the_variant_and_what_waits_there_lengthens_its_wait(fleet: StubFleet) -> None:
    dispatcher = Dispatcher(a_catalog(), fleet, "router")
    before = dispatcher.loads(both_on_light(), now_ms())
    for n in range(6):
        record = placed(dispatcher, f"r-{n}", dispatch="pull")
        assert (record.topic, record.partition) == ("waiting.light.v1", 0)
        assert read(record, GenerateJob).worker_id == ""
    assert before.wait_ms("light") == pytest.approx(60)  # six jobs of 20 ms before two workers
    assert before.wait_ms("heavy") == math.inf


def test_a_plan_that_holds_queues_jobs_while_every_worker_has_work_and_behind_those_that_wait(
    fleet: StubFleet,
) -> None:
    dispatcher, plan = Dispatcher(a_catalog(), fleet, "router"), both_on_light(holds=True)
    topics = []
    for number in range(40):
        classified = a_classified(a_request(request_id=f"r-{number}"))
        topics.append(dispatcher.send(plan, classified, on("light"), cause={}).topic)
    assert topics[0] == topics[1] == "jobs.light.v1"
    held = topics.index("waiting.light.v1")
    assert set(topics[held:]) == {"waiting.light.v1"}
    assert dispatcher.send(both_on_light(), a_classified(a_request()), on("light"), cause={}).topic == "jobs.light.v1"


def test_a_job_that_waits_goes_to_no_busy_worker(fleet: StubFleet) -> None:
    for worker, partition in (("w-1", 0), ("w-2", 1)):
        fleet.receive(a_heartbeat(worker_id=worker, partitions=(owned(partition, 5, remaining_ms=60_000),)), now_ms())
    dispatcher, plan = Dispatcher(a_catalog(), fleet, "router"), both_on_light(dispatch="pull")
    assert isinstance(dispatcher.choose(plan, a_job(), 20.0, NOTHING), Retry)
    fleet.receive(a_heartbeat(worker_id="w-2", partitions=(owned(1, 5),)), now_ms())
    load = dispatcher.choose(plan, a_job(), 20.0, NOTHING)
    assert isinstance(load, Load)
    assert read(dispatcher.record(a_job(), load, 20.0, NOTHING, {}), GenerateJob).worker_id == "w-2"
    assert isinstance(dispatcher.choose(plan, a_job(), 20.0, NOTHING), Retry)


@pytest.mark.parametrize(("level", "share", "step"), [("heavy~k5", 0.2, 0), ("heavy", 0.0, 3)])
def test_a_job_carries_the_share_that_its_level_lets_a_stored_latent_save(
    dispatcher: Dispatcher, level: str, share: float, step: int
) -> None:
    placement = on("heavy", step or 5)._replace(level=level)
    job = read(dispatcher.send(a_plan(), a_classified(), placement, cause={}), GenerateJob)
    assert (job.level, job.variant, job.reuse_share, job.refine_from_step) == (level, "heavy", share, step)


def test_jobs_with_components_go_to_the_workers_that_hold_them_under_least_cost() -> None:
    catalog = a_catalog(on_request={"styles": sized_variant(latency_ms={1: 1.0}, load_ms=60_000.0)})
    fleet = StubFleet()
    for worker, partition, base in (("w-1", 0, "base:poster"), ("w-2", 1, "base:chalk")):
        report = WorkerComponents(held={"device": (base,)})
        fleet.receive(
            a_heartbeat(worker_id=worker, variant="styles", partitions=(owned(partition),), components=report), now_ms()
        )
    sender = Dispatcher(catalog, fleet, "router")
    logic, went = RoutingLogic(catalog, NO_LIMITS), dict[str, set[int | None]]()
    plan = a_plan(dispatch="least-cost", allocation={"w-1": "styles", "w-2": "styles"})
    for n in range(12):
        model = "poster" if n % 3 else "chalk"
        request = a_request(request_id=f"r-{n}", options=GenerateOptions(model=model))
        placement = logic.route(a_classified(request), plan, sender.loads(plan, now_ms()), now_ms())
        assert isinstance(placement, Placement)
        record = sender.send(plan, a_classified(request), placement, cause={})
        went.setdefault(model, set()).add(record.partition)
    assert went == {"poster": {0}, "chalk": {1}}
