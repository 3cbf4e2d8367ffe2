"""The router obeys the plan, drops dead requests, expires what cannot be in time, and keeps the tenants' rights."""

import asyncio

import pytest

from agents.features.tenants import Tenants
from agents.router.dispatcher import Dispatcher
from agents.router.role import Router
from planner.serving.admission.quotas import Quota
from planner.serving.requests import Work
from planner.serving.routing.routing import RoutingLogic, backlog_limits
from schemas.messages import Admission as Shed
from schemas.messages import GenerateJob, GenerateOptions, Outcome, Route, Status
from schemas.record import Delivered
from schemas.topics import DLQ, OUTCOMES, jobs_topic
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.settings import Admission
from tests.agents.stubs import StubFleet, StubPlans, a_record, read, topics_of
from tests.builders import a_catalog, a_classified, a_heartbeat, a_plan, a_request, owned


@pytest.fixture
def fleet() -> StubFleet:
    fleet = StubFleet().receive(a_heartbeat(partitions=(owned(2),)), now_ms())
    return fleet.receive(a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(0),)), now_ms())


def a_router(
    fleet: StubFleet,
    plans: StubPlans,
    ended: set[str] | None = None,
    tenants: Tenants | None = None,
    limits: Admission | None = None,
) -> Router:
    asked = limits or Admission()
    admitted = backlog_limits(asked.max_backlog_s, asked.interactive_headroom)
    logic = RoutingLogic(a_catalog(), admitted, tenants or Tenants({}), set() if ended is None else ended)
    return Router(logic, plans, Dispatcher(a_catalog(), fleet, "router"))


def test_a_request_becomes_a_job_on_the_routes_level_for_the_worker_that_owns_the_partition(fleet: StubFleet) -> None:
    router = a_router(fleet, StubPlans(a_plan(version=9)))
    (job,) = asyncio.run(router.on_record(a_record(a_classified())))
    said = read(job, GenerateJob)
    assert (job.topic, job.partition, job.key) == (jobs_topic("light", 1).name, 2, b"r-1")
    assert (said.level, said.worker_id, said.plan_version, said.probability, said.stage) == ("light", "w-1", 9, 1.0, 0)


def test_the_same_request_makes_the_same_job_again_when_a_router_died(fleet: StubFleet) -> None:
    plans = StubPlans(a_plan(routes=(Route(levels={"light": 0.5, "heavy": 0.5}),)))
    routers = a_router(fleet, plans), a_router(fleet, plans)
    first, again = (asyncio.run(router.on_record(a_record(a_classified())))[0] for router in routers)
    assert read(first, GenerateJob).job_id == read(again, GenerateJob).job_id
    assert first.topic == again.topic


def test_a_repetition_of_an_open_request_is_neither_decided_on_nor_charged_again(fleet: StubFleet) -> None:
    tenants, plans = Tenants({"default": Quota(rate_rps=0.1, burst=2)}), StubPlans(a_plan())
    router = a_router(fleet, plans, tenants=tenants)
    assert len(asyncio.run(router.on_record(a_record(a_classified())))) == 1
    before = metrics.REPEATED._value.get()
    plans.plan = a_plan(version=2, admission=Shed(shares={"standard": 0.0}, reason="shed", retry_after_ms=1))
    for _ in range(5):
        assert asyncio.run(router.on_record(a_record(a_classified()))) == []
    assert metrics.REPEATED._value.get() == before + 5
    plans.plan = a_plan(version=3)
    other = a_record(a_classified(a_request(request_id="r-2")))
    assert topics_of(asyncio.run(router.on_record(other))) == [jobs_topic("light", 1).name], "its token is there"


def test_what_never_got_its_job_is_decided_on_again(fleet: StubFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    router = a_router(fleet, StubPlans(a_plan()))

    def cancelled(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(router._dispatcher, "send", cancelled)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(router.on_record(a_record(a_classified())))
    assert topics_of(asyncio.run(router.on_record(a_record(a_classified())))) == [jobs_topic("light", 1).name]


def test_what_ends_while_it_is_decided_on_is_not_open(fleet: StubFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, tenants = {"another"}, Tenants({})
    router = a_router(fleet, StubPlans(a_plan()), ended, tenants)
    wait_ms = fleet.wait_ms

    def ends_meanwhile(variant: str, at_ms: int, queued_ms: float, *, holds: bool) -> float:
        ended.add("r-1")
        tenants.ended("r-1")
        return wait_ms(variant, at_ms, queued_ms, holds=holds)

    monkeypatch.setattr(fleet, "wait_ms", ends_meanwhile)
    assert asyncio.run(router.on_record(a_record(a_classified()))) == []
    assert not tenants.is_open("r-1", now_ms())


def test_a_request_that_has_ended_is_dropped(fleet: StubFleet) -> None:
    router = a_router(fleet, StubPlans(a_plan()), {"r-1"})
    assert asyncio.run(router.on_record(a_record(a_classified()))) == []


def test_nothing_is_routed_before_there_is_a_plan(fleet: StubFleet) -> None:
    plans = StubPlans()
    router = a_router(fleet, plans)

    async def scenario() -> None:
        routing = asyncio.create_task(router.on_record(a_record(a_classified())))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not routing.done()
        plans.plan = a_plan()
        assert len(await routing) == 1

    asyncio.run(scenario())


def test_a_deadline_that_only_a_cheaper_level_meets_is_met_by_it(fleet: StubFleet) -> None:
    router = a_router(fleet, StubPlans(a_plan(routes=(Route(levels={"heavy": 1.0}),))))
    hurried = a_classified(a_request(deadline_ms=now_ms() + 150))  # heavy takes 200 ms, light 20
    (job,) = asyncio.run(router.on_record(a_record(hurried)))
    assert read(job, GenerateJob).level == "light"


def test_a_deadline_that_no_level_meets_expires_at_once(fleet: StubFleet) -> None:
    router = a_router(fleet, StubPlans(a_plan()))
    (outcome,) = asyncio.run(router.on_record(a_record(a_classified(a_request(deadline_ms=now_ms() + 5)))))
    assert (outcome.topic, read(outcome, Outcome).status) == (OUTCOMES, Status.EXPIRED)


def test_a_level_that_nobody_serves_still_gets_its_job_by_key() -> None:
    router = a_router(StubFleet(), StubPlans(a_plan()))
    (job,) = asyncio.run(router.on_record(a_record(a_classified())))
    assert (job.partition, read(job, GenerateJob).worker_id) == (None, "")


def test_the_dispatcher_hears_where_the_job_lies(fleet: StubFleet) -> None:
    router = a_router(fleet, StubPlans(a_plan()))
    (job,) = asyncio.run(router.on_record(a_record(a_classified())))
    router.on_delivered(job, Delivered(partition=2, offset=41))
    assert fleet.acknowledged_at == [41]


def test_a_plan_without_a_route_for_the_request_ends_it_as_failed_and_keeps_it(fleet: StubFleet) -> None:
    router = a_router(fleet, StubPlans(a_plan(routes=(Route(levels={"light": 1.0}, hardness_to=0.1),))))
    record = a_record(value=encode(a_classified()))
    with pytest.raises(Exception, match="no route") as caught:
        asyncio.run(router.on_record(record))
    outcome, kept = router.on_error(record, caught.value)
    assert topics_of([outcome, kept]) == [OUTCOMES, DLQ]
    assert read(outcome, Outcome).status is Status.FAILED
    assert kept.value == record.value


def test_what_the_level_cannot_honour_stands_on_the_job(fleet: StubFleet) -> None:
    router = a_router(fleet, StubPlans(a_plan()))
    (job,) = asyncio.run(router.on_record(a_record(a_classified(a_request(options=GenerateOptions(steps=50))))))
    assert read(job, GenerateJob).overridden == ("steps: 50 -> 2",)


def test_under_strict_it_is_rejected_with_a_code(fleet: StubFleet) -> None:
    router = a_router(fleet, StubPlans(a_plan()))
    strict = a_request(options=GenerateOptions(steps=50, strict=True))
    (written,) = asyncio.run(router.on_record(a_record(a_classified(strict))))
    said = read(written, Outcome)
    assert (written.topic, said.status, said.code) == (OUTCOMES, Status.REJECTED, "unhonoured")


def test_over_the_allowed_backlog_a_request_is_rejected_with_the_time_to_come_back() -> None:
    busy = StubFleet().receive(a_heartbeat(partitions=(owned(0, 9, 9_000),)), now_ms())
    router = a_router(busy, StubPlans(a_plan()), limits=Admission(max_backlog_s=5, interactive_headroom=0))
    (written,) = asyncio.run(router.on_record(a_record(a_classified())))
    said = read(written, Outcome)
    assert (said.status, said.code) == (Status.REJECTED, "overloaded")
    assert said.retry_after_ms is not None
    assert 3_000 < said.retry_after_ms <= 4_000


def test_who_has_less_than_its_share_is_not_refused_for_the_backlog_of_another() -> None:
    one = StubFleet().receive(a_heartbeat(variant="heavy", partitions=(owned(0),)), now_ms())
    limits = Admission(max_backlog_s=1, interactive_headroom=0.2)
    router = a_router(one, StubPlans(a_plan(routes=(Route(levels={"heavy": 1.0}),))), limits=limits)

    def codes(tenant: str, *numbers: int) -> list[str]:
        asked = (a_request(request_id=f"{tenant}-{n}", tenant=tenant) for n in numbers)
        written = [asyncio.run(router.on_record(a_record(a_classified(request))))[0] for request in asked]
        return [read(each, Outcome).code if each.topic == OUTCOMES else "" for each in written]

    assert codes("greedy", *range(9)) == [""] * 5 + ["overloaded"] * 4, "0.8 s may wait, of 200 ms each"
    assert codes("modest", *range(4)) == ["", "", "overloaded", "overloaded"], "half of 1 s is its own"
    assert codes("greedy", 9) == ["overloaded"]


def test_what_the_plan_sheds_is_rejected_with_its_reason_and_counted_by_tier(fleet: StubFleet) -> None:
    shed = Shed(shares={"standard": 0.0}, reason="shed: demand 40/s, capacity 0.3/s", retry_after_ms=9000)
    router = a_router(fleet, StubPlans(a_plan(admission=shed)))
    before = metrics.SHED.labels("standard")._value.get()
    (written,) = asyncio.run(router.on_record(a_record(a_classified())))
    said = read(written, Outcome)
    assert (said.status, said.code, said.reason) == (Status.REJECTED, "shed", shed.reason)
    assert said.retry_after_ms == 9000
    assert metrics.SHED.labels("standard")._value.get() == before + 1
    dear = a_record(a_classified(a_request(tier="interactive")))
    assert topics_of(asyncio.run(router.on_record(dear))) == [jobs_topic("light", 1).name]


def test_what_a_plan_sheds_is_shed_from_who_floods(fleet: StubFleet) -> None:
    shed = Shed(shares={"standard": 0.5}, reason="shed", retry_after_ms=9000)
    router = a_router(fleet, StubPlans(a_plan(admission=shed)))

    def is_shed(request_id: str, tenant: str) -> bool:
        record = a_record(a_classified(a_request(request_id=request_id, tenant=tenant)))
        return asyncio.run(router.on_record(record))[0].topic == OUTCOMES

    reported = [(is_shed(f"g-{n}", "greedy"), n % 10 == 0 and is_shed(f"m-{n}", "modest")) for n in range(200)]
    assert sum(modest for _, modest in reported[10:]) == 0
    assert 80 < sum(greedy for greedy, _ in reported) < 140, "what modest has more, greedy has less"


def test_a_tenant_beyond_its_rate_is_rejected_and_the_others_are_served(fleet: StubFleet) -> None:
    tenants = Tenants({"greedy": Quota(rate_rps=0.1, burst=1)})
    router = a_router(fleet, StubPlans(a_plan()), tenants=tenants)

    def route(request_id: str, tenant: str) -> str:
        record = a_record(a_classified(a_request(request_id=request_id, tenant=tenant)))
        return asyncio.run(router.on_record(record))[0].topic

    assert route("a", "greedy") == jobs_topic("light", 1).name
    assert route("b", "greedy") == OUTCOMES
    assert route("c", "modest") == jobs_topic("light", 1).name


def test_a_refused_request_takes_no_tokens(fleet: StubFleet) -> None:
    tenants = Tenants({"default": Quota(rate_rps=0.1, burst=1)})
    router = a_router(fleet, StubPlans(a_plan()), tenants=tenants)
    strict = a_request(request_id="a", options=GenerateOptions(steps=50, strict=True))
    assert asyncio.run(router.on_record(a_record(a_classified(strict))))[0].topic == OUTCOMES
    assert asyncio.run(router.on_record(a_record(a_classified())))[0].topic == jobs_topic("light", 1).name


# tenants: what is open counts until its request has a result


def test_a_crowded_share_is_refused_until_work_ends() -> None:
    tenants = Tenants({"a": Quota(weight=1)})
    for n in range(10):
        assert tenants.refuse(Work(f"r-{n}", "a", 1, 10), 100, 0) is None
    refused = tenants.refuse(Work("r-10", "a", 1, 10), 100, 0)
    assert refused is not None
    assert refused.code == "overloaded"
    tenants.ended("r-0")
    assert tenants.refuse(Work("r-10", "a", 1, 10), 100, 0) is None


def test_a_request_that_is_read_again_is_open_once() -> None:
    tenants = Tenants({})
    for _ in range(100):
        assert tenants.refuse(Work("r-1", "a", 1, 60), 100, 0) is None


def test_the_end_of_an_unknown_request_changes_nothing() -> None:
    tenants = Tenants({})
    tenants.ended("never seen")
    assert tenants.refuse(Work("r-1", "default", 1, 100), 100, 0) is None
