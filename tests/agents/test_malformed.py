"""Every role goes on, whatever it is fed: what it cannot serve is in the dlq, and the next record is served."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from agents.classifier.role import Classifier
from agents.discriminator.role import Discriminator
from agents.features.tenants import Tenants
from agents.ledger.open_requests import OpenRequests
from agents.ledger.partition import LedgerPartition
from agents.planner.loop import PlannerLoop
from agents.router.dispatcher import Dispatcher
from agents.router.reroute import Rerouting
from agents.router.role import Router
from agents.runtime.views import FleetView, PlanView
from agents.worker.jobs import Taken
from planner.serving.admission.quotas import Quota
from planner.serving.routing.escalation import EscalationLogic
from planner.serving.routing.reroute import OrphanRouting
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic
from schemas.errors import PochadeError
from schemas.messages import (
    ClassifiedRequest,
    GenerateJob,
    GenerateRequest,
    Heartbeat,
    ImageGenerated,
    Outcome,
    Plan,
    Result,
)
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, DLQ, IMAGES, OUTCOMES, PLAN_KEY, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.codec.headers import ERROR
from streams.kafka.producers.writing import MAX_BYTES, size_of
from streams.settings import Requests, load
from tests.agents.classifier.test_role import Judge
from tests.agents.discriminator.test_role import FixedScorer, stored_image
from tests.agents.stubs import StubEngine, StubFleet, StubPlans, a_record
from tests.agents.worker.driving import a_driver, answers
from tests.agents.worker.feeding import Fed, as_records, feed, is_accounted_for, is_message, served
from tests.builders import (
    NOW_MS,
    a_catalog,
    a_classified,
    a_heartbeat,
    a_job,
    a_plan,
    a_request,
    a_variant,
    an_image,
    an_outcome,
    owned,
)
from tests.malformed import EXAMPLES, JSON, fuzz, senseless, spoilt
from tests.memory_kafka import LeaseBoard, MemoryLease, MemoryRecordProducer
from tests.memory_store import MemoryImageStore
from tests.planner.serving.workers import FixedLoads
from tests.stateful.broker import Broker, Group, connected

CATALOG = a_catalog()
SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}, "planner": {"policy": "random-split"}})


def a_fleet() -> StubFleet:
    fleet = StubFleet().receive(a_heartbeat(partitions=(owned(2),)), now_ms())
    return fleet.receive(a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(0),)), now_ms())


LINES = st.dictionaries(
    st.sampled_from(("prompt", "request_id", "seed", "n", "tier", "deadline_ms", "quality")), JSON
).map(lambda fields: json.dumps({"prompt": "a red heart", **fields}).encode())


@fuzz(25)
@given(
    feed(lambda name: a_request(request_id=name), spoilt(EXAMPLES[GenerateRequest]) | LINES, EXAMPLES[GenerateRequest])
)
def test_the_classifier(tmp_path: pathlib.Path, fed: list[Fed]) -> None:
    answers = served(Classifier(Judge(), CATALOG, Requests()), tmp_path, fed)
    is_accounted_for(fed, answers, GenerateRequest, CLASSIFIED)


@fuzz(25)
@given(
    feed(
        lambda name: a_classified(a_request(request_id=name)),
        spoilt(EXAMPLES[ClassifiedRequest]),
        EXAMPLES[ClassifiedRequest],
    )
)
def test_the_router(tmp_path: pathlib.Path, fed: list[Fed]) -> None:
    logic = RoutingLogic(CATALOG, NO_LIMITS, Tenants({"default": Quota(rate_rps=1e6, burst=1e6)}))
    router = Router(logic, StubPlans(a_plan()), Dispatcher(CATALOG, a_fleet(), "router"))
    answers = served(router, tmp_path, fed)
    is_accounted_for(fed, answers, ClassifiedRequest, "jobs.light.v1")


STORE = MemoryImageStore()
STORED = stored_image(STORE).image


def an_image_of(name: str) -> ImageGenerated:
    return an_image(a_job(a_classified(a_request(request_id=name))), image=STORED)


@fuzz(25)
@given(feed(an_image_of, spoilt(EXAMPLES[ImageGenerated]), EXAMPLES[ImageGenerated]))
def test_the_discriminator(tmp_path: pathlib.Path, fed: list[Fed]) -> None:
    fleet, logic = a_fleet(), EscalationLogic(CATALOG)
    dispatcher, scorers = Dispatcher(CATALOG, fleet, "discriminator"), {"look": FixedScorer(0.9)}
    role = Discriminator(logic, StubPlans(a_plan()), set(), dispatcher, STORE, scorers)
    answers = served(role, tmp_path, fed)
    is_accounted_for(fed, answers, ImageGenerated, OUTCOMES)


def a_named_job(name: str) -> GenerateJob:
    return a_job(a_classified(a_request(request_id=name)))


@fuzz(40)
@given(feed(a_named_job, spoilt(EXAMPLES[GenerateJob]), EXAMPLES[GenerateJob]), st.integers(1, 4))
def test_the_worker(fed: list[Fed], most: int) -> None:
    driver = a_driver("w-9", StubEngine(), a_variant(), MemoryImageStore(), set(), 3)
    taken = [Taken(record, 1) for record in as_records(fed)]
    for begin in range(0, len(taken), most):
        batch = taken[begin : begin + most]
        written = answers(driver, batch)
        assert all(size_of(record) <= MAX_BYTES for record in written)
        letters = {record.headers[ERROR + "offset"] for record in written if record.topic == DLQ}
        images = {record.key for record in written if record.topic == IMAGES}
        for each in batch:
            if fed[each.record.offset].kind == "good":
                assert each.record.key in images
            elif not is_message(each.record.value, GenerateJob):
                assert str(each.record.offset).encode() in letters


@fuzz(25)
@given(feed(a_named_job, spoilt(EXAMPLES[GenerateJob]), EXAMPLES[GenerateJob]))
def test_the_rerouter(fed: list[Fed]) -> None:
    producer = MemoryRecordProducer()
    logic = OrphanRouting(CATALOG, RoutingLogic(CATALOG, NO_LIMITS), 3000)
    rerouting = Rerouting(logic, set(), Dispatcher(CATALOG, a_fleet(), "router"), producer)
    reported = rerouting.serve([Taken(record, 1) for record in as_records(fed)], a_plan())
    assert len(reported) == len(fed)
    assert all(what == "to light" for what, each in zip(reported, fed, strict=True) if each.kind == "good")
    assert all(size_of(record) <= MAX_BYTES for log in producer.topics.values() for record in log)


@fuzz(30)
@given(feed(lambda name: an_outcome(request_id=name), spoilt(EXAMPLES[Outcome]), EXAMPLES[Outcome]))
def test_the_ledger(fed: list[Fed]) -> None:
    broker = Broker(now_ms=now_ms())
    with connected(broker):
        lane = LedgerPartition(SETTINGS, 0)
        young = [dataclasses.replace(record, timestamp_ms=broker.now_ms) for record in as_records(fed, OUTCOMES)]
        lane.serve(young, Group(broker))
    results = [written.key for written in broker.visible(RESULTS)]
    letters = [dict(each.headers)[ERROR + "offset"] for each in broker.visible(DLQ)]
    assert broker.committed == {(f"pochade.{OUTCOMES}", 0): len(fed)}
    assert len(letters) == len(set(letters))
    assert len(results) == len(set(results))
    for offset, each in enumerate(fed):
        if each.kind == "good":
            assert each.key in results
        elif not is_message(each.value, Outcome):
            assert str(offset).encode() in letters


@fuzz(30)
@given(feed(lambda name: a_classified(a_request(request_id=name, deadline_ms=5)), spoilt(EXAMPLES[ClassifiedRequest]),
            EXAMPLES[ClassifiedRequest]))  # fmt: skip
def test_the_ledger_s_own_ends(fed: list[Fed]) -> None:
    broker, waiting, records = Broker(now_ms=now_ms()), OpenRequests(10**15), []
    for record in as_records(fed, CLASSIFIED):
        known = dict(record.headers) | ({"pochade_deadline_ms": b"5"} if fed[record.offset].kind == "good" else {})
        records.append(dataclasses.replace(record, headers=known, timestamp_ms=broker.now_ms))
    waiting.take(records, lambda _: set(), 0)
    with connected(broker):
        LedgerPartition(SETTINGS, 0).expire([records[entry.offset] for entry in waiting.overdue(10**15, 0, 100)])
    results = {written.key for written in broker.visible(RESULTS)}
    assert results >= {each.key for each in fed if each.kind == "good"}


def only_ours(take: Callable[[Incoming], object], records: list[Incoming]) -> None:
    """As a follower: the next record is handed over whatever becomes of one."""
    for record in records:
        with contextlib.suppress(PochadeError):
            take(record)


@fuzz(40)
@given(st.lists(senseless(a_plan(version=5)).map(encode) | spoilt(EXAMPLES[Plan]), max_size=8))
def test_who_obeys_plans(values: list[bytes | None]) -> None:
    """What is obeyed can be: no request fails by it; and the next good plan is obeyed whatever came before."""
    view = PlanView("test", CATALOG)
    for value in values:
        only_ours(view.on_record, [a_record(value=value, key=PLAN_KEY.encode())])
        if view.plan is not None:
            idle = FixedLoads(dict.fromkeys(CATALOG.variants, 0.0))
            RoutingLogic(CATALOG, NO_LIMITS).route(a_classified(), view.plan, idle, NOW_MS)
            assert min(view.plan.batch.values(), default=1) >= 1
        good = a_plan(version=view.newest + 1, policy="good")
        only_ours(view.on_record, [a_record(good, key=PLAN_KEY.encode(), offset=1)])
        assert view.plan == good


RESULT = EXAMPLES[Result]


@fuzz(30)
@given(
    feed(lambda name: a_heartbeat(worker_id=name), spoilt(EXAMPLES[Heartbeat]), EXAMPLES[Heartbeat]),
    feed(lambda name: a_classified(a_request(request_id=name)), spoilt(EXAMPLES[ClassifiedRequest]), a_classified()),
    feed(lambda name: dataclasses.replace(RESULT, request_id=name), spoilt(RESULT), RESULT),
)
def test_the_planner(beats: list[Fed], prompts: list[Fed], results: list[Fed]) -> None:
    board = LeaseBoard()
    fleet = FleetView(SETTINGS.planner.worker_timeout_ms)
    loop = PlannerLoop(SETTINGS, CATALOG, MemoryLease(board), StubPlans(), fleet)
    only_ours(fleet.on_record, as_records(beats))
    only_ours(loop.sources.on_classified, as_records(prompts))
    only_ours(loop.sources.on_result, as_records(results))
    loop.step(1_000_000, now_ms())
    (record,) = board.records
    plan = decode(record.value, Plan)
    good = {decode(each.value, Heartbeat).worker_id for each in beats if each.kind == "good"}
    assert plan.allocation.keys() >= good
