"""The simulated discriminator and the live one drive one `EscalationLogic`: the same images, the same decisions."""

import io
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from agents.discriminator import role
from agents.discriminator.role import Discriminator
from agents.router.dispatcher import Dispatcher
from planner.catalog.model import Catalog
from planner.serving.dispatch.worker_loads import LoadView
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.escalation import Escalate, EscalationLogic, Keep, Score, Scored, Size
from planner.serving.routing.loads import Loads
from planner.serving.routing.soft_deadline import Due
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.overrides import Asked, OverriddenJob, metrics_for
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.judge import Judge
from replay.simulation.roles.routing.sender import WaitingTopics
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.roles.workers.lookups import Lookups
from replay.simulation.roles.workers.serving import Serving
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from replay.traces.trace import Overrides
from schemas.messages import GenerateJob, GenerateOptions, Heartbeat, Outcome, Plan, WorkerComponents
from schemas.topics import OUTCOMES
from tests import builders
from tests.agents.stubs import StubFleet, StubPlans, a_record, read
from tests.awaiting import awaited
from tests.builders import NOW_MS, a_cascade, a_catalog, a_classified, a_heartbeat, a_job, a_plan, a_request, owned
from tests.memory_store import MemoryImageStore
from tests.replay.simulation.roles.routing.routers import at_now

CATALOG = a_catalog(  # scoring takes the simulation no time, as live it takes none of a clock that stands still
    discriminators={
        "look": builders.a_discriminator(latency_ms=0.0),
        "slow": builders.a_discriminator(name="slow", latency_ms=90.0),
    }
)
CHAIN = a_cascade(level="heavy", next_level="light", discriminator="slow")
SITUATIONS = 150
LogicOf = Callable[[Catalog], EscalationLogic]


class Situation(NamedTuple):
    """An image of the level light and all that its discriminator knows when it is there."""

    plan: Plan
    wish: Overrides
    slack_ms: float | None  # from the image on until the deadline
    confidence: float
    heavy_ms: int | None  # work before the worker of the next level; None: nobody serves it
    held: tuple[str, ...] = ("base:poster",)  # by that worker on its device, where the next level lists bases


class Decided(NamedTuple):
    """What became of the image: its next level and the step at which refining begins, or "" and why it was kept."""

    level: str
    step: int
    reason: str


OPTIONS = st.builds(
    GenerateOptions,
    n=st.integers(1, 3),
    width=st.sampled_from([None, 16, 32]),
    steps=st.sampled_from([None, 1, 9, 50]),
    model=st.sampled_from([""] * 9 + ["heavy"]),
)
CASCADES = st.builds(
    a_cascade,
    threshold=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    refine_from_step=st.sampled_from([0, 5, 24]),
    level=st.sampled_from(["light", "light", "light", "heavy"]),
)
IMAGES = st.builds(
    Situation,
    plan=st.builds(lambda *cascades: a_plan(cascades=cascades), CASCADES, st.sampled_from([CHAIN, a_cascade()])),
    wish=st.builds(
        Overrides,
        options=st.one_of(st.just(GenerateOptions()), OPTIONS),
        quality=st.sampled_from(["auto"] * 7 + ["low"]),
    ),
    slack_ms=st.one_of(st.none(), st.integers(0, 700).map(float)),
    confidence=st.sampled_from([0.0, 0.1, 0.3, 0.49, 0.5, 0.9, 1.0, math.nan]),
    heavy_ms=st.sampled_from([0, 0, 100, 400, None]),
)


class FixedScorer:
    def __init__(self, confidence: float) -> None:
        self._confidence = confidence

    def score(self, requests: Sequence[object], pictures: Sequence[np.ndarray]) -> list[float]:
        del pictures
        return [self._confidence] * len(requests)


def heavy_beat(situation: Situation) -> Heartbeat | None:
    if situation.heavy_ms is None:
        return None
    return a_heartbeat(
        worker_id="w-2", variant="heavy", partitions=(owned(0, 0, situation.heavy_ms),),
        components=WorkerComponents(held={"device": situation.held}),
    )  # fmt: skip


def live(situation: Situation, logic_of: LogicOf, catalog: Catalog = CATALOG) -> Decided:
    """Of the role, its clock standing at NOW_MS."""
    store, fleet, beat = MemoryImageStore(), StubFleet(), heavy_beat(situation)
    if beat is not None:
        fleet.receive(beat, NOW_MS)
    dispatcher, scorers = Dispatcher(catalog, fleet, "discriminator"), {"look": FixedScorer(situation.confidence)}
    discriminator = Discriminator(logic_of(catalog), StubPlans(situation.plan), set(), dispatcher, store, scorers)
    with mock.patch.object(role, "now_ms", at_now):
        first, *_ = awaited(discriminator.on_record(a_record(stored(situation, store))))
    if first.topic == OUTCOMES:
        return Decided("", 0, read(first, Outcome).reason)
    job = read(first, GenerateJob)
    return Decided(job.level, job.refine_from_step, "")


def stored(situation: Situation, store: MemoryImageStore) -> Any:
    """The images as a worker made them."""
    options, light = situation.wish.options, CATALOG.level("light")
    width = options.width if options.width is not None and "width" in light.honours else light.width
    out = io.BytesIO()
    Image.new("RGB", (2, 2)).save(out, "PNG")
    ref = builders.an_image_ref(uri=store.put("j-1", out.getvalue()), width=width, height=light.height)
    deadline_ms = None if situation.slack_ms is None else NOW_MS + int(situation.slack_ms)
    request = a_request(deadline_ms=deadline_ms, quality=situation.wish.quality, options=options)
    return builders.an_image(a_job(a_classified(request)), image=ref, more=(ref,) * (options.n - 1))


class Draws:
    """`Draws` of one request."""

    def __init__(self, confidence: float) -> None:
        self.hardness, self.classes, self._confidence = [0.5], [{"models": "light"}], confidence

    def confidence(self, level: str, discriminator: str) -> list[float]:
        del level, discriminator
        return [self._confidence]

    def quality(self, level: str, step: int) -> list[float] | None:
        del level, step
        return None


class Recording(Judge):
    """Returns what was decided of the only job."""

    level, step = "", 0

    @property
    def view(self) -> LoadView:
        return self._loads.view

    def _place(self, job: Job) -> None:
        self.level, self.step = job.level, job.how.refine_from_step if job.how else job.step


def simulated(situation: Situation, logic_of: LogicOf, catalog: Catalog = CATALOG) -> Decided:
    """Of the simulator's role."""
    reasons: list[str] = []
    events, timing, plan_state = EventQueue(0.0), Timing(), PlanState(catalog)
    plan_state.obey(situation.plan)
    times = CallTimes(catalog)
    beats, store = Heartbeats(events, timing, times), ObjectStore(events)
    tally = metrics_for(None, 1000.0, np.zeros(1))
    lookups = Lookups(events, plan_state, catalog, seed=0)
    ledger = Ledger(events, plan_state, tally, timing.grace_ms)
    serving = Serving(events, plan_state, catalog, timing, times, ledger, store, lookups)
    fleet = Fleet(events, plan_state, catalog, timing, beats, serving, tally)
    logic = logic_of(catalog)
    judge = Recording(events, plan_state, fleet, beats, timing, times, catalog, ledger, store, logic, WaitingTopics())
    judge.on_scored = lambda _job, _discriminator, _confidence: None
    beat = heavy_beat(situation)
    if beat is not None:
        judge.view.on_heartbeat(beat, 0.0)
    with (
        mock.patch.object(logic, "examine", noting(logic.examine, reasons)),
        mock.patch.object(logic, "decide", noting(logic.decide, reasons)),
    ):
        judge.on_images([a_simulated(situation)])
        events.advance(0.0)
    return Decided(judge.level, judge.step, "" if judge.level else reasons[-1])


def noting(own: Callable[..., Any], reasons: list[str]) -> Callable[..., Any]:
    def noted(*args: Any) -> Any:
        decision = own(*args)
        if isinstance(decision, Keep):
            reasons.append(decision.reason)
        return decision

    return noted


def a_simulated(situation: Situation) -> Job:
    """The job, its image there at 0 ms."""
    plain = Job(0, "r-1", 0.0, None, Draws(situation.confidence), 0)
    plain.deadline_ms = situation.slack_ms
    wish = situation.wish
    is_plain = wish.options == GenerateOptions() and wish.quality == "auto"
    job = plain if is_plain else OverriddenJob(plain, Asked(wish, situation.slack_ms), CATALOG)
    job.level = job.variant = "light"
    return job


@settings(max_examples=SITUATIONS, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True)
@given(IMAGES)
def test_live_role_and_simulation_decide_the_same(situation: Situation) -> None:
    assert simulated(situation, EscalationLogic) == live(situation, EscalationLogic)


class Exchanged(EscalationLogic):
    """Escalates before it asks whether time is left."""

    def decide(
        self, asked: Score, classified: ClassifiedValues, sizes: Sequence[Size], confidence: float | None,
        loads: Loads, now_ms: float,
    ) -> Keep | Escalate:  # fmt: skip
        due = Due(classified.request.deadline_ms)
        scored = Scored(asked, classified.request, due, sizes, confidence, loads, now_ms)
        return self.keep_confident(scored) or self.escalate(scored) or self.keep_for_time(scored)


@pytest.mark.parametrize("decide", [live, simulated])
def test_two_checks_exchanged_in_the_logic_that_is_passed_in_change_what_a_role_decides(
    decide: Callable[[Situation, LogicOf], Decided],
) -> None:
    hurried = Situation(a_plan(), Overrides(), slack_ms=100.0, confidence=0.1, heavy_ms=0)  # heavy takes 200 ms
    late = "confidence 0.100 < threshold 0.500, but no time left: heavy needs 200 ms, and 100 ms are left"
    assert decide(hurried, EscalationLogic) == Decided("", 0, late)
    assert decide(hurried, Exchanged) == Decided("heavy", 0, "")


@pytest.mark.parametrize("decide", [live, simulated])
def test_a_draft_is_kept_where_no_worker_of_the_next_level_holds_its_base_and_loading_it_would_be_too_late(
    decide: Callable[[Situation, LogicOf, Catalog], Decided],
) -> None:
    heavy = builders.sized_variant(name="heavy", on_request=False, quality=1.0, latency_ms={1: 200.0}, load_ms=100.0)
    catalog = a_catalog(variants={"light": builders.a_variant(), "heavy": heavy}, discriminators=CATALOG.discriminators)
    warm = Situation(a_plan(), Overrides(), slack_ms=299.0, confidence=0.1, heavy_ms=0)
    late = "confidence 0.100 < threshold 0.500, but no time left: heavy needs 300 ms, and 299 ms are left"
    assert decide(warm, EscalationLogic, catalog) == Decided("heavy", 0, "")
    assert decide(warm._replace(held=()), EscalationLogic, catalog) == Decided("", 0, late)
    assert decide(warm._replace(held=(), slack_ms=300.0), EscalationLogic, catalog) == Decided("heavy", 0, "")
