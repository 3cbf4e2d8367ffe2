"""Options are resolved once: whoever sends a job resolves them for its variant, and whoever reads it does as it says.

The catalog's light level honours no option, so that a job which says that it honours `steps` tells a role that reads it
from one that resolves them again.
"""

import asyncio
import dataclasses

import pytest

from agents.router.dispatcher import Dispatcher
from agents.router.reroute import Rerouting
from agents.runtime.records import waiting_record
from agents.worker.jobs import Taken
from agents.worker.work import read_job
from planner.catalog.options import resolve_options, resolved_ms
from planner.serving.routing.placement import Placement
from planner.serving.routing.reroute import OrphanRouting
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic
from schemas.messages import GenerateJob, GenerateOptions, Outcome, Status
from schemas.topics import OUTCOMES
from streams.clock import now_ms
from tests.agents.discriminator.test_role import FixedScorer, a_discriminator, stored_image
from tests.agents.router.waiting.test_forwarder import PULL, Process, Producer, Topics
from tests.agents.stubs import SILENT_MS, StubFleet, a_record, read
from tests.builders import a_catalog, a_classified, a_heartbeat, a_job, a_plan, a_request, owned
from tests.memory_kafka import MemoryRecordProducer
from tests.memory_store import MemoryImageStore

CATALOG = a_catalog()
LIGHT = CATALOG.level("light")  # two steps of 10 ms each
HEAVY = dataclasses.replace(CATALOG.level("heavy"), honours=("steps",))
ABLE = a_catalog(variants={"light": LIGHT, "heavy": HEAVY})  # of which heavy honours steps
STATED = GenerateOptions(steps=20)
CLASSIFIED = a_classified(a_request(options=STATED))


@pytest.fixture
def fleet() -> StubFleet:
    fleet = StubFleet().receive(a_heartbeat(partitions=(owned(0),)), now_ms())
    return fleet.receive(a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(3),)), now_ms())


def placed(variant_name: str) -> Placement:
    variant = ABLE.level(variant_name)
    options = resolve_options(STATED, variant)
    return Placement(variant_name, variant_name, options, resolved_ms(variant, options), 1.0)


@pytest.mark.parametrize(("level", "honoured"), [("light", ()), ("heavy", ("steps",))])
def test_the_router_says_in_a_job_which_options_its_variant_honours(
    fleet: StubFleet, level: str, honoured: tuple[str, ...]
) -> None:
    dispatcher = Dispatcher(ABLE, fleet, "router")  # type: ignore[arg-type]
    job = read(dispatcher.send(a_plan(), CLASSIFIED, placed(level), cause={}), GenerateJob)
    assert job.honoured == honoured


@pytest.mark.parametrize(("honoured", "steps"), [(("steps",), 20), ((), 2), (None, 2)])
def test_a_worker_generates_as_the_job_says_and_resolves_options_where_it_says_nothing(
    honoured: tuple[str, ...] | None, steps: int
) -> None:
    assert read_job(Taken(a_record(a_job(CLASSIFIED, honoured=honoured)), 1), LIGHT).how.steps == steps


@pytest.mark.parametrize(("honoured", "run_ms"), [(("steps",), 200), (None, 20)])
def test_a_job_that_goes_back_to_workers_counts_there_with_the_time_of_the_options_that_it_carries(
    fleet: StubFleet, honoured: tuple[str, ...] | None, run_ms: int
) -> None:
    dispatcher = Dispatcher(CATALOG, fleet, "discriminator")  # type: ignore[arg-type]
    at_ms = now_ms()
    record = dispatcher.send_back(a_plan(), a_job(CLASSIFIED, honoured=honoured), "w-9", {})
    assert read(record, GenerateJob).honoured == honoured
    assert run_ms - 10 < dispatcher.loads(a_plan(), at_ms).wait_ms("light") <= run_ms + 100


@pytest.mark.parametrize(("honoured", "is_late"), [(("steps",), True), (None, False)])
def test_a_job_that_waits_is_too_late_by_the_time_of_the_options_that_it_carries(
    fleet: StubFleet, honoured: tuple[str, ...] | None, is_late: bool
) -> None:
    topics, producer = Topics(), Producer()
    process = Process(topics, fleet, producer)
    hurried = a_classified(a_request(options=GenerateOptions(steps=200), deadline_ms=now_ms() + 1500))
    job = read(process.dispatcher.send(PULL, hurried, placed("light"), cause={}), GenerateJob)
    topics.append(waiting_record(dataclasses.replace(job, honoured=honoured), {}, "router", now_ms()))
    process.forwarder.step()
    process.forwarder.step()
    ended = [read(each, Outcome).status for each in producer.topics.get(OUTCOMES, ())]
    assert ended == ([Status.EXPIRED] if is_late else [])


def test_an_escalated_job_says_what_its_own_variant_honours() -> None:
    store = MemoryImageStore()
    draft = stored_image(store, a_job(CLASSIFIED, honoured=(), overridden=("steps: 20 -> 2",)))
    discriminator = a_discriminator(store, FixedScorer(0.2), catalog=ABLE)
    job = read(asyncio.run(discriminator.on_record(a_record(draft)))[0], GenerateJob)
    assert (job.variant, job.honoured, job.overridden) == ("heavy", ("steps",), ())


def test_a_rerouted_job_is_resolved_for_the_variant_that_it_goes_to(fleet: StubFleet) -> None:
    producer, plan = MemoryRecordProducer(), a_plan(version=4, allocation={"w-1": "light"}, cascades=())
    orphans = OrphanRouting(ABLE, RoutingLogic(ABLE, NO_LIMITS), SILENT_MS)
    rerouting = Rerouting(orphans, set(), Dispatcher(ABLE, fleet, "router"), producer)  # type: ignore[arg-type]
    stranded = a_job(CLASSIFIED, level="heavy", variant="heavy", honoured=("steps",))
    assert rerouting.serve([Taken(a_record(stranded, topic="jobs.heavy.v1"), 1)], plan) == ["to light"]
    job = read(producer.topics["jobs.light.v1"][0], GenerateJob)
    assert (job.honoured, job.overridden) == ((), ("steps: 20 -> 2",))
