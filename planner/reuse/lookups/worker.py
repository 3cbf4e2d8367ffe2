"""A worker's decisions on its lookups, and its heartbeats' report of them. Live and simulated workers each own one.

    begin      a batch of jobs: which of them the stores are asked for, and by when each must be answered
    finish     a lookup that was answered or cut: the breaker and the window of calls learn of it
    probe_due  whether the stores are to be tested in the background
    probed     what that came to
    report     what a heartbeat says

Between `begin` and `finish` its owner asks the stores, and `lookup.choose` decides on what they found.
"""

import statistics
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from planner.reuse.lookups import probing
from planner.reuse.lookups.breaker import Breaker, Call, Probe
from planner.reuse.lookups.deadline import DEFAULT_RULE, DeadlineRule
from planner.reuse.lookups.health import CallWindow
from planner.reuse.lookups.lookup import Lookup, LookupJob, before_lookup
from planner.reuse.neighbour import Miss
from planner.reuse.steps import Decision, FullRun, Reuse
from planner.reuse.terms import Terms
from schemas.messages import ReuseHealth

RECENT: Final = 20  # lookups whose jobs' own work says what jobs usually do beside one
UNANSWERED: Final = (Miss.TIMEOUT, Miss.FAILED)  # of these the stores are to blame


@dataclass(slots=True)
class GeneratedJobs:
    """Counts of the jobs that a worker has generated since it started, while its plan asked for reuse."""

    hits: int = 0
    misses: Counter[str] = field(default_factory=Counter)  # reason -> jobs that ran in full

    def add(self, decision: Decision) -> None:
        """Count a job that was generated."""
        if isinstance(decision, Reuse):
            self.hits += 1
        else:
            self.misses[decision.why] += 1


class LookupLogic:
    """Decides for one worker, from the opening of its stores on. Times are ms of one clock; one owner at a time."""

    def __init__(self, now_ms: float, deadlines: DeadlineRule = DEFAULT_RULE) -> None:
        self._deadlines = deadlines
        self._breaker = Breaker()
        self._window = CallWindow()
        self._own_ms: deque[float] = deque(maxlen=RECENT)
        self._asked_ms = now_ms  # when the stores last answered, or were given up
        self.budget_ms = deadlines.max_ms  # of a probe: the newest deadline of a lookup

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open, so that the stores are not asked for jobs."""
        return self._breaker.is_open

    def begin(self, terms: Terms, jobs: Sequence[LookupJob], *, is_there: bool) -> list[Lookup | FullRun]:
        """Decide for each job of a batch whether the stores are asked. `is_there`: its engine takes latents."""
        is_open = self._breaker.is_open
        firsts = [before_lookup(terms, job, is_there=is_there, is_open=is_open, rule=self._deadlines) for job in jobs]
        asked = next((first for first in firsts if isinstance(first, Lookup)), None)
        if asked is not None:
            self.budget_ms = asked.deadline_ms
        return firsts

    def finish(self, decision: Decision, took_ms: float, now_ms: float, own_ms: float = 0.0) -> bool:
        """Learn what a lookup came to. Return whether the breaker has opened by it; behind an open one nothing counts.

        `took_ms`: from the beginning of the batch to the answer, or to the deadline that cut it; `own_ms`: of its job's
        own work beside it, which it needs without reuse too. The lookup costs it what it takes beyond that.
        """
        if self._breaker.is_open:  # by another of the batch
            return False
        has_failed = isinstance(decision, FullRun) and decision.why in UNANSWERED
        self._own_ms.append(own_ms)
        call = Call(max(0.0, took_ms - own_ms), has_failed)
        self._learn(call, self._breaker.after_call(call, now_ms), now_ms)
        return self._breaker.is_open

    def probe_due(self, now_ms: float) -> bool:
        """Whether the stores are to be tested in the background."""
        return probing.probe_due(self._breaker, self._asked_ms, now_ms)

    def probed(self, probe: Probe, now_ms: float) -> bool:
        """Learn what a probe came to: one that took its budget has failed. Return whether the breaker opened or closed.

        Its budget is `budget_ms` of when it began. It counts as what it would have cost a job: its time beyond the
        work that jobs usually had beside their lookups.
        """
        if not probe.took_ms < probe.budget_ms:
            probe = Probe(probe.budget_ms, probe.budget_ms, has_failed=True)
        was_open = self._breaker.is_open
        own_ms = statistics.median(self._own_ms) if self._own_ms else 0.0
        call = Call(max(0.0, probe.took_ms - own_ms), has_failed=probe.has_failed)
        counted = replace(probe, took_ms=call.costs_ms)
        self._learn(call, self._breaker.after_probe(counted, now_ms), now_ms, is_probe=True)
        return self._breaker.is_open != was_open

    def report(self, generated: GeneratedJobs) -> ReuseHealth:
        """Return what a heartbeat says."""
        return self._window.report(generated.hits, dict(generated.misses))

    def _learn(self, call: Call, after: Breaker, now_ms: float, *, is_probe: bool = False) -> None:
        self._breaker, self._asked_ms = after, now_ms
        self._window.add(call, after, is_probe=is_probe)
