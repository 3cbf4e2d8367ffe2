"""The simulated discriminator: drives the live one's `DiscriminatorLogic` in simulated time."""

from collections import deque
from collections.abc import Callable, Sequence

from planner.catalog.model import Catalog
from planner.serving.judging.judging import Ask, DiscriminatorLogic, Drop, Effect, End, SendOn, Wait
from planner.serving.routing.escalation import EscalationLogic, Size
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.sender import FleetLoads, Sender, WaitingTopics
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Plan, Status


class SimulatedImages:
    """What `DiscriminatorLogic` asks of simulated images, which are their jobs; as `ImageWork` for live ones."""

    def __init__(self, catalog: Catalog, ledger: Ledger, loads: FleetLoads) -> None:
        self.has_ended, self._variants, self._loads = ledger.has_ended, catalog.variants, loads

    def job(self, job: Job) -> Job:
        """Return the image's job."""
        return job

    def began_from_latent(self, job: Job) -> bool:
        """Whether the image was begun from a stored latent."""
        return job.share > 0 and job.step > 0

    def refined_a_draft(self, job: Job) -> bool:
        """Whether the image was begun from the draft that it replaces."""
        return job.refines

    def sizes(self, job: Job) -> Sequence[Size]:
        """Return the width and height of each image of the job."""
        return job.sizes(self._variants[job.variant])

    def loads(self, plan: Plan, now_ms: float, tier: str) -> FleetLoads:  # noqa: ARG002
        """Return the loads of all workers, for a request of `tier`."""
        return self._loads.of(tier)


class Judge(Sender):
    """Scores images after the discriminator's latency, as many at once as there are: it is never what holds up work."""

    on_scored: Callable[[Job, str, float], None]

    def __init__(
        self, events: EventQueue, plan_state: PlanState, fleet: Fleet, beats: Heartbeats, timing: Timing,
        times: CallTimes, catalog: Catalog, ledger: Ledger, store: ObjectStore, logic: EscalationLogic,
        waiting: WaitingTopics,
    ) -> None:  # fmt: skip
        super().__init__(events, plan_state, fleet, beats, timing, times, waiting)
        self.logic = DiscriminatorLogic[Job](logic, SimulatedImages(catalog, ledger, self._loads))
        self._ledger, self._variants = ledger, catalog.variants
        self._store, self._waits = store, False  # for the store, and all that comes behind
        self._behind: deque[Job] = deque()

    def on_images(self, jobs: list[Job]) -> None:
        """Images of one call are there."""
        for job in jobs:
            if self._waits:
                self._behind.append(job)
            else:
                self._carry_out(self.logic.on_image(job, self._plan_state.plan))

    def _carry_out(self, effect: Effect[Job]) -> None:
        match effect:
            case Ask(job, asked) if self._store.is_there:
                self._events.at(self._events.now_ms + job.images * asked.latency_ms, self._scored, effect)
            case Ask():
                self._waits = True
                self._carry_out(self.logic.on_away(effect))
            case Wait(ask, ms):
                self._store.waited(ms, is_first=ask.failures == 1)
                self._events.at(self._events.now_ms + ms, self._try_again, ask)
            case Drop(job):
                self._ledger.end(Status.EXPIRED, job)
            case End(job, _, decision):
                job.is_rejected = decision.is_rejected
                self._ledger.complete(job)
            case SendOn():
                self._send_on(effect)

    def _try_again(self, ask: Ask[Job]) -> None:
        """Go on with the image that was waited for; then come those behind it."""
        self._waits = False
        self._carry_out(ask)
        while self._behind and not self._waits:
            self._carry_out(self.logic.on_image(self._behind.popleft(), self._plan_state.plan))

    def _scored(self, ask: Ask[Job]) -> None:
        job = ask.image
        confidence = job.draws.confidence(job.variant, ask.asked.discriminator)[job.row]
        self.on_scored(job, ask.asked.discriminator, confidence)
        self._carry_out(self.logic.on_scored(ask, confidence, self._events.now_ms))

    def _send_on(self, effect: SendOn[Job]) -> None:
        job, asked, decision, _ = effect
        self._ledger.tally.escalated += 1
        job.escalate(decision.next_level, decision.how.variant, self._events.now_ms)
        job.become_new_record(attempt=1)
        variant = self._variants[job.variant]
        job.how, job.step = job.as_resolved(variant, decision.how.options, asked.cascade.refine_from_step)
        self._place(job)
