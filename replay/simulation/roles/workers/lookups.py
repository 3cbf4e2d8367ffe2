"""Lookups of stored latents: what a worker does between taking a job and generating it.

`LookupLogic` and `choose` of `planner/reuse` decide, as for the live worker; here a store answers them, or does not.
Jobs of one batch are looked up together; the call begins when the last is answered, cut, or not asked for. Live a
lookup runs beside the encoding of the prompts, so that its time here is the most that it can add.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from planner.catalog.model import Catalog
from planner.catalog.options import AS_IT_IS, resolve_options
from planner.catalog.reuse import ReuseProfile
from planner.reuse.guard import Comparison
from planner.reuse.lookups.breaker import Probe
from planner.reuse.lookups.lookup import Found, Lookup, LookupJob, choose, job_of, without_answer
from planner.reuse.lookups.probing import POLL_MS
from planner.reuse.lookups.worker import UNANSWERED
from planner.reuse.neighbour import Neighbour, Wanted
from planner.reuse.planning import comparison_of, neighbours_of
from planner.reuse.steps import Decision, FullRun, Reuse
from planner.reuse.terms import Terms, terms_of
from replay.simulation.draws.neighbours import NeighbourDraws, lookup_times_ms
from replay.simulation.draws.repeats import Repeats
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.results.reuse_metrics import ReuseMetrics
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.roles.workers.worker_lookups import WorkerLookups
from schemas.messages import Plan


class VectorStore:
    """The simulated vector store with the latents: it answers in its time, or, away, not at all."""

    def __init__(self, events: EventQueue, profile: ReuseProfile, seed: int) -> None:
        self._events = events
        self.is_there, self._changed_ms, self._down_ms = True, 0.0, 0.0
        self._times_ms, self._next = lookup_times_ms(profile, seed), 0

    def change(self, is_up: bool) -> None:
        """Let the store go away or come back."""
        self._down_ms, self._changed_ms = self.down_ms(self._events.now_ms), self._events.now_ms
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
    took_ms: float | None = None  # until the answer, or the deadline; None: the stores were not asked


class Lookups:
    """The lookups of all workers."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, catalog: Catalog, seed: int, repeats: Repeats | None = None
    ) -> None:
        self._events, self._plan_state, self._catalog, self._seed, self._repeats = (
            events,
            plan_state,
            catalog,
            seed,
            repeats,
        )
        self._profile = catalog.reuse_profile or ReuseProfile()
        self.store, self.metrics = VectorStore(events, self._profile, seed), ReuseMetrics()
        self._read: tuple[Plan | None, Terms | None] = (None, None)  # the last plan, and what it says
        self._drawn: dict[str, NeighbourDraws] = {}  # by the plan's key
        self._plain: dict[
            tuple[str, float], LookupJob
        ] = {}  # variant, share -> as all requests without wishes are read
        self.is_used = False  # a plan has asked for reuse

    def terms(self) -> Terms | None:
        """Return the reuse of the plan in force, or None."""
        plan = self._plan_state.plan
        if plan is not self._read[0]:
            terms = None if plan.reuse is None else terms_of(plan.reuse)
            self._read = plan, terms
        return self._read[1]

    def tend(self, workers: Callable[[], Sequence[Worker]]) -> None:
        """Begin to test the store in the background for the workers, once a plan asks for reuse."""
        if not self.is_used and self.terms() is not None:
            self.is_used = True
            self._tend(workers)

    def find(self, worker: Worker, jobs: Sequence[Job], then: Callable[[Worker], None]) -> bool:
        """Look up the jobs of a batch together: True: `then(worker)` comes when each knows where it begins.

        False: the store was not asked, and each knows it now.
        """
        terms = self.terms()
        if terms is None:
            for job in jobs:
                _begin(job, None)
            return False
        asked = [self._as_asked(job) for job in jobs]
        firsts = self._of(worker).begin(terms, asked)
        looked = [self._begin_lookup(*each, terms) for each in zip(jobs, asked, firsts, strict=True)]
        times_ms = [each.took_ms for each in looked if each.took_ms is not None]
        if times_ms:
            self._events.at(self._events.now_ms + max(times_ms), self._answered, (worker, looked, then))
            return True
        self._settle(worker, looked)
        return False

    def on_generated(self, worker: Worker) -> None:
        """Count the jobs of a worker's call, as a live worker does: once they are generated."""
        own = self._of(worker)
        self.metrics.jobs += len(worker.call)
        for job in worker.call:
            if job.reuse is not None:
                own.generated(job.reuse)
                if job.share:
                    self.metrics.on_decided(job.reuse)

    def _of(self, worker: Worker) -> WorkerLookups:
        if worker.lookups is None:
            worker.lookups = WorkerLookups(self._events.now_ms)
        return worker.lookups

    def _as_asked(self, job: Job) -> LookupJob:
        if job.options is not AS_IT_IS or job.draft is not None or job.attempts > 1:
            return self._read_job(job)
        key = job.variant, job.share
        if key not in self._plain:
            self._plain[key] = self._read_job(job)
        return self._plain[key]

    def _read_job(self, job: Job) -> LookupJob:
        variant = self._catalog.level(job.variant)
        how = resolve_options(job.options, variant)
        return job_of(job, variant, how, job.share, has_draft=job.draft is not None, attempt=job.attempts)

    def _begin_lookup(self, job: Job, asked: LookupJob, first: Lookup | FullRun, terms: Terms) -> Looked:
        if isinstance(first, FullRun):
            return Looked(job, first)
        took_ms = self.store.answer_ms()
        if took_ms > first.deadline_ms:
            return Looked(job, without_answer(0.0, first.deadline_ms, is_cut=True), first.deadline_ms)
        return Looked(job, self._chosen(job, asked, terms), took_ms)

    def _chosen(self, job: Job, asked: LookupJob, terms: Terms) -> Decision:
        """Decide by the neighbour that was drawn: a row of the job's own tenant, model and size."""
        if terms.key not in self._drawn:
            self._drawn[terms.key] = NeighbourDraws(neighbours_of(self._profile, terms.key), self._seed, self._repeats)
        drawn = self._drawn[terms.key].at(job.number)
        is_a = {"tenant": job.tenant, "model": job.variant, "width": 0, "height": 0, "dimension": 0}
        found = [] if drawn is None else [
            Found(Neighbour(**is_a, similarity=drawn.similarity, expires_ms=2**53), drawn.verdict)  # type: ignore[arg-type]
        ]  # fmt: skip
        decision = choose(terms, asked, found, Wanted(**is_a), _compared, self._events.now_ms)  # type: ignore[arg-type]
        job.change = None
        if drawn is not None and isinstance(decision, Reuse):
            job.change = self._profile.change(drawn.verdict, decision.step / decision.steps)
        return decision

    def _answered(self, found: tuple[Worker, list[Looked], Callable[[Worker], None]]) -> None:
        worker, looked, then = found
        if worker.is_up:
            self._settle(worker, looked)
            then(worker)

    def _settle(self, worker: Worker, looked: Sequence[Looked]) -> None:
        own, now_ms = self._of(worker), self._events.now_ms
        for job, decision, took_ms in looked:
            if took_ms is not None:
                own.finish(decision, took_ms, now_ms)
                has_failed = isinstance(decision, FullRun) and decision.why in UNANSWERED
                self.metrics.on_lookup(took_ms, has_failed=has_failed)
            _begin(job, decision, self._catalog.level(job.variant).steps)

    def _tend(self, workers: Callable[[], Sequence[Worker]]) -> None:
        now_ms = self._events.now_ms
        if self.terms() is not None:
            for worker in workers():
                if not worker.is_probing and self._of(worker).logic.probe_due(now_ms):
                    self._probe(worker)
        self._events.repeat(now_ms + POLL_MS, self._tend, workers)

    def _probe(self, worker: Worker) -> None:
        """Search and fetch a known object in the background, within the time of a lookup."""
        budget_ms = self._of(worker).logic.budget_ms
        probe = Probe(min(budget_ms, self.store.answer_ms()), budget_ms)
        worker.is_probing = True
        self._events.at(self._events.now_ms + probe.took_ms, self._probed, (worker, probe))

    def _probed(self, probed: tuple[Worker, Probe]) -> None:
        worker, probe = probed
        worker.is_probing = False
        self._of(worker).probed(probe, self._events.now_ms)


def _begin(job: Job, decision: Decision | None, own_steps: int = 0) -> None:
    """Let a job begin as it was decided; one of a level without reuse begins as it did: over a draft, or from noise."""
    job.reuse = decision
    if isinstance(decision, Reuse):
        job.begin_at(decision.step, decision.step * own_steps // decision.steps)
    elif job.share:
        job.begin_at(0, 0)


def _compared(_prompt: str, verdict: str) -> Comparison:
    """Return the drawn comparison of facts: a simulated neighbour's prompt is the verdict on it."""
    return comparison_of(verdict)
