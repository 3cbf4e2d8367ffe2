"""The live planner and the simulated one publish the same plans of the same situations, by the same logic object."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest

from agents.planner.loop import PlannerLoop as LiveLoop
from planner.control.planning import NO_GAIN, Order, PlanDecision, PlannerLogic
from planner.control.proposal import PlanProposal
from planner.control.propose import Rules
from planner.observation.observation import Observation
from planner.observation.workers import live_workers
from planner.policies import POLICIES, named
from planner.serving.decisions import OVERLOADED, QUOTA, SHED, UNHONOURED
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed, rejected
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.results.timeline import Timeline
from replay.simulation.roles.control.observation_feed import ObservationFeed
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.control.planning import PlannerLoop as SimulatedLoop
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.group import Group, Member
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.setup import Setup
from replay.simulation.times import CallTimes
from schemas.messages import Plan, Status
from streams.settings import Settings, load
from tests.agents.stubs import StubFleet, StubPlans, a_record
from tests.builders import NOW_MS, a_catalog, a_classified, a_heartbeat, a_job, a_request, an_image, owned
from tests.memory_kafka import LeaseBoard, MemoryLease
from tests.planner.control.test_plans import same_decision

SITUATIONS = 75
PATIENT_S = 60.0  # a busy machine shall not cut what only one of two planners waits for
PERIOD_MS, SLO_MS = 5000, 1200.0
QUICK = ("random-split", "clipper-heavy", "clipper-light", "diffserve-static", "diffserve", "hadis", "proteus", "argus")
FAILING = "failing"
FORECASTS = ("policy", "policy", "last", "ewma", "trend")
HYSTERESES = ("policy", "policy", "always", "never")
SETTINGS: dict[tuple[str, bool, str, str], Settings] = {}


@dataclass(frozen=True)
class Beat:
    """A worker's heartbeat at a moment. Jobs of a variant lie in the partition of its first worker."""

    worker_id: str
    variant: str
    state: str
    remaining_ms: int
    end_offset: int = 0
    is_first: bool = True  # of its variant


@dataclass(frozen=True)
class Arrival:
    """A request, and what became of it by some moment."""

    at_ms: int
    hardness: float
    classes: dict[str, str]
    tier: str
    ends_ms: int
    end: str  # COMPLETED, or the code of its rejection
    confidence: float
    run_ms: int


@dataclass(frozen=True)
class Situation:
    """What happens to a planner, and at which moments it is asked."""

    policy: str
    sheds: bool
    forecast: str
    hysteresis: str
    moments: list[tuple[int, list[Beat]]]
    arrivals: list[Arrival]


def a_situation(seed: int) -> Situation:
    dice = random.Random(seed)
    policy = "joint" if seed % 25 == 0 else dice.choice((*QUICK, FAILING))
    variants = {f"w-{n}": dice.choice(["light", "heavy", ""]) for n in range(dice.randint(1, 4))}
    offsets, first = (
        dict.fromkeys(variants, 0),
        {variant: worker_id for worker_id, variant in reversed(variants.items())},
    )
    at_ms, moments = NOW_MS, []
    for _ in range(dice.randint(2, 4)):
        beats = []
        for worker_id, variant in variants.items():
            if worker_id == first[variant]:
                offsets[worker_id] += dice.randint(0, 30)
            if dice.random() < 0.9:
                state = dice.choice(["ready", "painting", "loading", "draining", "stopped"] if moments else ["ready"])
                work_ms = dice.choice([0, 0, 150, 9000]) if variant else 0
                is_first = worker_id == first[variant]
                beats.append(Beat(worker_id, variant, state, work_ms, offsets[worker_id], is_first))
        moments.append((at_ms, beats))
        at_ms += dice.choice([200, 1000, 1700, 3500, 5000])
    rate_rps, arrivals, now_ms = dice.choice([0.5, 2.0, 6.0]), [], NOW_MS - 5000
    while now_ms < at_ms:
        now_ms += 1 + int(1000 * dice.expovariate(rate_rps))
        level, ends_ms = dice.choice(["light", "heavy"]), now_ms + dice.randint(100, 3000)
        end = dice.choice(["COMPLETED"] * 4 + [dice.choice([OVERLOADED, SHED, UNHONOURED]), QUOTA])
        tier = dice.choice(["standard", "batch"])
        arrivals.append(
            Arrival(
                now_ms,
                dice.random(),
                {"models": level},
                tier,
                ends_ms,
                end,
                round(dice.random(), 3),
                dice.choice([5, 20, 300]),
            )
        )
    sheds, forecast, hysteresis = dice.random() < 0.5, dice.choice(FORECASTS), dice.choice(HYSTERESES)
    return Situation(policy, sheds, forecast, hysteresis, moments, arrivals)


class LivePlanner:
    """The live loop on stubs."""

    def __init__(self, situation: Situation, logic: PlannerLogic | None = None) -> None:
        key = situation.policy, situation.sheds, situation.forecast, situation.hysteresis
        if key not in SETTINGS:
            planner = {
                "policy": key[0], "load_shedding": key[1], "forecast": key[2], "hysteresis": key[3],
                "period_ms": PERIOD_MS, "slo_s": SLO_MS / 1000,
                "solver_timeout_s": PATIENT_S,
            }  # fmt: skip
            SETTINGS[key] = load({"planner": planner})
        settings, catalog = SETTINGS[key], a_catalog()
        self.fleet, self.view = StubFleet(), StubPlans()
        self.loop = LiveLoop(settings, catalog, MemoryLease(LeaseBoard()), self.view, self.fleet, logic)

    @property
    def plan(self) -> Plan | None:
        return self.loop._plans.plan

    def arrive(self, number: int, arrival: Arrival) -> None:
        request = a_request(request_id=f"r-{number}", created_ms=arrival.at_ms, tier=arrival.tier)
        classified = a_classified(
            request, received_ms=arrival.at_ms, hardness=arrival.hardness, classes=arrival.classes
        )
        self.loop.sources.on_classified(a_record(classified))

    def end(self, number: int, arrival: Arrival) -> None:
        request = a_request(request_id=f"r-{number}", created_ms=arrival.at_ms)
        outcome = rejected(request, reason="", by="router", now_ms=arrival.ends_ms, code=arrival.end)
        if arrival.end == "COMPLETED":
            level = arrival.classes["models"]
            job = a_job(a_classified(request, hardness=arrival.hardness), level=level, variant=level)
            ran = {"started_ms": arrival.at_ms, "generated_ms": arrival.at_ms + arrival.run_ms, "batch": 1}
            image = an_image(job, **ran)
            how: dict[str, Any] = {"reason": "", "by": "discriminator", "policy": "p", "now_ms": arrival.ends_ms}
            outcome = completed(image, arrival.confidence, 0.3, **how, discriminator="look")
        self.loop.sources.on_result(a_record(result_of(outcome)))

    def step(self, at_ms: int, beats: Sequence[Beat]) -> None:
        for beat in beats:
            owns = (owned(int(beat.worker_id[2:]), beat.end_offset, beat.remaining_ms),)
            partitions = owns if beat.variant else ()
            heartbeat = a_heartbeat(
                worker_id=beat.worker_id, variant=beat.variant, state=beat.state, partitions=partitions, plan_version=0
            )
            self.fleet.receive(heartbeat, at_ms)
        self.loop.step(at_ms, at_ms)


@dataclass
class Draws:
    """What is known of the prompts."""

    hardness: list[float]
    classes: list[dict[str, str]] = field(default_factory=list)

    def confidence(self, level: str, discriminator: str) -> list[float]:
        raise NotImplementedError

    def quality(self, level: str, step: int) -> list[float] | None:
        raise NotImplementedError


class TieredJob(Job):
    """A job whose request names its tier."""

    __slots__ = ("tier",)


class Idle:
    """A fleet that carries out nothing."""

    def obey(self) -> None:
        """There is a plan."""


class SimulatedPlanner:
    """The simulator's loop, its observations and its heartbeats, on a clock and a fleet of the test."""

    def __init__(self, situation: Situation, logic: PlannerLogic | None = None) -> None:
        catalog, arrivals = a_catalog(), situation.arrivals
        setup = Setup(
            catalog=catalog, policy=situation.policy, workers=4, slo_ms=SLO_MS, period_ms=PERIOD_MS, learns=True,
            sheds=situation.sheds, forecast=situation.forecast, hysteresis=situation.hysteresis,
        )  # fmt: skip
        self.events, times_ms = EventQueue(NOW_MS - 10_000), np.array([a.at_ms for a in arrivals], dtype=np.float64)
        self.tally = RunMetrics(SLO_MS, Timeline(np.zeros(1)))
        self.beats = Heartbeats(self.events, setup.timing, CallTimes(catalog))
        self.draws = Draws([a.hardness for a in arrivals], [a.classes for a in arrivals])
        nobody_waits = np.zeros(len(arrivals), dtype=bool)
        self.feed = ObservationFeed(self.events, setup, self.beats.groups, self.tally, times_ms, nobody_waits)
        self.feed.on_sampled(0, self.draws)
        fleet = cast(Fleet, Idle())
        self.loop = SimulatedLoop(self.events, PlanState(catalog), setup, fleet, self.beats, self.feed, logic)
        self.jobs: dict[int, Job] = {}
        self.alive: set[str] | None = None

    @property
    def plan(self) -> Plan | None:
        return self.loop._plans.plan

    def arrive(self, number: int, arrival: Arrival) -> None:
        job = TieredJob(number, f"r-{number}", arrival.at_ms, None, self.draws, number)
        job.tier = arrival.tier
        self.jobs[number] = job
        self.tally.requests += 1
        self.feed.on_classified(job)

    def end(self, number: int, arrival: Arrival) -> None:
        job, self.events.now_ms = self.jobs[number], arrival.ends_ms
        if arrival.end == "COMPLETED":
            job.level = arrival.classes["models"]
            self.feed.on_generated([job], float(arrival.run_ms))
            self.feed.on_scored(job, "look", arrival.confidence)
        status = Status.COMPLETED if arrival.end == "COMPLETED" else Status.REJECTED
        self.tally.ends[status] += 1
        self.tally.on_result(job, status, "" if status is Status.COMPLETED else arrival.end)

    def step(self, at_ms: int, beats: Sequence[Beat]) -> None:
        self.events.now_ms = at_ms
        for group in self.beats.groups.values():
            group.members = []
        for beat in beats:
            worker = self.beats.last.setdefault(beat.worker_id, Worker(beat.worker_id, at_ms))
            worker.beaten_ms, worker.heard_variant, worker.heard_state = at_ms, beat.variant, beat.state
            worker.heard_remaining_ms = beat.remaining_ms
            if beat.variant:
                group = self.beats.groups.setdefault(beat.variant, Group(4))
                if beat.is_first:
                    group.members = [Member(beat.worker_id)]
                    group.ends[0] = beat.end_offset
        alive = {worker.worker_id for worker in live_workers(self.beats.heartbeats(), at_ms, 3000)}
        if alive == self.alive:
            SimulatedLoop._tick(self.loop)
        else:  # as the simulation sees to
            self.loop.plan_if_due()
        self.alive = alive


def happened(planner: LivePlanner | SimulatedPlanner, situation: Situation) -> list[Plan | None]:
    """The plan that the planner goes on from after each moment, with what is remembered beside it."""
    events = [(a.at_ms, n, planner.arrive, a) for n, a in enumerate(situation.arrivals)]
    events += [(a.ends_ms, n, planner.end, a) for n, a in enumerate(situation.arrivals)]
    events.sort(key=lambda event: event[:2])
    plans: list[Plan | None] = []
    for at_ms, beats in situation.moments:
        while events and events[0][0] <= at_ms:
            _, number, what, arrival = events.pop(0)
            what(number, arrival)
        planner.step(at_ms, beats)
        plans.append(planner.plan)
    return plans


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Observation]:
    """All that is shown to the logic; a policy that fails now and then is among the policies."""
    shown: list[Observation] = []
    decide = PlannerLogic.decide

    def watched(self: PlannerLogic, at: Observation, *others: Any) -> PlanDecision:
        shown.append(at)
        return decide(self, at, *others)

    def fails(at: Observation, *others: Any) -> PlanProposal:
        if at.now_ms > NOW_MS and sum(at.counts) % 2:
            raise ZeroDivisionError("in the solver")
        return POLICIES["random-split"](at, *others)

    monkeypatch.setitem(POLICIES, FAILING, fails)
    monkeypatch.setattr(PlannerLogic, "decide", watched)
    return shown


@pytest.mark.slow
def test_of_the_same_situation_the_live_planner_and_the_simulated_one_publish_the_same_plan(
    seen: list[Observation],
) -> None:
    published = 0
    for seed in range(SITUATIONS):
        situation = a_situation(seed)
        live = happened(LivePlanner(situation), situation)
        of_live = [
            replace(at, in_flight={}) for at in seen
        ]  # simulated only where the fleet is scaled: nobody else asks
        seen.clear()
        simulated = happened(SimulatedPlanner(situation), situation)
        assert of_live == seen, f"the observations of situation {seed}"
        assert live == simulated, f"the plans of situation {seed}"
        seen.clear()
        published += len({plan.version for plan in live if plan})
    assert published > SITUATIONS


class Exchanged(PlannerLogic):
    """It asks what a change costs before it asks whether the change must be."""

    def _keep_current(self, draft: PlanProposal, order: Order, seen: Observation, before: Plan) -> PlanDecision | None:
        if same_decision(draft, before, order.policy):
            return PlanDecision()
        if not self._should_switch(draft, seen, before):
            return PlanDecision(fallbacks=(NO_GAIN,))
        return None


def test_two_checks_exchanged_in_the_logic_change_both_planners() -> None:
    """A worker that joins must be planned with; nothing is gained by it."""
    beats = [Beat(f"w-{n}", variant, "ready", 0) for n, variant in enumerate(["light", "heavy", ""])]
    situation = Situation("random-split", False, "policy", "always", [(NOW_MS, beats[:2]), (NOW_MS + 400, beats)], [])
    for kind, versions in ((PlannerLogic, [1, 2]), (Exchanged, [1, 1])):
        for planner in (LivePlanner, SimulatedPlanner):
            order = Order(situation.policy)
            logic = kind(
                a_catalog(),
                named,
                order,
                period_ms=PERIOD_MS,
                silent_ms=3000,
                rules=Rules(sheds=False, hysteresis="always"),
            )
            plans = happened(planner(situation, logic), situation)
            assert [plan.version for plan in plans if plan] == versions, (kind, planner)
