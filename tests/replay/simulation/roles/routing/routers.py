"""The live router and the simulator's, side by side: one situation is put to both, without a broker."""

import dataclasses
import random
from collections.abc import Mapping
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from agents.features.tenants import Tenants
from agents.router import dispatcher, reroute, role
from agents.router.dispatcher import Dispatcher
from agents.router.reroute import WAITS, Rerouting
from agents.router.role import Router as LiveRouter
from agents.worker.jobs import Taken
from planner.catalog.entries import HONOURABLE
from planner.catalog.model import Catalog
from planner.catalog.options import AS_IT_IS, resolve_options
from planner.observation.workers import ReceivedHeartbeat
from planner.serving.admission.quotas import Quota
from planner.serving.admission.tenants import Rights
from planner.serving.decisions import Ignored, Rejection
from planner.serving.dispatch.worker_loads import LoadView
from planner.serving.ending.outcomes import step_of
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.composing import fit_of
from planner.serving.routing.placement import Placement
from planner.serving.routing.reroute import POLL_MS, OrphanRouting
from planner.serving.routing.routing import NO_LIMITS, BacklogLimits, Loads, RoutingLogic
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.overrides import ANY_QUALITY, Asked, OverriddenJob
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.results.timeline import Timeline
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.rerouting import Rerouter
from replay.simulation.roles.routing.router import Router as SimulatedRouter
from replay.simulation.roles.routing.sender import FleetLoads, WaitingTopics
from replay.simulation.roles.workers.group import Group
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from replay.traces.trace import Overrides
from schemas.messages import (
    TIERS,
    Admission,
    ClassifiedRequest,
    GenerateJob,
    GenerateOptions,
    Heartbeat,
    Outcome,
    Plan,
    Route,
    Status,
)
from schemas.topics import EVENTS, OUTCOMES
from streams.codec.avro import decode
from tests.agents.stubs import SILENT_MS, StubFleet, StubPlans, a_record, read
from tests.awaiting import awaited
from tests.builders import (
    NOW_MS,
    a_cascade,
    a_catalog,
    a_classified,
    a_discriminator,
    a_heartbeat,
    a_job,
    a_plan,
    a_request,
    a_variant,
    an_image,
    owned,
)
from tests.memory_kafka import MemoryRecordProducer

PARTITIONS = 8
Decision = Placement | Rejection | Ignored


class Beat(NamedTuple):
    """A heartbeat as it lies on its topic."""

    heartbeat: Heartbeat
    seen_ms: int


@dataclasses.dataclass
class Situation:
    """All that a router knows when requests come."""

    catalog: Catalog
    plan: Plan
    limits: BacklogLimits
    beats: list[Beat] = dataclasses.field(default_factory=list)
    quotas: dict[str, Quota] = dataclasses.field(default_factory=dict)
    has_rights: bool = True  # of tenants, in the simulation; live there always are
    ended: set[str] = dataclasses.field(default_factory=set)
    requests: list[ClassifiedRequest] = dataclasses.field(default_factory=list)


class Carried(NamedTuple):
    """What a router did for a request: where its job went, or how it ended; neither: it was ignored."""

    level: str = ""
    partition: int | None = None  # None: nobody owns one
    overridden: tuple[str, ...] = ()
    status: str = ""
    code: str = ""


class Observed(RoutingLogic):
    """Keeps what it decided."""

    decision: Decision | None = None

    def route(self, classified: ClassifiedValues, plan: Plan, loads: Loads, now_ms: float) -> Decision:
        self.decision = super().route(classified, plan, loads, now_ms)
        return self.decision


def at_now() -> int:
    """A clock that stands."""
    return NOW_MS


class Live:
    """`agents.router.role.Router` on stubs."""

    def __init__(self, situation: Situation, kind: type[Observed] = Observed) -> None:
        fleet = StubFleet()
        for heartbeat, seen_ms in situation.beats:
            fleet.receive(heartbeat, seen_ms)
        self.logic = kind(situation.catalog, situation.limits, Tenants(situation.quotas), situation.ended)
        sender = Dispatcher(situation.catalog, fleet, "router")  # type: ignore[arg-type]
        self._router = LiveRouter(self.logic, StubPlans(situation.plan), sender)  # type: ignore[arg-type]

    def serve(self, classified: ClassifiedRequest) -> Carried:
        self.logic.decision = None
        with mock.patch.object(role, "now_ms", at_now), mock.patch.object(dispatcher, "now_ms", at_now):
            written = awaited(self._router.on_record(a_record(classified)))
        if not written:
            return Carried()
        (record,) = written
        if record.topic == OUTCOMES:
            outcome = decode(record.value, Outcome)
            return Carried(status=outcome.status, code=outcome.code)
        job = decode(record.value, GenerateJob)
        return Carried(job.level, record.partition, job.overridden)


class StubHeartbeats:
    """`Heartbeats` whose workers have beaten once."""

    def __init__(self, beats: list[Beat]) -> None:
        self._beats = beats
        self.groups: dict[str, Group] = {}

    def subscribe(self, view: LoadView) -> "StubHeartbeats":
        for heartbeat, seen_ms in self._beats:
            view.on_heartbeat(heartbeat, seen_ms)
        return self

    def listen(self, variant: str) -> None:
        """All heartbeats have been received."""

    def take_in_signs_of_life(self) -> None:
        """No worker has sent another one."""

    def heartbeats(self) -> dict[str, ReceivedHeartbeat]:
        return {heartbeat.worker_id: ReceivedHeartbeat(heartbeat, seen_ms) for heartbeat, seen_ms in self._beats}


class StubJobTopics:
    """`Fleet` that nobody reads: what was sent last lies in `sent`."""

    def __init__(self) -> None:
        self.sent: tuple[str, int] | None = None
        self._groups: dict[str, Group] = {}

    def group(self, variant: str) -> Group:
        return self._groups.setdefault(variant, Group(PARTITIONS))

    def send(self, variant: str, partition: int, _job: Job) -> None:
        self.sent = variant, partition


class Known(NamedTuple):
    """`Draws` of one request."""

    hardness: list[float]
    classes: list[dict[str, str]]

    def confidence(self, level: str, discriminator: str) -> list[float]:
        raise NotImplementedError((level, discriminator))

    def quality(self, level: str, step: int) -> list[float] | None:
        raise NotImplementedError((level, step))


class StubTally:
    """`Tally` of one request."""

    def __init__(self) -> None:
        self.status = ""

    def ended(self, status: Status, _job: Job, _code: str = "") -> None:
        self.status = status

    def completed(self, *_: object) -> None:
        self.status = Status.COMPLETED


class Simulated:
    """`replay.simulation.roles.routing.router.Router` on stubs."""

    def __init__(self, situation: Situation, kind: type[Observed] = Observed) -> None:
        catalog = self._catalog = situation.catalog
        rights = Rights(situation.quotas) if situation.has_rights else None
        self.logic = kind(catalog, situation.limits, rights, situation.ended)
        events, plan_state, self._topics = EventQueue(NOW_MS), PlanState(catalog), StubJobTopics()
        plan_state.obey(situation.plan)
        self.tally = RunMetrics(1000.0, Timeline(np.array([0.0])))
        self._router = SimulatedRouter(
            events, plan_state, self._topics, StubHeartbeats(situation.beats), Timing(silent_ms=SILENT_MS),
            CallTimes(catalog), Ledger(events, plan_state, self.tally, Timing().grace_ms), self.logic, WaitingTopics(),
        )  # type: ignore[arg-type]  # fmt: skip

    def serve(self, classified: ClassifiedRequest) -> Carried:
        self.logic.decision, self._topics.sent = None, None
        ends, over_quota = self.tally.ends.copy(), self.tally.over_quota.copy()
        self._router.take(job_of(classified, self._catalog))
        (status,) = (self.tally.ends - ends) or [""]
        if self._topics.sent is not None:
            assert isinstance(self.logic.decision, Placement)
            assert self._topics.sent[0] == self.logic.decision.variant
            return Carried(self.logic.decision.level, self._topics.sent[1], self.logic.decision.overridden)
        code = self.logic.decision.code if isinstance(self.logic.decision, Rejection) else ""
        assert (self.tally.over_quota != over_quota) == (code == "quota")
        return Carried(status=status, code=code)


def job_of(classified: ClassifiedRequest, catalog: Catalog) -> Job:
    """The simulator's job of a live request, as `replay.simulation.overrides.RequestedOverrides` makes it."""
    request = classified.request
    draws = Known([classified.hardness], [classified.classes])
    job = Job(0, request.request_id, NOW_MS, request.deadline_ms, draws, 0)
    wish = Overrides(options=request.options, tier=request.tier, quality=request.quality, tenant=request.tenant)
    is_plain = (wish.options, wish.tier, wish.quality) == (AS_IT_IS, "standard", ANY_QUALITY)
    return job if is_plain and not request.tenant else OverriddenJob(job, Asked(wish, None), catalog)


def random_situation(dice: random.Random) -> Situation:
    """A deployment in any state, and up to five requests. Rejections of every kind are common."""
    names = ["fast", "middle", "slow"][: dice.choice((2, 3))]
    variants = {name: _random_variant(dice, name, 20.0 * 5**nth) for nth, name in enumerate(names)}
    look = a_discriminator(latency_ms=dice.choice((0.0, 1.0, 30.0)))
    catalog = a_catalog(variants=variants, discriminators={"look": look}, cascades=(), class_cuts={})
    situation = Situation(catalog, a_plan(), BacklogLimits(0, 0))
    situation.beats = [_random_beat(dice, nth, names) for nth in range(dice.randrange(5))]
    situation.has_rights = dice.random() < 0.8
    tenants = ("acme", "other", "third") if situation.has_rights else ("",)
    if situation.has_rights:
        limit_ms = dice.choice((30.0, 500.0, 1500.0, 60_000.0))
        situation.limits = BacklogLimits(limit_ms, limit_ms * dice.choice((0.0, 0.8, 1.0)))
        situation.quotas = {name: _random_quota(dice) for name in ("acme", "*") if dice.random() < 0.4}
    else:  # one tenant alone has a share of the whole backlog, which the simulator does not follow
        situation.limits = BacklogLimits(60_000.0, dice.choice((100.0, 1000.0)))
    situation.plan = _random_plan(dice, names, situation.beats)
    situation.requests = [_random_request(dice, nth, names, tenants) for nth in range(dice.randint(1, 5))]
    if situation.has_rights and dice.random() < 0.2:
        situation.requests.append(situation.requests[0])
    if dice.random() < 0.1:
        situation.ended.add(dice.choice(situation.requests).request.request_id)
    return situation


def _random_variant(dice: random.Random, name: str, ms: float) -> Any:
    honours = tuple(option for option in HONOURABLE if dice.random() < 0.4)
    return a_variant(name=name, latency_ms={1: ms, 2: 1.5 * ms}, steps=dice.choice((2, 7, 25)), honours=honours)


def _random_quota(dice: random.Random) -> Quota:
    return Quota(rate_rps=dice.choice((0.0, 0.5, 5.0)), burst=dice.choice((1.0, 2.0, 10.0)), weight=dice.choice((1, 3)))


def _random_beat(dice: random.Random, nth: int, names: list[str]) -> Beat:
    work_ms = dice.choice((0, 0, 40, 450, 2000, 50_000))
    state = dice.choice(("ready", "ready", "painting", "loading", "draining"))
    partitions = (owned(nth, 5, work_ms),) if dice.random() < 0.9 else ()
    heartbeat = a_heartbeat(worker_id=f"w-{nth}", variant=dice.choice(names), state=state, partitions=partitions)
    return Beat(heartbeat, NOW_MS - dice.choice((0, 0, 100, SILENT_MS + 1)))


def _random_plan(dice: random.Random, names: list[str], beats: list[Beat]) -> Plan:
    shares: Mapping[str, float] = {tier: dice.choice((0.0, 0.5, 1.0)) for tier in TIERS if dice.random() < 0.7}
    admission = Admission(shares=dict(shares), reason="shed: too much", retry_after_ms=5000)
    return a_plan(
        routes=_random_routes(dice, names),
        cascades=(a_cascade(level=names[0], next_level=names[-1]),) if dice.random() < 0.5 else (),
        allocation={beat.heartbeat.worker_id: beat.heartbeat.variant for beat in beats},
        batch={name: dice.choice((1, 4)) for name in names},
        dispatch=dice.choice(("least-work", "random", "round-robin")),  # a pulled job would wait,
        admission=admission if dice.random() < 0.3 else None,
    )


def _random_routes(dice: random.Random, names: list[str]) -> tuple[Route, ...]:
    def levels() -> dict[str, float]:
        first, second = dice.sample(names, 2)
        share = dice.choice((0.0, 0.3, 1.0))
        return {first: share, second: 1 - share}

    match dice.randrange(4):
        case 0:
            return (Route(levels=levels()),)
        case 1:
            return Route(levels=levels(), hardness_to=0.4), Route(levels=levels(), hardness_from=0.4)
        case 2:
            return Route(label=names[0], levels=levels()), Route(levels=levels())
        case _:
            return (Route(levels={names[-1]: 1.0}),)


def _random_request(dice: random.Random, nth: int, names: list[str], tenants: tuple[str, ...]) -> ClassifiedRequest:
    options = AS_IT_IS
    if dice.random() < 0.5:
        options = GenerateOptions(
            n=dice.choice((1, 1, 2, 3)), steps=dice.choice((None, 1, 7, 50)), width=dice.choice((None, 32, 64)),
            guidance=dice.choice((None, 1.0, 7.5)), negative_prompt=dice.choice(("", "", "blur")),
            model=dice.choice(("",) * 7 + (dice.choice(names),) * 3 + ("unknown",)),
            adapters=dice.choice(((), (), (), (), (), ("lcm",))),
            strict=dice.random() < 0.4,
        )  # fmt: skip
    request = a_request(
        request_id=f"r-{dice.randrange(10**6)}-{nth}", tenant=dice.choice(tenants), tier=dice.choice(TIERS),
        quality=dice.choice((ANY_QUALITY, ANY_QUALITY, "low", "medium", "high")), options=options,
        deadline_ms=None if dice.random() < 0.4 else NOW_MS + dice.choice((-5, 10, 25, 130, 700, 3000, 60_000)),
    )  # fmt: skip
    return a_classified(request, hardness=dice.random(), classes={"models": dice.choice(names)})


class LiveRerouter:
    """`agents.router.reroute.Rerouting` on stubs, for jobs of one variant."""

    def __init__(self, situation: Situation, variant: str) -> None:
        self._situation, self._variant = situation, variant
        self._fleet = StubFleet()
        for heartbeat, seen_ms in situation.beats:
            self._fleet.receive(heartbeat, seen_ms)
        self.logic = OrphanRouting(situation.catalog, RoutingLogic(situation.catalog, NO_LIMITS), SILENT_MS)
        sender = Dispatcher(situation.catalog, self._fleet, "router")  # type: ignore[arg-type]
        self.producer = MemoryRecordProducer()
        self._rerouting = Rerouting(self.logic, situation.ended, sender, self.producer)  # type: ignore[arg-type]

    def serve(self, classified: ClassifiedRequest, *, has_draft: bool) -> Carried | None:
        """None: the job stays where it lies, or its variant is not orphaned."""
        if self._variant not in self.logic.orphaned(self._situation.plan, self._fleet.heartbeats, NOW_MS):
            return None
        path = (step_of(an_image(), 0.2, 0.5),) if has_draft else ()
        job = a_job(classified, level=self._variant, variant=self._variant, path=path)
        self.producer.topics.clear()
        with (
            mock.patch.object(reroute, "now_ms", return_value=NOW_MS),
            mock.patch.object(dispatcher, "now_ms", return_value=NOW_MS),
        ):
            (what,) = self._rerouting.serve([Taken(a_record(job), 1)], self._situation.plan)
        if what == WAITS:
            return None
        if what == "had ended":
            return Carried(status="EXPIRED")  # by the ledger
        if OUTCOMES in self.producer.topics:
            return Carried(status=read(self.producer.topics[OUTCOMES][0], Outcome).status)
        (record,) = [log[0] for topic, log in self.producer.topics.items() if topic != EVENTS]
        sent = read(record, GenerateJob)
        return Carried(sent.level, record.partition, sent.overridden)


class SimulatedRerouter:
    """`replay.simulation.roles.routing.rerouting.Rerouter` on stubs, for jobs of one variant."""

    def __init__(self, situation: Situation, variant: str) -> None:
        self._catalog, self._variant = situation.catalog, variant
        self._events, plan_state = EventQueue(NOW_MS - POLL_MS), PlanState(situation.catalog)
        plan_state.obey(situation.plan)
        self._topics, self._tally, self._beats = StubJobTopics(), StubTally(), StubHeartbeats(situation.beats)
        timing, times = Timing(silent_ms=SILENT_MS), CallTimes(situation.catalog)
        logic = OrphanRouting(situation.catalog, RoutingLogic(situation.catalog, NO_LIMITS), SILENT_MS)
        waiting = WaitingTopics()
        loads = FleetLoads(self._events, plan_state, self._beats, timing, times, waiting)  # type: ignore[arg-type]
        ledger = Ledger(self._events, plan_state, self._tally, Timing().grace_ms)  # type: ignore[arg-type]
        self._rerouter = Rerouter(
            self._events, plan_state, self._topics, self._beats, timing, times, ledger, logic, waiting, loads
        )  # type: ignore[arg-type]

    def serve(self, classified: ClassifiedRequest, *, has_draft: bool) -> Carried | None:
        """None: the job stays where it lies, or its variant is not orphaned."""
        job = job_of(classified, self._catalog)
        job.level = job.variant = self._variant
        job.draft = (self._variant, 0) if has_draft else None
        group = self._beats.groups[self._variant] = Group(PARTITIONS)
        group.append(0, job)
        self._events.advance(NOW_MS)
        if group.waiting():
            return None
        if self._topics.sent is None:
            return Carried(status=self._tally.status)
        options, quality = classified.request.options, classified.request.quality
        overridden = resolve_options(options, self._catalog.level(job.variant)).overridden
        overridden += fit_of(options, quality, self._catalog).overrides(job.variant)
        return Carried(job.level, self._topics.sent[1], overridden)
