"""What a dead worker had in hand: the simulated owner and the live one count the same attempts."""

import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

from agents.worker.jobs import JobSource
from planner.serving.dispatch.worker import WorkerLogic
from planner.serving.generating.window import WindowLogic
from planner.serving.routing.refuge import RefugeLogic
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.results.timeline import Timeline
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.workers.group import Group, Member
from replay.simulation.roles.workers.lookups import Lookups
from replay.simulation.roles.workers.serving import Serving
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.setup import OBJECT_STORE, Timing
from replay.simulation.times import CallTimes
from schemas.messages import Status
from tests.agents.worker.test_jobs import a_message, new_source, own  # noqa: F401  a fixture
from tests.builders import a_catalog, a_discriminator, a_plan, a_variant
from tests.replay.simulation.roles.workers.test_group import a_job
from tests.replay.simulation.runs import a_setup, down, ran, up

JOBS, MOST = 8, 4
DONE, DIES, DIES_WAITING = "done", "dies", "dies as it waits for the store"
Windows = list[list[tuple[int, int]]]  # (offset, attempt) of the jobs of each


def live(fates: list[str], new: Callable[[], JobSource]) -> Windows:
    """The windows of `JobSource`s, each as long as its owner lives."""
    kept, windows, source = {0: (0, "")}, Windows(), None
    for fate in fates:
        if source is None:
            source = new()
            consumer: Any = source._consumer
            consumer.metadata = dict(kept)
            own(consumer, 0)
            consumer.log = [a_message(0, offset) for offset in range(kept[0][0], JOBS)]
        if not (batch := source.take(MOST, 0)):
            break
        windows.append([(taken.record.offset, taken.attempt) for taken in batch])
        source.begin(batch)
        if fate == DIES_WAITING:
            source.absolve(batch)
        if fate == DONE:
            source.commit(batch)
        partition, offset, metadata = consumer.committed_to[-1]
        kept[partition] = offset, metadata
        source = source if fate == DONE else None
    return windows


def simulated(fates: list[str]) -> Windows:
    """The same of the simulation's workers."""
    slow = a_variant(name="light", latency_ms={1: 300.0, MOST: 1000.0})
    catalog, events = a_catalog(variants={"light": slow}, cascades=(), class_cuts={}), EventQueue()
    plan_state = PlanState(catalog)
    tally = RunMetrics(1000.0, Timeline(np.zeros(1)))
    ledger = Ledger(events, plan_state, tally, Timing().grace_ms)
    plan_state.obey(a_plan(routes=(), cascades=(), batch={"light": MOST}))
    lookups = Lookups(events, plan_state, catalog, seed=0)
    serving = Serving(events, plan_state, catalog, Timing(), CallTimes(catalog), ledger, ObjectStore(events), lookups)
    group, windows, worker = Group(1), Windows(), None
    for number in range(JOBS):
        group.append(0, a_job(number))
    for fate in fates:
        if worker is None:
            worker = Worker("w-0", 0.0)
            worker.variant, worker.member = "light", Member("w-0")
            serving.begin_variant(worker, WorkerLogic(slow))
            group.join(worker.member)
            group.settle(group.members)
        assert worker.member is not None
        if not worker.member.waiting:
            break
        assert worker.window is not None
        assert worker.logic is not None
        serving.take(worker, worker.logic.max_jobs(serving.plan_state.plan.batch.get(worker.variant, 1)))
        windows.append([(job.number, job.attempts) for job in worker.taken])
        worker.is_absolved = fate == DIES_WAITING
        if fate != DONE:
            worker.window._calls.append(worker.taken)
            group.leave(worker.member, worker.suspects())
            worker = None
    return windows


def dead_with(*jobs: Job) -> Worker:
    """A worker that dies in the call of these jobs."""
    worker, work, catalog = Worker("w-0", 0.0), mock.Mock(), a_catalog()
    worker.taken = list(jobs)
    worker.window = WindowLogic("light", WorkerLogic(a_variant()), work, RefugeLogic(catalog))
    worker.window._calls.append(worker.taken)
    return worker


@pytest.mark.parametrize("seed", range(100))
def test_live_and_simulated_owners_take_the_same_jobs_together_as_the_same_attempts(
    new_source: Callable[[], JobSource],  # noqa: F811
    seed: int,
) -> None:
    dice = random.Random(seed)
    fates = dice.choices([DONE, DIES, DIES_WAITING], k=25)
    assert simulated(fates) == live(fates, new_source)


def test_jobs_that_were_in_hand_together_are_served_after_one_death() -> None:
    """Four share a call of 1 s, in which their worker dies."""
    catalog = a_catalog(variants={"light": a_variant(latency_ms={1: 300.0, 4: 1000.0})}, cascades=(), class_cuts={})
    outages = (down(2, "w-0"), up(12, "w-0"))
    setup = a_setup(
        catalog=catalog, policy="clipper-light", workers=1, drops=False, outages=outages, parameters={"batch": 4.0}
    )
    run = ran(setup, np.array([1000.0, 1100.0, 1100.0, 1100.0, 1100.0]))
    assert run.tally.ends == {Status.COMPLETED: 5}
    assert run.tally.retried == 4


def test_a_death_in_company_counts_once_and_each_death_alone_once_more() -> None:
    job = a_job(1)
    assert [each.attempts for each in dead_with(job, a_job(2)).suspects()] == [2, 2]
    assert [each.attempts for each in dead_with(job).suspects()] == [3]


def test_a_job_whose_worker_dies_as_it_waits_for_the_store_is_not_to_blame() -> None:
    """Its only worker dies four times while the store is away."""
    deaths = [change for at_s in (5, 25, 45, 65) for change in (down(at_s, "w-0"), up(at_s + 10, "w-0"))]
    outages = tuple(sorted((down(0.5, OBJECT_STORE), *deaths, up(200, OBJECT_STORE)), key=lambda outage: outage.at_ms))
    catalog = a_catalog(
        variants={"light": a_variant()}, cascades=(), class_cuts={}, discriminators={"look": a_discriminator()}
    )
    setup = a_setup(catalog=catalog, policy="clipper-light", workers=1, drops=False, outages=outages)
    run = ran(setup, np.array([1000.0]))
    assert run.tally.ends == {Status.COMPLETED: 1}
    assert run.tally.retried == 4
