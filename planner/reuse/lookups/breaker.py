"""The breaker before the vector store and the store of latents: whether a worker asks them at all.

    CLOSED  --- 5 of 20 calls or probes failed or timed out ---------> OPEN
    OPEN    --- 5 good probes in a row, each below half the budget ---> CLOSED

While it is open nothing waits: a request runs all its steps, and a background probe searches and fetches a known
object. Whether lookups pay is for the plan to say, which knows all workers' hits (`planner/reuse/planning.py`).
Source: ARGUS 4.6 tests retrievals in the background; it gives no thresholds, these are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRule:
    """When a breaker opens and closes."""

    calls: int = 20  # that are looked back on
    max_failures: int = 5  # of `calls`
    probe_ms: float = 5_000.0  # between two probes while it is open
    good_probes: int = 5  # in a row, after which it closes
    good_share: float = 0.5  # of the budget: a probe below this is good


DEFAULT_RULE: Final = BreakerRule()


@dataclass(frozen=True, slots=True)
class Call:
    """A lookup that was made for a request; a miss is no failure."""

    costs_ms: float  # that its job waits for search and fetch, until the answer or the deadline
    has_failed: bool = False  # an error, or no answer by the deadline


@dataclass(frozen=True, slots=True)
class Probe:
    """A background search and fetch of a known object."""

    took_ms: float  # beyond what a job would have done beside it anyway
    budget_ms: float  # the deadline of a lookup
    has_failed: bool = False  # an error, no answer, or not the known object


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of a breaker; each event gives the next one."""

    rule: BreakerRule = DEFAULT_RULE
    is_open: bool = False  # no request may wait for a lookup
    probed_ms: float = 0.0  # when the last probe was answered, or the breaker opened
    recent: tuple[bool, ...] = ()  # whether each of the last calls failed, the newest last
    good: int = 0  # probes in a row

    def after_call(self, call: Call, now_ms: float) -> "Breaker":
        """Return the breaker after a lookup was answered, failed or was cut; one begun before it opened is ignored."""
        if self.is_open:
            return self
        return self._counting(call.has_failed, now_ms)

    def after_probe(self, probe: Probe, now_ms: float) -> "Breaker":
        """Return the breaker after a background probe.

        While it is closed a probe is one of its calls, so that it opens before a job has to wait for stores that have
        not been asked for a while.
        """
        if not self.is_open:
            return self._counting(probe.has_failed, now_ms)
        is_good = not probe.has_failed and probe.took_ms < self.rule.good_share * probe.budget_ms
        good = self.good + 1 if is_good else 0
        if good >= self.rule.good_probes:
            return Breaker(self.rule)
        return replace(self, good=good, probed_ms=now_ms)

    def wants_probe(self, now_ms: float) -> bool:
        """Whether a background probe is due; a clock that jumps back probes at once."""
        return self.is_open and not 0.0 <= now_ms - self.probed_ms < self.rule.probe_ms

    def _counting(self, has_failed: bool, now_ms: float) -> "Breaker":
        recent = (*self.recent, has_failed)[-self.rule.calls :]
        if sum(recent) >= self.rule.max_failures:
            return Breaker(self.rule, is_open=True, probed_ms=now_ms)
        return replace(self, recent=recent)


def unanswered_share(calls: Sequence[Call]) -> float:
    """Return the share of lookups that failed or were cut; 0 of none. The planner switches strategy by it."""
    return sum(call.has_failed for call in calls) / len(calls) if calls else 0.0
