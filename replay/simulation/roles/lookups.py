"""Lookups of stored latents: what a worker does between taking a job and generating it, by the rules of planner/reuse.

Jobs of one batch are looked up together; the call begins when the last is answered, cut, or not asked for. Live a
lookup runs beside the encoding of the prompts, so that its time here is the most that it can add.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.options import resolve_options, resolved_ms
from planner.catalog.reuse import ReuseProfile
from planner.reuse.breaker import Call, Probe
from planner.reuse.deadline import lookup_deadline_ms, saved_ms
from planner.reuse.eligibility import Asked, Consent, lookup_refusal
from planner.reuse.neighbour import Miss, Neighbour, Wanted
from planner.reuse.planning import guard_share, neighbours_of
from planner.reuse.probing import is_idle, probe_due
from planner.reuse.steps import Candidate, Decision, FullRun, Reuse, decide, step_of
from planner.reuse.terms import Terms, terms_of
from replay.simulation.draws.neighbours import NeighbourDraws, lookup_times_ms
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.results.reuse_metrics import ReuseMetrics
from replay.simulation.roles.plan_state import PlanState
from replay.simulation.roles.worker import Worker
from replay.simulation.roles.worker_lookups import WorkerLookups
from schemas.messages import Plan

TEND_MS: Final = 1000.0  # between two looks at the breakers


class VectorStore:
    """The simulated vector store with the latents: it answers in its time, or, away, not at all."""

    def __init__(self, agenda: EventQueue, profile: ReuseProfile, seed: int) -> None:
        self._agenda = agenda
        self.is_there, self._changed_ms, self._down_ms = True, 0.0, 0.0
        self._times_ms, self._next = lookup_times_ms(profile, seed), 0

    def change(self, is_up: bool) -> None:
        """Let the store go away or come back."""
        self._down_ms, self._changed_ms = self.down_ms(self._agenda.now_ms), self._agenda.now_ms
        self.is_there = is_up

    def answer_ms(self) -> float:
        """Return how long the next search and fetch takes; infinite while it is away."""
        if not self.is_there:
            return math.inf
        self._next = (self._next + 1) % len(self._times_ms)
        return self._times_ms[self._next]

    def down_ms(self, until_ms: float) -> float:
        """Return how long it was away until then."""
        return self._down_ms + (0.0 if self.is_there else max(0.0, until_ms - self._changed_ms))


class Looked(NamedTuple):
    """A job after its lookup: how it begins, and what the lookup took."""

    job: Job
    decision: Decision
    call: Call | None  # None: the stores were not asked


class Lookups:
    """The lookups of all workers."""

    def __init__(self, agenda: EventQueue, board: PlanState, catalog: Catalog, seed: int) -> None:
        self._agenda, self._board, self._catalog, self._seed = agenda, board, catalog, seed
        self._profile = catalog.reuse_profile or ReuseProfile()
        self.store, self.metrics = VectorStore(agenda, self._profile, seed), ReuseMetrics()
        self._read: tuple[Plan | None, Terms | None] = (None, None)  # the last plan, and what it says
        self._drawn: dict[str, NeighbourDraws] = {}  # by the plan's key
        self.is_used = False  # a plan has asked for reuse

    def terms(self) -> Terms | None:
        """Return what the plan in force says of reuse; None: nothing."""
        plan = self._board.plan
        if plan is not self._read[0]:
            terms = None if plan.reuse is None else terms_of(plan.reuse)
            self._read = plan, terms
        return self._read[1]

    def tend(self, workers: Callable[[], Sequence[Worker]]) -> None:
        """Begin to look after the workers' breakers, once a plan asks for reuse."""
        if not self.is_used and self.terms() is not None:
            self.is_used = True
            self._tend(workers)

    def find(self, worker: Worker, jobs: Sequence[Job], then: Callable[[Worker], None]) -> bool:
        """Look up jobs whose level asks for it, together: True: `then(worker)` comes when each knows where it begins.

        False: the stores were not asked, and each knows it now.
        """
        terms, own = self.terms(), self._of(worker)
        assert terms is not None, "a lookup without a plan that asks for it"
        looked = [self._look_up(job, terms, own) for job in jobs]
        took_ms = max((each.call.took_ms for each in looked if each.call), default=0.0)
        if took_ms > 0.0:
            self._agenda.at(self._agenda.now_ms + took_ms, self._answered, (worker, looked, then))
            return True
        self._settle(worker, looked)
        return False

    def _of(self, worker: Worker) -> WorkerLookups:
        if worker.lookups is None:
            worker.lookups = WorkerLookups(looked_ms=self._agenda.now_ms)
        return worker.lookups

    def _look_up(self, job: Job, terms: Terms, own: WorkerLookups) -> Looked:
        variant = self._catalog.level(job.variant)
        steps, run_ms = _in_full(job, variant)
        share = min(job.share, terms.max_share)
        miss = _without_asking(job, terms, steps)
        deadline_ms = None if miss else lookup_deadline_ms(run_ms, share)
        if miss or deadline_ms is None or own.breaker.is_open:
            return Looked(job, FullRun(miss or (Miss.UNPROFITABLE if deadline_ms is None else Miss.BREAKER)), None)
        own.budget_ms = deadline_ms
        took_ms = self.store.answer_ms()
        if took_ms > deadline_ms:
            return Looked(job, FullRun(Miss.TIMEOUT), Call(deadline_ms, has_failed=True))
        decision = self._decided(job, terms, variant, steps)
        saved = saved_ms(run_ms, decision.step / steps) if isinstance(decision, Reuse) else 0.0
        return Looked(job, decision, Call(took_ms, saved))

    def _decided(self, job: Job, terms: Terms, variant: Variant, steps: int) -> Decision:
        """Decide by the neighbour that was drawn: a row of the job's own tenant, model and size."""
        if terms.key not in self._drawn:
            self._drawn[terms.key] = NeighbourDraws(neighbours_of(self._profile, terms.key), self._seed)
        drawn = self._drawn[terms.key].at(job.number)
        if drawn is None:
            return FullRun(Miss.NONE)
        row = {"tenant": job.tenant, "model": variant.name, "width": variant.width, "height": variant.height}
        wanted, now_ms = Wanted(**row, dimension=0), self._agenda.now_ms  # type: ignore[arg-type]
        neighbour = Neighbour(**row, dimension=0, similarity=drawn.similarity, expires_ms=2**53)  # type: ignore[arg-type]
        candidate = Candidate(neighbour, guard_share(terms.guard, drawn.verdict))
        return decide(job.share, terms.floors, [candidate], wanted, steps, now_ms)

    def _answered(self, found: tuple[Worker, list[Looked], Callable[[Worker], None]]) -> None:
        worker, looked, then = found
        if worker.is_up:
            self._settle(worker, looked)
            then(worker)

    def _settle(self, worker: Worker, looked: Sequence[Looked]) -> None:
        own, now_ms = self._of(worker), self._agenda.now_ms
        for job, decision, call in looked:
            if call is not None:
                self.metrics.on_lookup(call.took_ms, has_failed=call.has_failed)
                if not own.breaker.is_open:
                    own.add(call, own.breaker.after_call(call, now_ms), now_ms)
            self._begin(job, decision, own)

    def _begin(self, job: Job, decision: Decision, own: WorkerLookups) -> None:
        variant = self._catalog.level(job.variant)
        if isinstance(decision, Reuse):
            own.hits += 1
            job.begin_at(decision.step, decision.step * variant.steps // decision.steps)
        else:
            own.misses[decision.why] += 1
            job.begin_at(0, 0)
        job.reuse = decision
        self.metrics.on_decided(decision)

    def _tend(self, workers: Callable[[], Sequence[Worker]]) -> None:
        now_ms, plan = self._agenda.now_ms, self._board.plan
        if plan.reuse is not None:
            has_no_jobs = is_idle(plan)
            for worker in workers():
                own = self._of(worker)
                if probe_due(own.breaker, own.looked_ms, now_ms, is_idle=has_no_jobs):
                    self._probe(own, now_ms)
        self._agenda.at(now_ms + TEND_MS, self._tend, workers)

    def _probe(self, own: WorkerLookups, now_ms: float) -> None:
        """Search and fetch a known object in the background; the answer counts as of now."""
        took_ms = min(own.budget_ms, self.store.answer_ms())
        probe = Probe(took_ms, own.budget_ms, has_failed=took_ms >= own.budget_ms)
        own.add(Call(took_ms, has_failed=probe.has_failed), own.breaker.after_probe(probe, now_ms), now_ms)


def _without_asking(job: Job, terms: Terms, steps: int) -> Miss | None:
    """Why a job is not looked up, before time and breaker count."""
    if lookup_refusal(_asked(job)):
        return Miss.INELIGIBLE
    return None if step_of(min(job.share, terms.max_share), steps) else Miss.STEPS


def _asked(job: Job) -> Asked:
    return Asked(consent=Consent(job.options.reuse), has_draft=job.draft is not None, options=job.options)


def _in_full(job: Job, variant: Variant) -> tuple[int, float]:
    """Steps of a job, and the time of all of them, in ms."""
    how = resolve_options(job.options, variant)
    return how.steps, resolved_ms(variant, how)
