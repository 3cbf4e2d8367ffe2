"""A worker's reuse of stored latents: opened in the background when a plan asks for it, and obeyed while it does.

Until the encoder, the guard and the vector store are open, and where `vectors.url` names none, jobs run in full.

A probe in the background is to take as long as a lookup would. So it is made while the worker waits, or as a batch
begins, where lookups are made; in the middle of a batch only where that is long in coming.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from agents.reuse import plain_guard
from agents.worker.lookups import Begun, Lookups, Meanwhile, Sought
from planner.catalog.entries import Variant
from planner.reuse.guard import Comparison
from planner.reuse.indexing.writing import is_stored
from planner.reuse.lookups.lookup import asked_of, before_lookup, outcome_of
from planner.reuse.lookups.probing import POLL_MS
from planner.reuse.lookups.worker import GeneratedJobs
from planner.reuse.neighbour import Miss
from planner.reuse.steps import Decision, FullRun, Reuse
from planner.reuse.terms import Terms, terms_of
from schemas.errors import PochadeError
from schemas.messages import GenerateJob, Plan, ReuseHealth
from streams import metrics
from streams.settings import Settings
from streams.store.latents import LatentSpace
from streams.store.port import ImageStore

log = logging.getLogger(__name__)

RETRY_S = 5.0  # after opening has failed
OPEN_S = 5.0  # for the collection to be made
MAX_PROBE_WAIT_S = 5.0  # for how long a probe that is due waits for a batch to begin or to end

Opens = Callable[[Terms], Lookups]


class WorkerReuse:
    """What a worker knows of reuse. `find` and `count` are for its generating thread."""

    def __init__(
        self, plan: Callable[[], Plan | None], opens: Opens | None, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`plan`: the one in force; `opens`: opens the stores for its terms; None: no vector store is configured."""
        self._plan = plan
        self._opens = opens
        self._clock_s = clock_s
        self._read: tuple[Plan | None, Terms | None] = (None, None)  # the last plan, and what it says
        self._lookups: Lookups | None = None
        self._opened_for: tuple[str, bool] | None = None  # the encoder, and whether there is a guard
        self._generated = GeneratedJobs()
        self._stopping = threading.Event()
        self._woken = threading.Event()  # a batch begins, or the worker stops
        self._is_busy = False  # with a batch
        self._due_s: float | None = None  # since when a probe is; None: it is not

    def start(self) -> "WorkerReuse":
        """Begin to tend the stores; nothing is opened, and no thread begun, where there are none."""
        if self._opens is not None:
            threading.Thread(target=self._run, name="reuse", daemon=True).start()
        return self

    def close(self) -> None:
        """Stop; what hangs is left behind."""
        self._stopping.set()
        self._woken.set()
        if self._lookups is not None:
            self._lookups.close()

    def terms(self) -> Terms | None:
        """What the plan in force says of reuse; None: nothing."""
        plan = self._plan()
        known, terms = self._read
        if plan is not known:
            terms = terms_of(plan.reuse) if plan is not None and plan.reuse is not None else None
            self._read = plan, terms
        return terms

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Around the lookups and calls of a batch of jobs, in the generating thread."""
        self._is_busy = True
        self._woken.set()
        try:
            yield
        finally:
            self._is_busy = False

    def find(
        self, sought: Sequence[Sought], terms: Terms, space: LatentSpace | None, meanwhile: Meanwhile | None = None
    ) -> list[Begun]:
        """Return how each job begins, in order. `meanwhile` is called, once, while stores are asked, if they are."""
        lookups = self._lookups
        if lookups is not None:
            return lookups.find(sought, terms, space, meanwhile)
        return [Begun(_absent(terms, each)) for each in sought]

    def stores(self, job: GenerateJob, variant: Variant, decision: Decision | None) -> bool:
        """Whether a job's latent is stored, if the engine gives one."""
        terms = self.terms()
        if terms is None or self._opens is None:
            return False
        steps = [stage.reuse.step for stage in job.path if stage.reuse is not None]
        own = decision.step if isinstance(decision, Reuse) else 0
        request = job.classified.request
        asked = asked_of(request, variant, has_draft=bool(job.refine_from_step))
        return is_stored(request.request_id, asked, [*steps, own], terms.stored_share)

    def count(self, decision: Decision) -> None:
        """Count a job that was generated."""
        metrics.REUSE_JOBS.labels(outcome_of(decision)).inc()
        self._generated.add(decision)
        if isinstance(decision, Reuse):
            metrics.REUSE_SAVED_STEPS.inc(decision.step)

    def health(self) -> ReuseHealth | None:
        """Return what a heartbeat says; None while the plan asks for no reuse, or nothing is open. For any thread."""
        lookups = self._lookups
        return None if lookups is None else lookups.report(self._generated)

    def tend(self, *, as_batch_begins: bool = False) -> None:
        """Open what the plan asks for, or test it where that is due, jobs or none. Takes as long as that takes.

        Raises PochadeError: what the plan asks for cannot be opened now.
        """
        terms = self.terms()
        if terms is None or self._opens is None:
            return
        wanted = terms.key, terms.guard is not None
        if wanted != self._opened_for:
            before, self._lookups = self._lookups, None
            if before is not None:
                before.close()
            self._lookups = self._opens(terms)
            self._opened_for = wanted
            log.info("images may begin from stored latents: encoder %r, guard %s", terms.key, wanted[1])
        elif self._lookups is not None and self._probes_now(self._lookups, as_batch_begins=as_batch_begins):
            self._lookups.probe()

    def _probes_now(self, lookups: Lookups, *, as_batch_begins: bool) -> bool:
        """Whether a probe is due that would take as long as a lookup, or has waited for that long enough."""
        if not lookups.probe_due():
            self._due_s = None
            return False
        now_s = self._clock_s()
        self._due_s = now_s if self._due_s is None else self._due_s
        return as_batch_begins or not self._is_busy or now_s - self._due_s >= MAX_PROBE_WAIT_S

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopping.is_set():
            is_woken = self._woken.wait(wait_s)
            self._woken.clear()
            wait_s = POLL_MS / 1000
            try:
                self.tend(as_batch_begins=is_woken)
            except Exception as error:  # whatever a store and its libraries raise: jobs run all their steps meanwhile
                log.warning("cannot look up latents, so all steps are run; again in %g s: %s", RETRY_S, error)
                metrics.FALLBACKS.labels("worker", "reuse-closed").inc()
                wait_s = RETRY_S


def _absent(terms: Terms, sought: Sought) -> FullRun:
    first = before_lookup(terms, sought.job, is_there=False, is_open=False)
    return first if isinstance(first, FullRun) else FullRun(Miss.ABSENT)


def opener(settings: Settings, store: ImageStore) -> Opens | None:
    """Return what opens the stores that the settings name; None where they name no vector store."""
    if not settings.vectors.url:
        return None

    def open_lookups(terms: Terms) -> Lookups:
        from agents.reuse.prompt_key import open_key
        from streams.vectors.open import open_vectors

        key = open_key(terms.key)
        vectors = open_vectors(settings, key.digest)
        if vectors is None:
            raise PochadeError("vectors.url names no vector store")
        vectors.ensure(key.dimension, OPEN_S)
        compare = _unguarded if terms.guard is None else plain_guard.compare
        key.embed(["what is done for the first time takes longer, and no job should wait for it"])
        vectors.probe(OPEN_S)
        return Lookups(vectors, store, key, compare)

    return open_lookups


def _unguarded(one: str, other: str) -> Comparison:
    raise AssertionError(f"no facts are compared without a guard: {one!r:.50}, {other!r:.50}")
