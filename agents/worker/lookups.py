"""Looks up the latents that a batch of jobs may begin from: search, guard, fetch, each within its deadline.

`LookupLogic` (`planner/reuse/lookups/worker.py`) decides; here stores are asked, in threads. Whatever a store does, a
job is answered by its deadline: with a latent, or with the reason to run all its steps. The caller may do something
else meanwhile: then a thread of its own asks and waits.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from agents.reuse.prompt_key import PromptKey
from agents.worker.calls import BackgroundCalls
from planner.reuse.guard import Compare
from planner.reuse.lookups.breaker import Probe
from planner.reuse.lookups.deadline import DEFAULT_RULE, DeadlineRule
from planner.reuse.lookups.lookup import (
    MAX_CANDIDATES,
    Found,
    Lookup,
    LookupJob,
    choose,
    unfit_latent,
    without_answer,
)
from planner.reuse.lookups.worker import GeneratedJobs, LookupLogic
from planner.reuse.neighbour import Miss, Neighbour, Wanted, is_named_for
from planner.reuse.steps import Decision, FullRun, Reuse
from planner.reuse.terms import Terms
from schemas.errors import PochadeError
from schemas.messages import ReuseHealth
from streams import metrics
from streams.clock import now_ms
from streams.store.latents import Latent, LatentSpace, UnfitLatent, from_bytes
from streams.store.port import ImageStore, StoreUnavailable
from streams.vectors.port import Nearest, VectorRow, VectorStore
from streams.vectors.port import Wanted as WantedRow

log = logging.getLogger(__name__)

T = TypeVar("T")
Meanwhile = Callable[[], None]

THREADS: Final = 8  # lookups at a time; a store that hangs may keep them all, and the breaker opens
OVER_MS: Final = 50.0  # beyond a deadline, from which on that is worth a word
OPEN_S: Final = 5.0  # for the collection to be made
NOT_ASKED: Final = FullRun(Miss.FAILED)
CANARY: Final = b"pochade reuse probe"  # the known object that probes fetch; equal bytes have one key


def monotonic_ms() -> float:
    """Return ms of a clock that never jumps."""
    return time.monotonic() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A job whose latent is looked up."""

    job: LookupJob
    tenant: str
    width: int  # px
    height: int  # px


class Begun(NamedTuple):
    """How a job begins: a decision, and the latent where it is to begin from one."""

    decision: Decision
    latent: Latent | None = None


class Gone(PochadeError):
    """A row is there, but its latent is not, or is not its tenant's."""


@dataclass(slots=True)
class _Asked:
    """A lookup on its way."""

    sought: Sought
    lookup: Lookup
    decision: Decision = NOT_ASKED
    fetch: Future[Latent] | None = None
    latent: Latent | None = None
    took_ms: float | None = None  # until the answer, or the deadline; None: no store was asked
    guard_ms: float = 0.0  # of it, that no store is to blame for


class Lookups:
    """Asks the stores for a worker. `find` is for its generating thread; probes and reports for any."""

    def __init__(
        self,
        vectors: VectorStore,
        store: ImageStore,
        key: PromptKey,
        compare: Compare,
        clock_ms: Callable[[], float] = monotonic_ms,
        deadlines: DeadlineRule = DEFAULT_RULE,
    ) -> None:
        """`compare`: the guard; `clock_ms`: for deadlines and the breaker."""
        self._vectors = vectors
        self._store = store
        self._key = key
        self._compare = compare
        self._clock_ms = clock_ms
        self._calls = BackgroundCalls(THREADS, "lookups")
        self._batches = BackgroundCalls(1, "batch-lookups")
        self._probes = BackgroundCalls(1, "reuse-probes")
        self._lock = threading.Lock()  # around the logic
        self._logic = LookupLogic(clock_ms(), deadlines)
        self._canary = ""  # its URI

    def find(
        self, sought: Sequence[Sought], terms: Terms, space: LatentSpace | None, meanwhile: Meanwhile | None = None
    ) -> list[Begun]:
        """Return how each job begins, in order. All of them are looked up at the same time.

        `space`: of the engine; None: it neither gives nor takes latents. `meanwhile` is called once if stores are
        asked, and raises nothing: the caller's own work, in its own thread, for which no deadline is extended. What a
        lookup costs its job is the time that it takes beyond that work, which the job needs without reuse too.
        """
        began_ms = self._clock_ms()
        with self._lock:
            firsts = self._logic.begin(terms, [each.job for each in sought], is_there=space is not None)
        asked = [
            _Asked(each, lookup) for each, lookup in zip(sought, firsts, strict=True) if isinstance(lookup, Lookup)
        ]
        own_ms = 0.0
        if asked and space is not None and meanwhile is not None:
            looked_up = self._batches.submit(lambda: self._search_safely(asked, terms, space, began_ms))
            meanwhile()
            own_ms = self._clock_ms() - began_ms
            looked_up.result()
        elif asked and space is not None:
            self._search_safely(asked, terms, space, began_ms)
        for each in asked:
            if each.took_ms is not None:
                self._count(each, each.took_ms, own_ms)
        answers = iter(asked)
        return [
            Begun(first) if isinstance(first, FullRun) else Begun((each := next(answers)).decision, each.latent)
            for first in firsts
        ]

    def _search_safely(self, asked: Sequence[_Asked], terms: Terms, space: LatentSpace, began_ms: float) -> None:
        """Look up; jobs that have no latent yet, when something else than a store fails, run all their steps."""
        try:
            self._search_all(asked, terms, space, began_ms)
        except Exception:  # whatever the guard raises
            log.exception("lookups failed: jobs without a latent run all their steps")
            for each in asked:
                if each.latent is None and isinstance(each.decision, Reuse):
                    each.decision = NOT_ASKED

    def _search_all(self, asked: Sequence[_Asked], terms: Terms, space: LatentSpace, began_ms: float) -> None:
        try:
            vectors = self._key.embed([each.sought.job.prompt for each in asked]).tolist()
        except Exception:  # whatever a model raises: no store is to blame
            log.exception("prompts cannot be embedded: their jobs run all their steps")
            return
        searches = [self._search(each, vector, space) for each, vector in zip(asked, vectors, strict=True)]
        guard_ms = 0.0  # which no store is to blame for
        for each, search in zip(asked, searches, strict=True):
            nearest = self._answer(each, search, began_ms + guard_ms)
            if nearest is not None:
                guard_began_ms = self._clock_ms()
                self._choose(each, nearest, terms, space)
                guard_ms += self._clock_ms() - guard_began_ms
        for each in asked:
            if each.fetch is not None:
                each.latent = self._answer(each, each.fetch, began_ms + guard_ms)
            each.took_ms, each.guard_ms = self._clock_ms() - began_ms, guard_ms

    def _search(self, each: _Asked, vector: list[float], space: LatentSpace) -> Future[Nearest]:
        sought, timeout_s = each.sought, each.lookup.deadline_ms / 1000
        wanted = WantedRow(
            tenant=sought.tenant, model=space.autoencoder, width=sought.width, height=sought.height, now_ms=now_ms()
        )
        return self._calls.submit(lambda: self._vectors.nearest(vector, wanted, MAX_CANDIDATES, timeout_s))

    def _choose(self, each: _Asked, nearest: Nearest, terms: Terms, space: LatentSpace) -> None:
        """Decide on what a search found, and begin to fetch."""
        sought, dropped = each.sought, {reason.value: count for reason, count in nearest.dropped.items()}
        wanted = Wanted(
            tenant=sought.tenant, model=space.autoencoder, width=sought.width, height=sought.height,
            dimension=self._key.dimension,
        )  # fmt: skip
        found = self._in_time(nearest, self._clock_ms() + each.lookup.deadline_ms)
        each.decision = choose(terms, sought.job, found, wanted, self._compare, now_ms(), dropped)
        if isinstance(each.decision, Reuse):
            row = nearest.matches[each.decision.candidate].row
            each.fetch = self._calls.submit(lambda: self._fetched(row, sought, space))

    def _in_time(self, nearest: Nearest, until_ms: float) -> Iterator[Found]:
        """The neighbours, as far as the guard comes within the time of a lookup; one at least."""
        for at, match in enumerate(nearest.matches):
            if at and self._clock_ms() >= until_ms:
                return
            yield Found(_neighbour(match.row, match.similarity), match.row.source.prompt)

    def _answer(self, each: _Asked, asked: Future[T], began_ms: float) -> T | None:
        """Wait for a store until the deadline; where there is no answer the decision says why."""
        deadline_ms = began_ms + each.lookup.deadline_ms
        try:
            return asked.result(max(0.0, deadline_ms - self._clock_ms()) / 1000)
        except UnfitLatent as error:
            each.decision = FullRun(unfit_latent(error.kind))
        except Gone as error:
            each.decision = FullRun(Miss.GONE)
            log.info("a latent cannot be begun with: %s", error)
        except Exception as error:  # whatever a store and its libraries raise; TimeoutError where it does not answer
            is_cut, left_ms = not asked.done(), deadline_ms - self._clock_ms()
            asked.cancel()
            each.decision = without_answer(left_ms, each.lookup.deadline_ms, is_cut=is_cut)
            log.debug("a lookup got no answer: %r", error)
        return None

    def _count(self, each: _Asked, took_ms: float, own_ms: float) -> None:
        """Report a lookup to the breaker and the window of calls. `own_ms`: of the job's own work beside it."""
        over_ms = took_ms - each.guard_ms - each.lookup.deadline_ms
        if over_ms > OVER_MS:  # the process was stopped, or had no processor
            metrics.FALLBACKS.labels("worker", "lookup-overrun").inc()
            log.warning("a lookup took %.0f ms beyond its %.0f ms", over_ms, each.lookup.deadline_ms)
        metrics.LOOKUP_SECONDS.observe(took_ms / 1000)
        with self._lock:
            has_opened = self._logic.finish(each.decision, took_ms, self._clock_ms(), own_ms)
        if has_opened:
            self._report_opened()

    def _fetched(self, row: VectorRow, sought: Sought, space: LatentSpace) -> Latent:
        if not is_named_for(row.latent.uri, sought.tenant):
            raise Gone(f"row {row.id} names an object that was not stored for its tenant")
        try:
            data = self._store.get(row.latent.uri)
        except StoreUnavailable:
            raise
        except PochadeError as error:
            raise Gone(str(error)) from error
        if hashlib.sha256(data).hexdigest() != row.latent.sha256:
            raise UnfitLatent("broken", f"the object of row {row.id} is another one than was stored")
        latent = from_bytes(data)
        space.check(latent, sought.width, sought.height)
        return latent

    def probe_due(self) -> bool:
        """Whether a background probe is due: behind an open breaker, and while nothing is looked up."""
        with self._lock:
            return self._logic.probe_due(self._clock_ms())

    def probe(self) -> None:
        """Search once and fetch a known object, within the time of a lookup; the breaker and heartbeats learn of it."""
        with self._lock:
            budget_ms = self._logic.budget_ms
        took_ms = budget_ms
        try:
            if not self._canary:
                self._canary = self._within(OPEN_S, self._put_canary)
            began_ms = self._clock_ms()
            has_failed = not self._within(budget_ms / 1000, lambda: self._answers(budget_ms))
            took_ms = self._clock_ms() - began_ms
        except Exception as error:  # whatever a store and its libraries raise; TimeoutError where it does not answer
            log.debug("a probe failed: %r", error)
            has_failed = True
        if has_failed:
            self._canary, took_ms = "", budget_ms  # written again: it may have been collected
        with self._lock:
            has_changed = self._logic.probed(Probe(took_ms, budget_ms, has_failed), self._clock_ms())
            is_open = self._logic.is_open
        if has_changed and is_open:
            self._report_opened()
        elif has_changed:
            log.info("lookups begin again: the stores have answered in time for a while")

    def _report_opened(self) -> None:
        log.warning("lookups stop, as too many got no answer: jobs run all their steps until probes are good")

    def _within(self, timeout_s: float, call: Callable[[], T]) -> T:
        """Make a call of a probe; one that hangs keeps those behind it from being made, and they fail like it."""
        asked = self._probes.submit(call)
        try:
            return asked.result(timeout_s)
        finally:
            asked.cancel()

    def _put_canary(self) -> str:
        self._vectors.ensure(self._key.dimension, OPEN_S)
        return self._store.put("reuse-probe", CANARY, "bin")

    def _answers(self, budget_ms: float) -> bool:
        """Whether a search and a fetch, one after the other as for a job, give what they must."""
        is_there = self._vectors.probe(budget_ms / 1000).dimension == self._key.dimension
        return self._store.get(self._canary) == CANARY and is_there

    def report(self, generated: GeneratedJobs) -> ReuseHealth:
        """Return what a heartbeat says; any thread may ask."""
        with self._lock:
            return self._logic.report(generated)

    def close(self) -> None:
        """Give back the store's connections; nothing waits for what hangs."""
        self._batches.close()
        self._calls.close()
        self._probes.close()
        self._vectors.close()


def _neighbour(row: VectorRow, similarity: float) -> Neighbour:
    return Neighbour(
        tenant=row.tenant, model=row.model, width=row.width, height=row.height, dimension=len(row.vector),
        similarity=similarity, expires_ms=row.expires_ms,
    )  # fmt: skip
