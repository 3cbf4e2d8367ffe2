"""A live discriminator and a simulated one do the same with the same images: 600 stories, effect by effect.

A story has images with and without deadlines and options, of drafts and from stored latents, plans that change, workers
that get busier with every job, and an object store that goes away. Both drive one `DiscriminatorLogic`; what differs
between its two drivers would show here. What lay behind an outage is scored one after the other by the live role, and
at once by the simulated one: each image's own effects are compared, and scoring takes no time if the store goes away.
"""

import io
import random
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from agents.discriminator import role
from agents.discriminator.role import Discriminator, ImageWork
from agents.router.dispatcher import Dispatcher
from planner.catalog.components import Selection
from planner.catalog.model import Catalog
from planner.catalog.options import AS_IT_IS
from planner.serving.deadlines import is_overdue
from planner.serving.judging.judging import Ask, DiscriminatorLogic, Effect, End, SendOn, Wait
from planner.serving.routing.escalation import EscalationLogic
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.overrides import Asked, OverriddenJob
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.judge import Judge, SimulatedImages
from replay.simulation.roles.routing.sender import WaitingTopics
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from replay.traces.trace import Overrides
from schemas.messages import GenerateOptions, GenerateRequest, Plan, StageReuse
from schemas.record import Incoming, Outgoing
from streams.store.port import StoreUnavailable
from tests import builders
from tests.agents.stubs import StubFleet, StubPlans, a_record
from tests.awaiting import awaited
from tests.builders import a_cascade, a_catalog, a_classified, a_job, a_plan, a_request, an_image, an_image_ref
from tests.memory_store import MemoryImageStore

STORIES = 600
BEGIN_MS, SCORING_MS, APART_MS, SLO_MS = 10_000, 20, 70, 300.0
LEVELS = ("light", "light", "light", "light~k4", "heavy")


class Judged(NamedTuple):
    """An image of a story."""

    name: str
    at_ms: int  # when it comes
    deadline_ms: int | None
    level: str
    reused: int  # steps that a stored latent saved it; 0: it found none
    wish: Overrides
    confidence: float


class Story(NamedTuple):
    """What a discriminator meets."""

    images: list[Judged]
    away_ms: tuple[float, float] | None  # when the store goes away, and when it is back
    plans: list[tuple[float, Plan]]  # each from when on
    busy_ms: float | None  # work before the worker of heavy; None: it has none
    sent_ms: float  # of work, that a job adds there

    @property
    def catalog(self) -> Catalog:
        scoring_ms = 0.0 if self.away_ms else float(SCORING_MS)
        names = {name: builders.a_discriminator(name=name, latency_ms=scoring_ms) for name in ("look", "glance")}
        return a_catalog(discriminators=names)

    def is_away(self, at_ms: float) -> bool:
        return self.away_ms is not None and self.away_ms[0] <= at_ms < self.away_ms[1]

    def plan(self, at_ms: float) -> Plan:
        return [plan for since_ms, plan in self.plans if since_ms <= at_ms][-1]


def a_story(seed: int) -> Story:
    dice = random.Random(seed)
    away_ms = None
    if dice.random() < 0.4:
        begin_ms = BEGIN_MS + dice.randrange(0, 500) + 0.5
        away_ms = begin_ms, begin_ms + dice.choice((50, 500, 8000))
    images = [_an_image(dice, number) for number in range(dice.randrange(1, 8))]
    since_ms = [0.0, *sorted(BEGIN_MS + dice.randrange(600) + 0.5 for _ in range(dice.randrange(3)))]
    plans = [(at_ms, a_plan(version=n, cascades=_cascades(dice))) for n, at_ms in enumerate(since_ms, 1)]
    return Story(images, away_ms, plans, dice.choice((0.0, 0.0, 150.0, None)), dice.choice((0.0, 80.0)))


def _an_image(dice: random.Random, number: int) -> Judged:
    slack_ms, level = dice.choice((None, None, -5000, 50, 230, 600, 3000)), dice.choice(LEVELS)
    at_ms = BEGIN_MS + APART_MS * number
    options = GenerateOptions()
    if dice.random() < 0.3:
        options = GenerateOptions(n=dice.choice((1, 2)), steps=dice.choice((None, 9)), model=dice.choice(("", "heavy")))
    return Judged(
        f"r-{number}", at_ms, None if slack_ms is None else at_ms + slack_ms, level,
        dice.choice((0, 3)) if level == "light~k4" else 0,
        Overrides(options=options, quality=dice.choice(("auto",) * 5 + ("low",))),
        dice.choice((0.0, 0.1, 0.29, 0.3, 0.49, 0.5, 0.9, 1.0)),
    )  # fmt: skip


def _cascades(dice: random.Random) -> tuple[Any, ...]:
    first = a_cascade(threshold=dice.choice((0.0, 0.3, 0.5, 1.0)), refine_from_step=dice.choice((0, 24)))
    reused = a_cascade(level="light~k4", threshold=dice.choice((0.1, 0.9)), discriminator="glance")
    chain = a_cascade(level="heavy", next_level="light", discriminator="glance")
    return dice.choice(((), (first,), (reused, first), (first, chain)))


class Telling(DiscriminatorLogic[Any]):
    """A machine that notes what it asks for, and when."""

    def __init__(self, escalation: EscalationLogic, work: Any, clock_ms: Any) -> None:
        super().__init__(escalation, work)
        self._clock_ms, self.told = clock_ms, list[tuple[Any, ...]]()

    def on_image(self, image: Any, plan: Plan) -> Any:
        return self._noted(super().on_image(image, plan))

    def on_scored(self, ask: Ask[Any], confidence: float, now_ms: float) -> Any:
        return self._noted(super().on_scored(ask, confidence, now_ms))

    def on_away(self, ask: Ask[Any]) -> Wait[Any]:
        return self._noted(super().on_away(ask))  # type: ignore[no-any-return]

    def _noted(self, effect: Effect[Any]) -> Any:
        image = effect.then.image if isinstance(effect, Wait) else effect.image
        name = self._work.job(image).classified.request.request_id
        self.told.append((name, self._clock_ms(), type(effect).__name__, *_said(effect)))
        return effect


def _said(effect: Effect[Any]) -> tuple[Any, ...]:
    """An effect without what is the driver's own."""
    match effect:
        case Ask(_, asked, failures):
            return asked.discriminator, asked.plan.version, failures
        case End(_, plan, decision, confidence, discriminator):
            return plan.version, decision.reason, decision.is_rejected, confidence, discriminator
        case SendOn(_, asked, decision, confidence):
            return asked.plan.version, decision.reason, decision.how, confidence
        case Wait(_, ms):
            return (ms,)
    return ()


class BusyFleet:
    """`Loads` of one worker of each level; heavy's has more to do with every job that is sent."""

    def __init__(self, story: Story) -> None:
        self._story, self.sent = story, 0

    def of(self, tier: str) -> "BusyFleet":
        assert tier == "standard"
        return self

    def wait_ms(self, variant: str) -> float:
        busy_ms = self._story.busy_ms
        if busy_ms is None:
            return float("inf") if variant == "heavy" else 0.0
        return busy_ms + self.sent * self._story.sent_ms if variant == "heavy" else 0.0

    def ready_ms(self, variant: str, selection: Selection) -> float:
        del selection
        return self.wait_ms(variant)

    def slowness(self, variant: str) -> float:
        del variant
        return 1.0

    def serving_of(self, variant: str) -> int:
        return int(self.wait_ms(variant) < float("inf"))

    def serving(self) -> int:
        return 1 + self.serving_of("heavy")


class Clock:
    """The clock of a live discriminator, which stands still but for scoring and waits; in place of `asyncio`."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS

    def __call__(self) -> int:
        return self.now_ms

    async def sleep(self, seconds: float) -> None:
        self.now_ms += round(1000 * seconds)

    async def to_thread(self, call: Any, *args: Any) -> Any:
        return call(*args)


class Scorer:
    """Has a confidence for each image, and takes its time."""

    def __init__(self, story: Story, clock: Clock) -> None:
        self._of = {each.name: each.confidence for each in story.images}
        self._clock, self._takes_ms = clock, 0 if story.away_ms else SCORING_MS

    def score(self, requests: Sequence[GenerateRequest], pictures: Sequence[np.ndarray]) -> list[float]:
        del pictures
        self._clock.now_ms += self._takes_ms * len(requests)
        return [self._of[request.request_id] for request in requests]


class Store(MemoryImageStore):
    """Is away when the story says so."""

    def __init__(self, story: Story, clock: Clock) -> None:
        super().__init__()
        out = io.BytesIO()
        Image.new("RGB", (2, 2)).save(out, "PNG")
        self._story, self._clock, self.uri = story, clock, self.put("j-1", out.getvalue())

    def get(self, uri: str) -> bytes:
        if self._story.is_away(self._clock.now_ms):
            raise StoreUnavailable("away")
        return super().get(uri)


class Plans(StubPlans):
    """The plan of the story in force."""

    def __init__(self, story: Story, clock: Clock) -> None:
        super().__init__(story.plan(BEGIN_MS))
        self._story, self._clock = story, clock

    async def in_force(self) -> Plan:
        return self._story.plan(self._clock.now_ms)


class Ended:
    """The ids whose requests the ledger has ended, as they were overdue."""

    def __init__(self, story: Story, clock: Clock) -> None:
        self._deadlines = {each.name: each.deadline_ms for each in story.images}
        self._clock = clock

    def __contains__(self, request_id: object) -> bool:
        return is_overdue(self._deadlines[str(request_id)], self._clock.now_ms, Timing().grace_ms)


class Sends(Dispatcher):
    """Counts the jobs that it sends; of the loads it knows no more."""

    def __init__(self, catalog: Catalog, busy: BusyFleet) -> None:
        super().__init__(catalog, StubFleet(), "discriminator")
        self._busy = busy

    def loads(self, plan: Plan, at_ms: int, tier: str) -> Any:
        del plan, at_ms, tier
        return self._busy

    def send(self, plan: Plan, classified: Any, placement: Any, **more: Any) -> Outgoing:
        self._busy.sent += placement.variant == "heavy"
        return super().send(plan, classified, placement, **more)


def live(story: Story) -> list[tuple[Any, ...]]:
    """What a live discriminator is asked for: of one image after the other, each in its order."""
    clock, catalog = Clock(), story.catalog
    store, scorer, ended = Store(story, clock), Scorer(story, clock), Ended(story, clock)
    dispatcher, escalation = Sends(catalog, BusyFleet(story)), EscalationLogic(catalog, SLO_MS)
    scorers = dict.fromkeys(catalog.discriminators, scorer)
    discriminator = Discriminator(escalation, Plans(story, clock), ended, dispatcher, store, scorers)  # type: ignore[arg-type]
    work = ImageWork(ended, dispatcher)  # type: ignore[arg-type]
    discriminator.logic = telling = Telling(escalation, work, clock)
    with mock.patch.object(role, "now_ms", clock), mock.patch.object(role, "asyncio", clock):
        for each in story.images:
            clock.now_ms = max(clock.now_ms, each.at_ms)
            awaited(discriminator.on_record(_record(each, store)))
    return sorted(telling.told, key=itemgetter(0))


def _record(judged: Judged, store: Store) -> Incoming:
    options, light = judged.wish.options, a_catalog().level("light")
    ref = an_image_ref(uri=store.uri, width=light.width, height=light.height)
    request = a_request(
        request_id=judged.name, prompt=judged.name, deadline_ms=judged.deadline_ms, quality=judged.wish.quality,
        options=options,
    )  # fmt: skip
    job = a_job(a_classified(request, received_ms=BEGIN_MS), level=judged.level, variant=judged.level.partition("~")[0])
    reuse = StageReuse(step=judged.reused) if judged.level == "light~k4" else None
    image = an_image(job, image=ref, more=(ref,) * (options.n - 1), reuse=reuse)
    return a_record(image, key=judged.name.encode())


class Draws:
    """`Draws` of one request."""

    def __init__(self, confidence: float) -> None:
        self._confidence = confidence

    def confidence(self, level: str, discriminator: str) -> list[float]:
        del level, discriminator
        return [self._confidence]


class Sending(Judge):
    """Counts the jobs that it sends."""

    busy: BusyFleet

    def _place(self, job: Job) -> None:
        self.busy.sent += job.variant == "heavy"


def simulated(story: Story) -> list[tuple[Any, ...]]:
    """What a simulated discriminator is asked for: of one image after the other, each in its order."""
    catalog, events = story.catalog, EventQueue(float(BEGIN_MS))
    plan_state, store, times = PlanState(catalog), ObjectStore(events), CallTimes(catalog)
    ledger = Ledger(events, plan_state, mock.Mock(escalated=0), Timing().grace_ms)
    escalation, busy, beats = EscalationLogic(catalog, SLO_MS), BusyFleet(story), Heartbeats(events, Timing(), times)
    judge = Sending(
        events, plan_state, mock.Mock(), beats, Timing(), times, catalog, ledger, store, escalation, WaitingTopics()
    )
    work = SimulatedImages(catalog, ledger, busy)  # type: ignore[arg-type]
    judge.logic = telling = Telling(escalation, work, lambda: events.now_ms)
    judge.busy, judge.on_scored = busy, lambda _job, _discriminator, _confidence: None
    for since_ms, plan in story.plans:
        events.at(max(since_ms, BEGIN_MS), plan_state.obey, plan)
    if story.away_ms is not None:
        events.at(story.away_ms[0], store.change, False)
        events.at(story.away_ms[1], store.change, True)
    for each in story.images:
        events.at(each.at_ms, judge.on_images, [_job(each, catalog)])
    events.advance(BEGIN_MS + 600_000)
    return sorted(telling.told, key=itemgetter(0))


def _job(judged: Judged, catalog: Catalog) -> Job:
    job = Job(0, judged.name, float(BEGIN_MS), judged.deadline_ms, Draws(judged.confidence), 0)  # type: ignore[arg-type]
    wish = judged.wish
    if wish.options != AS_IT_IS or wish.quality != "auto":
        job = OverriddenJob(job, Asked(wish, None), catalog)
    job.level, job.variant = judged.level, judged.level.partition("~")[0]
    if judged.level == "light~k4":
        job.share, job.step = 0.4, judged.reused
    return job


@pytest.mark.parametrize("first", range(0, STORIES, 200))
def test_live_and_simulated_discriminators_do_the_same_in_every_story(first: int) -> None:
    for seed in range(first, first + 200):
        story = a_story(seed)
        assert live(story) == simulated(story), f"story {seed}: {story}"


def test_the_stories_hold_every_effect_that_the_simulator_knows() -> None:
    told = [each for seed in range(300) for each in simulated(a_story(seed))]
    assert {each[2] for each in told} == {"Drop", "Ask", "End", "SendOn", "Wait"}
    assert {each[-2:] for each in told if each[2] == "Ask"} == {(1, 0), (2, 0), (3, 0)}
    assert {each[-1] for each in told if each[2] == "Wait"} >= {100.0, 200.0, 400.0, 5000.0}
    assert any(each[2] == "End" and each[5] for each in told)  # kept, as the next level would be too late
