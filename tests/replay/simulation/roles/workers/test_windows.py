"""A live worker and a simulated one do the same with the same jobs: 600 stories, effect by effect.

A story has jobs with and without drafts and deadlines, owners that died with one in hand, a plan that takes workers
away, calls that take twice their time, and an object store that goes away. Both drive one `WindowLogic`; what differs
between its two drivers would show here. Two things are not compared: `Fetch`, as the simulator asks for nothing of a
store that is there, and that live calls may be stopped between their steps.
"""

import io
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from unittest import mock

import pytest
from PIL import Image

from agents.engines import Generated, GenerationTask, OpenedEngine
from agents.runtime.request_views import PoisonView
from agents.worker import driving, work
from agents.worker.jobs import Taken
from agents.worker.work import WorkerViews
from planner.catalog.entries import run_ms
from planner.catalog.options import ResolvedOptions
from planner.serving.deadlines import is_overdue
from planner.serving.dispatch.worker import WorkerLogic
from planner.serving.ending.outcomes import step_of
from planner.serving.generating.effects import Effect, End, Fetch, SendOn, Wait
from planner.serving.generating.window import MAX_ATTEMPTS, WindowLogic
from planner.serving.routing.refuge import RefugeLogic
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.workers.group import Member
from replay.simulation.roles.workers.lookups import Lookups
from replay.simulation.roles.workers.serving import Serving
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Plan, Stage
from streams.store.port import StoreUnavailable
from tests.agents.stubs import StubEngine, a_record
from tests.builders import a_catalog, a_classified, a_job, a_plan, a_request, a_variant, an_image
from tests.memory_store import MemoryImageStore

STORIES = 600
BEGIN_MS, STEPS, STEP = 10_000, 10, 5
SLO_MS = 300.0
SKETCH = a_variant(name="sketch", steps=STEPS, latency_ms={1: 10.0, 2: 16.0, 4: 28.0})
LIGHT = a_variant(name="light", steps=STEPS, latency_ms={1: 40.0, 2: 60.0, 4: 100.0})
CATALOG = a_catalog(variants={"sketch": SKETCH, "light": LIGHT, "heavy": a_catalog().level("heavy")}, class_cuts={})


class Asked(NamedTuple):
    """A job of a story."""

    name: str
    deadline_ms: int | None
    routed_ms: int
    has_draft: bool
    deaths: int


@dataclass(frozen=True)
class Story:
    """What a worker meets: windows of jobs, one after the other."""

    windows: list[list[Asked]]
    away_ms: list[tuple[float, float]]  # when the store goes away, and when it is back
    slowness: int  # run time of its calls, as a multiple of the profiled one
    batch: int
    plans: list[Plan]

    def is_away(self, at_ms: float) -> bool:
        return any(begin <= at_ms < end for begin, end in self.away_ms)


def a_story(seed: int) -> Story:
    dice = random.Random(seed)
    away_ms, at_ms = [], BEGIN_MS
    for _ in range(dice.choice((0, 0, 1, 2))):
        begin_ms = at_ms + dice.randrange(0, 300) + 0.5
        end_ms = begin_ms + dice.choice((50, 500, 8000))
        away_ms.append((begin_ms, end_ms))
        at_ms = int(end_ms) + 1
    windows = []
    for window in range(dice.randrange(1, 5)):
        jobs = [_an_ask(dice, f"{window}-{number}") for number in range(dice.randrange(1, 5))]
        dead = [job for job in jobs if job.deaths]
        windows.append(dead[:1] if dead else jobs)
    taken_ms = BEGIN_MS - dice.choice((5000, 100))
    plans = [
        a_plan(version=1, created_ms=0, allocation={"w-0": "light", "w-1": "light", "w-2": "sketch"}),
        a_plan(version=2, created_ms=taken_ms, allocation={"w-0": "light", "w-2": dice.choice(("sketch", "heavy"))}),
    ]
    return Story(windows, away_ms, dice.choice((1, 1, 2)), dice.choice((1, 2, 4)), plans)


def _an_ask(dice: random.Random, name: str) -> Asked:
    slack_ms = dice.choice((None, None, 30, 90, 300, 3000))
    deadline_ms = None if slack_ms is None else BEGIN_MS + dice.randrange(slack_ms)
    has_draft = dice.random() < 0.4
    return Asked(name, deadline_ms, BEGIN_MS - dice.choice((50, 400, 4000)), has_draft, dice.choice((0,) * 9 + (1, 2)))


class Telling(WindowLogic[Any]):
    """A window that notes what it asks for, and when."""

    told: list[tuple[Any, ...]]

    def begin(self, jobs: list[Any], batch: int, now_ms: float) -> list[Effect[Any]]:
        return self._noted(super().begin(jobs, batch, now_ms), now_ms)

    def on(self, answer: Any, now_ms: float) -> list[Effect[Any]]:
        return self._noted(super().on(answer, now_ms), now_ms)

    def _noted(self, effects: list[Effect[Any]], now_ms: float) -> list[Effect[Any]]:
        self.told += [_as_told(effect, now_ms) for effect in effects if not isinstance(effect, Fetch)]
        return effects


def _as_told(effect: Effect[Any], now_ms: float) -> tuple[Any, ...]:
    """An effect without what is the driver's own."""
    jobs: Iterable[Any] = getattr(effect, "jobs", None) or [job for job in (getattr(effect, "job", None),) if job]
    names = [job.classified.request.request_id for job in jobs]
    match effect:
        case End(_, status, reason, code):
            return now_ms, "End", names, status, reason.replace(f"job {names[0]}", "job"), code
        case SendOn(_, placement, reason):
            return now_ms, "SendOn", names, placement.level, reason
        case Wait(_, _, ms):
            return now_ms, "Wait", names, ms
    return now_ms, type(effect).__name__, names


class Clock:
    """The clock of a live worker, which stands still but for calls and waits."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(1000 * seconds)

    def monotonic(self) -> float:
        return self.now_ms / 1000


class Engine(StubEngine):
    """Takes as long as the profile says, times the slowness."""

    def __init__(self, clock: Clock, slowness: int) -> None:
        super().__init__()
        self._clock, self._slowness = clock, slowness

    def generate(self, tasks: Sequence[GenerationTask], how: ResolvedOptions, *_: Any, **__: Any) -> Generated:
        self._clock.now_ms += round(self._slowness * run_ms(LIGHT, len(tasks), how.refine_from_step))
        images = [Image.new("RGB", (4, 4)) for _ in tasks]
        return Generated(images, [None] * len(images))


class Store(MemoryImageStore):
    """Is away when the story says so."""

    def __init__(self, story: Story, clock: Clock) -> None:
        super().__init__()
        self._story, self._clock = story, clock
        data = io.BytesIO()
        Image.new("RGB", (LIGHT.width, LIGHT.height)).save(data, "PNG")
        self.draft = MemoryImageStore.put(self, "draft", data.getvalue())

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        self._check()
        return super().put(name, data, extension)

    def get(self, uri: str) -> bytes:
        self._check()
        return super().get(uri)

    def _check(self) -> None:
        if self._story.is_away(self._clock.now_ms):
            raise StoreUnavailable("away")


class Ended:
    """The ids whose requests the ledger has ended, as they were overdue."""

    def __init__(self, story: Story, clock: Clock) -> None:
        self._deadlines = {job.name: job.deadline_ms for window in story.windows for job in window}
        self._clock = clock

    def __contains__(self, request_id: object) -> bool:
        return is_overdue(self._deadlines[str(request_id)], self._clock.now_ms, Timing().grace_ms)


def refuges_of(story: Story) -> RefugeLogic:
    refuges = RefugeLogic(CATALOG, SLO_MS)
    for plan in story.plans:
        refuges.obey(plan)
    return refuges


def live(story: Story, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What a live worker's window asks for, in order."""
    clock = Clock()
    for module in (driving, work):
        monkeypatch.setattr(module, "now_ms", lambda: clock.now_ms)
    monkeypatch.setattr(driving, "time", clock)
    store, engine, told = Store(story, clock), OpenedEngine(Engine(clock, story.slowness)), list[tuple[Any, ...]]()
    views = WorkerViews(engine, LIGHT, CATALOG, lambda: story.plans[-1], Ended(story, clock), PoisonView())  # type: ignore[arg-type]
    driver = driving.WindowDriver("w-0", views, store, refuges_of(story), MAX_ATTEMPTS)
    driver.logic = logic = Telling("light", driver.worker, views, refuges_of(story))
    logic.told = told
    for window in story.windows:
        driver.begin([_taken(job, store) for job in window], story.batch)
        driver.run(lambda _record: None)
        logic.end()
    return told


def _taken(asked: Asked, store: Store) -> Taken:
    request = a_request(request_id=asked.name, prompt=asked.name, deadline_ms=asked.deadline_ms)
    path: tuple[Stage, ...] = ()
    if asked.has_draft:
        path = (step_of(an_image(image=replace(an_image().image, uri=store.draft), more=()), 0.2, 0.5),)
    job = a_job(
        a_classified(request, received_ms=asked.routed_ms), job_id=asked.name, routed_ms=asked.routed_ms, path=path,
        stage=len(path), refine_from_step=STEP if path else 0,
    )  # fmt: skip
    return Taken(a_record(job, key=asked.name.encode()), asked.deaths + 1)


def simulated(story: Story) -> list[tuple[Any, ...]]:
    """What a simulated worker's window asks for, in order."""
    events, plan_state = EventQueue(float(BEGIN_MS)), PlanState(CATALOG)
    times, store = CallTimes(CATALOG), ObjectStore(events)
    ledger = Ledger(events, plan_state, mock.Mock(), Timing().grace_ms)
    plan_state.obey(replace(story.plans[-1], batch={"light": story.batch}))
    lookups = Lookups(events, plan_state, CATALOG, seed=0)
    serving = Serving(events, plan_state, CATALOG, Timing(), times, ledger, store, lookups)
    serving._refuges = refuges_of(story)
    for begin_ms, end_ms in story.away_ms:
        events.at(begin_ms, store.change, False)
        events.at(end_ms, store.change, True)
    told, windows = list[tuple[Any, ...]](), iter(story.windows)
    worker = Worker("w-0", 0.0)
    worker.variant, worker.member, worker.speed = "light", Member("w-0"), 1 / story.slowness

    def next_window(worker: Worker) -> None:
        assert worker.member is not None
        for window in windows:
            worker.member.wait_for([_simulated(job) for job in window])
            assert worker.logic is not None
            turn = worker.logic.turn(worker.id, serving.plan_state.plan, lambda: (), serving.events.now_ms, holds=True)
            serving.take_window(worker, turn)
            if worker.call:
                return

    serving.on_images, serving.on_refuge = lambda _jobs: None, lambda _job: None
    serving.on_generated, serving.on_window_end = lambda _jobs, _ms: None, next_window
    serving.begin_variant(worker, WorkerLogic(LIGHT))
    assert worker.window is not None
    worker.window.__class__ = Telling
    worker.window.told = told  # type: ignore[attr-defined]
    next_window(worker)
    events.advance(BEGIN_MS + 600_000)
    assert not worker.call
    return told


def _simulated(asked: Asked) -> Job:
    job = Job(0, asked.name, float(asked.routed_ms), asked.deadline_ms, None, 0)  # type: ignore[arg-type]
    job.level = job.variant = "light"
    job.deaths = asked.deaths or None
    if asked.has_draft:
        job.draft, job.step = ("sketch", 0), STEP
    return job


@pytest.mark.parametrize("first", range(0, STORIES, 100))
def test_live_and_simulated_workers_do_the_same_in_every_story(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 100):
        story = a_story(seed)
        assert live(story, monkeypatch) == simulated(story), f"story {seed}: {story}"


def test_the_stories_hold_every_effect() -> None:
    told = [each for seed in range(300) for each in simulated(a_story(seed))]
    assert {each[1] for each in told} == {"Call", "Keep", "Wait", "SendOn", "End", "Drop", "Commit"}
