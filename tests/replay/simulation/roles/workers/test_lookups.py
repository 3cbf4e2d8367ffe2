"""A live worker and a simulated one in one story of a store that hangs, dies and comes back: they say the same.

Both have the clock of the story; the live one asks stores in memory, in its own threads.
"""

import math
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from planner.catalog.options import AS_IT_IS
from planner.catalog.reuse import ReuseProfile
from planner.reuse.lookups.deadline import DeadlineRule
from planner.reuse.lookups.lookup import described
from planner.reuse.lookups.probing import POLL_MS
from replay.simulation.draws.neighbours import SampledNeighbour
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.workers.lookups import Lookups
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.roles.workers.worker_lookups import WorkerLookups
from schemas.messages import GenerateOptions, ReuseHealth, Route, StageReuse
from streams.vectors.port import VectorsUnavailable
from tests.agents.worker.reusing import HEAVY, Reusing, Troubled
from tests.builders import a_catalog, a_plan, a_reuse_plan
from tests.patience import PATIENCE_S

ANSWER_MS = 4.0
DEADLINES = DeadlineRule(max_ms=4000.0)  # so long that the threads of a busy machine keep it
PLAN = a_plan(reuse=a_reuse_plan(), strategy="models", routes=(Route(levels={"heavy": 1.0}),))
PROMPT = "a red heart above a blue star"
OUT_OF = GenerateOptions(reuse="off")


class Ask(NamedTuple):
    """A job of the story: as the live worker reads it, and what is drawn for the simulated one."""

    prompt: str = PROMPT
    drawn: SampledNeighbour | None = SampledNeighbour(1.0, "equal")
    share: float = 0.8
    attempt: int = 1
    tenant: str = "default"
    options: GenerateOptions = AS_IT_IS


HIT = Ask()
GUARD = Ask("a red heart above a blue moon", SampledNeighbour(0.9, "object"))
FLOOR = Ask("green trees", SampledNeighbour(0.1, "equal"))
NONE = Ask(drawn=None, tenant="other")
ROUTE, STEPS, RETRY, OPTED_OUT = Ask(share=0.0), Ask(share=0.05), Ask(attempt=2), Ask(options=OUT_OF)


class Live:
    """A live worker whose store answers in its time, or never, by the clock of the story."""

    def __init__(self) -> None:
        self.clock_ms, self.is_there = 0.0, True
        self.is_probing = False  # what it reports already is known only when the probe ends
        self._step_ms, self._number = 0.0, 0
        self._reads, self._has_worked = -1, threading.Event()  # of the clock by who generates; -1: nobody does
        store = Troubled(self._trouble)
        self.worker = Reusing(store, DEADLINES, PLAN, clock_ms=self._clock)
        self.worker.keep(PROMPT)
        self._next_ms = POLL_MS

    def _clock(self) -> float:
        now_ms = self.clock_ms
        if self._reads >= 0 and threading.current_thread() is threading.main_thread():
            self._reads += 1
            if self._reads == 2:  # before its lookups and after its own work beside them, which takes no time
                self._has_worked.set()
        return now_ms

    def _trouble(self) -> None:
        if self._reads >= 0:
            assert self._has_worked.wait(PATIENCE_S)
        self.clock_ms = self._step_ms + (ANSWER_MS if self.is_there else DEADLINES.max_ms)
        if not self.is_there:
            raise VectorsUnavailable("away")

    def change(self, is_up: bool) -> None:
        self.is_there = is_up

    def wait(self, until_ms: float) -> None:
        while self._next_ms <= until_ms:
            if self._next_ms >= self.clock_ms:  # else it still waits for the probe before
                self.clock_ms = self._step_ms = self._next_ms
                self.worker.reuse.tend()
            self._next_ms += POLL_MS
        self.is_probing = self.clock_ms > until_ms
        self.clock_ms = self._step_ms = max(self.clock_ms, until_ms)

    def generate(self, asks: list[Ask]) -> list[StageReuse]:
        jobs = []
        for ask in asks:
            self._number += 1
            jobs.append(
                self.worker.job(
                    ask.prompt, f"r-{self._number:03}", ask.share, ask.attempt, tenant=ask.tenant, options=ask.options
                )
            )
        self._reads = 0
        self._has_worked.clear()
        made = sorted(self.worker.generated(*jobs), key=lambda image: image.job.classified.request.request_id)
        self._reads = -1
        return [image.reuse for image in made if image.reuse is not None]

    def report(self) -> ReuseHealth | None:
        return None if self.is_probing else self.worker.reuse.health()


class ScriptedJob(Job):
    """A job that asks for something."""

    __slots__ = ("options",)


class Simulated:
    """A simulated worker with a store that answers in its time, or never."""

    def __init__(self) -> None:
        catalog = a_catalog(
            variants={"heavy": HEAVY}, discriminators={}, cascades=(), class_cuts={},
            reuse_profile=ReuseProfile(retrieval_ms=ANSWER_MS, retrieval_p95_ms=ANSWER_MS),
        )  # fmt: skip
        self._events, plan_state = EventQueue(), PlanState(catalog)
        plan_state.obey(PLAN)
        self._lookups, self._worker = Lookups(self._events, plan_state, catalog, seed=0), Worker("w-1", 0.0)
        self._worker.variant = "heavy"
        self._worker.lookups = WorkerLookups(0.0, DEADLINES)
        self._drawn: list[SampledNeighbour | None] = []
        assert PLAN.reuse is not None
        self._lookups._drawn[PLAN.reuse.key] = self  # type: ignore[assignment]
        self._lookups.tend(lambda: (self._worker,))

    def at(self, number: int) -> SampledNeighbour | None:
        """The neighbour of a job, in the place of what is drawn."""
        return self._drawn[number]

    def change(self, is_up: bool) -> None:
        self._lookups.store.change(is_up)

    def wait(self, until_ms: float) -> None:
        self._events.advance(until_ms)

    def generate(self, asks: list[Ask]) -> list[StageReuse]:
        jobs, done = list[Job](), list[Worker]()
        for ask in asks:
            job = ScriptedJob(len(self._drawn), "", 0.0, None, None, 0)  # type: ignore[arg-type]
            job.variant, job.share, job.attempt, job.options = "heavy", ask.share, ask.attempt, ask.options
            self._drawn.append(ask.drawn)
            jobs.append(job)
        if self._lookups.find(self._worker, jobs, done.append):
            self._events.advance(self._events.now_ms + DEADLINES.max_ms if not self._lookups.store.is_there else
                                 self._events.now_ms + ANSWER_MS)  # fmt: skip
            assert done
        self._worker.call = jobs
        self._lookups.on_generated(self._worker)
        return [described(job.reuse, HEAVY.steps) for job in jobs if job.reuse is not None]

    def report(self) -> ReuseHealth | None:
        assert self._worker.lookups is not None
        return self._worker.lookups.report()


Step = tuple[float, Callable[[Any], Any]]


def jobs(at_ms: float, *batches: list[Ask], apart_ms: float = 100.0) -> Iterator[Step]:
    """Batches of jobs, one after the other."""
    for n, batch in enumerate(batches):
        yield at_ms + n * apart_ms, lambda worker, batch=batch: worker.generate(batch)


def change(at_ms: float, *, is_up: bool) -> Step:
    return at_ms, lambda worker: worker.change(is_up)


def looks(begin_s: int, end_s: int) -> Iterator[Step]:
    """Nothing but heartbeats."""
    for second in range(begin_s, end_s):
        yield 1000.0 * second + 250, lambda _worker: None


STORY: list[Step] = [
    *jobs(600, [HIT], [GUARD], [FLOOR], [NONE], [ROUTE], [STEPS], [RETRY], [OPTED_OUT], [HIT, NONE, ROUTE, HIT]),
    *looks(2, 20),  # nobody asks: probes
    *jobs(20_200, [HIT]),
    change(20_300, is_up=False),
    *jobs(20_700, *[[HIT]] * 5, apart_ms=4100),  # cut, each at its deadline: the breaker opens
    *jobs(42_000, [HIT], [HIT, OPTED_OUT]),  # nobody waits
    *looks(43, 70),  # probes fail
    change(70_300, is_up=True),
    *looks(71, 110),  # five good ones
    *jobs(110_600, [HIT], [HIT, HIT]),
    *jobs(111_100, *[[NONE]] * 80, apart_ms=20),  # lookups cost more than they save, which the plan looks after
    *looks(113, 180),
    *jobs(180_600, [HIT]),
    *looks(182, 200),
    change(200_300, is_up=False),
    *looks(201, 260),  # no job comes, and it is seen all the same
    *jobs(260_600, [HIT]),
    change(261_300, is_up=True),
    *looks(262, 300),
    *jobs(300_600, [HIT]),
]


def told(worker: Live | Simulated) -> list[tuple[float, Any, ReuseHealth | None]]:
    """What a worker decides at each step of the story, and what its heartbeat says after it."""
    said = list[tuple[float, Any, ReuseHealth | None]]()
    for at_ms, step in STORY:
        worker.wait(at_ms)
        made = step(worker)
        decisions = made and [(each.step, each.steps, each.miss) for each in made]
        said.append((at_ms, decisions, worker.report()))
    return said


@pytest.fixture(scope="module")
def simulated() -> list[tuple[float, Any, ReuseHealth | None]]:
    return told(Simulated())


def test_live_and_simulated_workers_decide_alike_and_their_heartbeats_say_the_same(simulated: list[Any]) -> None:
    live = told(Live())
    compared = [(one, other) for one, other in zip(live, simulated, strict=True) if one[2] is not None]
    for one, other in compared:
        assert one == other
    assert len(compared) > 0.7 * len(live), "only where a probe is under way is there nothing to compare"


def test_the_story_has_hits_all_kinds_of_misses_probes_and_a_breaker_that_opens(
    simulated: list[Any],
) -> None:
    last, breakers = simulated[-1][2], [health.breaker for _, _, health in simulated]
    changes = [now for before, now in pairwise(breakers) if now != before]
    assert changes == ["failing", "closed", "failing", "closed"]
    assert set(last.misses) >= {
        "none", "floor", "guard", "route", "steps", "retry", "ineligible", "timeout", "breaker",
    }  # fmt: skip
    assert last.hits == 3 + 1 + 3 + 1 + 1
    assert math.isclose(last.p50_ms, ANSWER_MS)
    by_time = {at_ms: health for at_ms, _, health in simulated}
    assert by_time[19_250.0].lookups > by_time[2_250.0].lookups, "probes count"
