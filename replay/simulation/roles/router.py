"""The router: `classified` -> a job on the level that the plan draws. The rules are planner's."""

import math
from collections.abc import Callable

from planner.catalog.entries import Variant
from planner.catalog.options import settle
from planner.catalog.parse import Catalog
from planner.control.shedding import ORDINARY
from planner.serving.admission import is_admitted
from planner.serving.placement import QUOTA, Refused, choose_level, first_fit, wished
from planner.serving.reroute import ANY_MS
from planner.serving.tenants import Rights, Work
from replay.simulation.agenda import Agenda
from replay.simulation.job import Job
from replay.simulation.results.tally import Tally
from replay.simulation.roles.fleet import Fleet
from replay.simulation.roles.heartbeats import Heartbeats
from replay.simulation.roles.plan_state import PlanState
from replay.simulation.roles.sender import Sender
from replay.simulation.setup import Timing
from replay.simulation.times import Begun, CallTimes, LevelTimes
from replay.simulation.wishes import BATCH, INTERACTIVE
from schemas.messages import ClassifiedRequest, PaintOptions, Status

NO_CLASSES: dict[str, str] = {}


class Router(Sender):
    """Of a request without wishes the plan's draw is what `wished` comes to: it is asked only about the others."""

    def __init__(
        self, agenda: Agenda, board: PlanState, fleet: Fleet, pulse: Heartbeats, timing: Timing, times: CallTimes,
        catalog: Catalog, tally: Tally,
    ) -> None:  # fmt: skip
        super().__init__(agenda, board, fleet, pulse, timing, times)
        self._tally, self._catalog = tally, catalog
        self.rights: Rights | None = None  # of tenants, where there are any
        self.on_over_quota: Callable[[Job], object] = lambda _job: None  # told where there are rights
        self._limits_ms = {ORDINARY: timing.most_backlog_ms, BATCH: timing.most_backlog_ms}
        self._limits_ms[INTERACTIVE] = timing.interactive_backlog_ms
        self._begun, self._waits = Begun(), Waits(self)
        self._run_ms = LevelTimes(times, self._begun)
        self._lower = Near(catalog.cheaper_than, self._begun).__getitem__
        self._higher = Near(catalog.dearer_than, self._begun).__getitem__

    def _serve(self, job: Job) -> bool:
        if not job.variant and not self._decide(job):
            return True
        return self._place(job)

    def _decide(self, job: Job) -> bool:
        """Its level; False: it has ended instead."""
        admission, rights = self._board.plan.admission, self.rights
        if rights is not None:
            admission = rights.let_in(admission, job.tier, job.tenant, self._agenda.now_ms)
        if admission is not None and not is_admitted(admission, job.id, job.tier):
            self._tally.ended(Status.REJECTED, job)
            return False
        limit_ms = self._limits_ms[job.tier]
        if rights is None:
            return self._goes_to(job, self._level(job, limit_ms))
        level, allowed_ms = self._level(job, limit_ms), self._allowed_ms()
        if isinstance(level, Refused) and rights.is_crowded_out(job.tenant, allowed_ms):
            level = self._level(job, ANY_MS)
        return self._goes_to(job, level) and self._may_have(job, rights, allowed_ms)

    def _allowed_ms(self) -> float:
        serving = sum(len(self._lineup(variant).free_at_ms) for variant in self._catalog.variants)
        return self._limits_ms[INTERACTIVE] * max(1, serving)

    def reroute(self, job: Job) -> bool:
        """Decide anew on a job that nobody serves; False: it waits where it is. As `reroute.rerouted`."""
        level = self._level(job, ANY_MS)
        if isinstance(level, str) and math.isinf(self._waits[level]):
            return False
        if self._goes_to(job, level):
            self.take(job)
        return True

    def _level(self, job: Job, limit_ms: float) -> str | Refused | None:
        board, waits = self._board, self._waits
        waits.clear()
        if job.classified is not None:
            return self._as_wished(job, job.classified, limit_ms)
        return first_fit(
            board.only_level or self._drawn(job), self._lower, self._higher, waits, self._takes_ms, job.deadline_ms,
            self._agenda.now_ms, limit_ms,
        )  # fmt: skip

    def _goes_to(self, job: Job, level: str | Refused | None) -> bool:
        if level is None or isinstance(level, Refused):
            self._tally.ended(Status.EXPIRED if level is None else Status.REJECTED, job)
            return False
        if job.classified is not None and not self._settle(job, job.classified.request.options, level):
            return False
        job.level, (job.variant, job.step) = level, self._begun[level]
        return True

    def _may_have(self, job: Job, rights: Rights, allowed_ms: float) -> bool:
        """Whether its tenant has a right to it; what is refused anyway takes no tokens. As `agents/router/role.py`."""
        now_ms = self._agenda.now_ms
        work = Work(job.id, job.tenant, job.pictures, self._times.of_job(job))
        refused = rights.refuse(work, allowed_ms, int(now_ms))
        if refused is None:
            return True
        if refused.code == QUOTA:
            self._tally.over_quota[job.tenant] += 1
            self.on_over_quota(job)
        self._tally.ended(Status.REJECTED, job)
        return False

    def _drawn(self, job: Job) -> str:
        """The level that the plan draws."""
        classes = job.draws.classes[job.row] if self._board.has_classes else NO_CLASSES
        return choose_level(self._board.plan, job.id, job.draws.hardness[job.row], classes).level

    def _as_wished(self, job: Job, classified: ClassifiedRequest, limit_ms: float) -> str | Refused | None:
        """The same for a request with wishes, as `planner.serving.placement.decide` has it."""
        wish = wished(self._board.plan, classified, self._catalog)
        near = (self._lower, self._higher) if wish.may_move else (_none, _none)

        def takes_ms(level: str) -> float:
            variant, step = self._begun[level]
            how, step = job.on(self._catalog.level(variant), step)
            judged_ms = job.judged * self._board.judging_ms(level)
            return self._times.painting(variant, job.pictures, how, step) + judged_ms

        return first_fit(wish.level, *near, self._waits, takes_ms, job.deadline_ms, self._agenda.now_ms, limit_ms)

    def _settle(self, job: Job, options: PaintOptions, level: str) -> bool:
        """How the level paints it; False where a strict request insists on something else, and has ended."""
        name, step = self._begun[level]
        variant = self._catalog.level(name)
        if options.strict and settle(options, variant).overridden:
            self._tally.ended(Status.REJECTED, job)
            return False
        job.how, _ = job.on(variant, step)
        return True

    def _takes_ms(self, level: str) -> float:
        """Painting and judging."""
        return self._run_ms[level] + self._board.judging_ms(level)

    def wait_ms(self, level: str) -> float:
        """Until the least loaded worker of a level is free, as the router sees it."""
        return self._lineup(self._begun[level][0]).wait_ms(self._agenda.now_ms)


def _none(_level: str) -> list[str]:
    return []


class Waits(dict[str, float]):
    """level -> ms at one moment, looked up only for levels that are asked for."""

    def __init__(self, router: Router) -> None:
        super().__init__()
        self._router = router

    def __missing__(self, level: str) -> float:
        self[level] = self._router.wait_ms(level)
        return self[level]


class Near(dict[str, list[str]]):
    """level -> those that may stand in for it, as the catalog tells of its variant."""

    def __init__(self, told: Callable[[str], list[Variant]], begun: Begun) -> None:
        super().__init__()
        self._told, self._begun = told, begun

    def __missing__(self, level: str) -> list[str]:
        self[level] = [variant.name for variant in self._told(self._begun[level][0])]
        return self[level]
