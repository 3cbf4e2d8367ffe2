"""The breaker before the vector store and the store of latents: whether a worker asks them at all.

    CLOSED  --- 5 of 20 calls or probes failed or timed out ---------> OPEN (failing)
            --- lookups cost more than hits save, 3 windows in a row -> OPEN (unprofitable)
    OPEN    --- 5 good probes in a row, each below half the budget ---> CLOSED

While it is open nothing waits: a request runs all its steps, and a background probe searches and fetches a known
object. An unprofitable cache can be healthy: its breaker also stays open for a while that doubles each time.
Source: ARGUS 4.6 tests retrievals in the background; it gives no thresholds, these are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class Opened(StrEnum):
    """Why a breaker is open."""

    NOT = ""  # it is closed
    FAILING = "failing"
    UNPROFITABLE = "unprofitable"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRule:
    """When a breaker opens and closes."""

    calls: int = 20  # that are looked back on, and make one window of the balance
    max_failures: int = 5  # of `calls`
    max_losses: int = 3  # windows in a row whose hits saved less than its lookups cost
    probe_ms: float = 5_000.0  # between two probes while it is open
    good_probes: int = 5  # in a row, after which it closes
    good_share: float = 0.5  # of the budget: a probe below this is good
    rest_ms: float = 60_000.0  # that an unprofitable one stays open at least, doubled each time in a row
    max_rest_ms: float = 960_000.0


DEFAULT_RULE: Final = BreakerRule()


@dataclass(frozen=True, slots=True)
class Call:
    """A lookup that was made for a request; a miss saves nothing, but is no failure."""

    costs_ms: float  # that its job waits for search and fetch, until the answer or the deadline
    saved_ms: float = 0.0  # that its hit saved; 0: a miss
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
    opened: Opened = Opened.NOT
    opened_ms: float = 0.0
    probed_ms: float = 0.0  # when the last probe was answered, or the breaker opened
    recent: tuple[bool, ...] = ()  # whether each of the last calls failed, the newest last
    counted: int = 0  # calls of the window that is open
    balance_ms: float = 0.0  # saved less taken, of the window that is open
    losses: int = 0  # windows in a row
    good: int = 0  # probes in a row
    rests: int = 0  # times in a row that it was unprofitable

    @property
    def is_open(self) -> bool:
        """Whether no request may wait for a lookup."""
        return self.opened is not Opened.NOT

    def after_call(self, call: Call, now_ms: float) -> "Breaker":
        """Return the breaker after a lookup was answered, failed or was cut; one begun before it opened is ignored."""
        if self.is_open:
            return self
        recent = self._recent(call.has_failed)
        if sum(recent) >= self.rule.max_failures:
            return self._open(Opened.FAILING, now_ms)
        after = replace(
            self,
            recent=recent,
            counted=self.counted + 1,
            balance_ms=self.balance_ms + call.saved_ms - call.costs_ms,
        )
        return after._after_window(now_ms) if after.counted >= self.rule.calls else after

    def after_probe(self, probe: Probe, now_ms: float) -> "Breaker":
        """Return the breaker after a background probe.

        While it is closed a probe is one of its calls, so that it opens before a job has to wait for stores that nobody
        has asked for a while; but it saves nothing, so that the balance leaves it out.
        """
        if not self.is_open:
            recent = self._recent(probe.has_failed)
            has_failed = sum(recent) >= self.rule.max_failures
            return self._open(Opened.FAILING, now_ms) if has_failed else replace(self, recent=recent)
        is_good = not probe.has_failed and probe.took_ms < self.rule.good_share * probe.budget_ms
        good = self.good + 1 if is_good else 0
        if good >= self.rule.good_probes and now_ms - self.opened_ms >= self.rest_ms:
            return Breaker(self.rule, rests=self.rests)
        return replace(self, good=good, probed_ms=now_ms)

    def wants_probe(self, now_ms: float) -> bool:
        """Whether a background probe is due; a clock that jumps back probes at once."""
        return self.is_open and not 0.0 <= now_ms - self.probed_ms < self.rule.probe_ms

    @property
    def rest_ms(self) -> float:
        """Time that it stays open at least, in ms."""
        if self.opened is not Opened.UNPROFITABLE:
            return 0.0
        return float(min(self.rule.max_rest_ms, self.rule.rest_ms * 2 ** min(self.rests - 1, 30)))

    def _recent(self, has_failed: bool) -> tuple[bool, ...]:
        return (*self.recent, has_failed)[-self.rule.calls :]

    def _after_window(self, now_ms: float) -> "Breaker":
        if self.balance_ms >= 0.0:  # lookups that cost nothing may save nothing
            return replace(self, counted=0, balance_ms=0.0, losses=0, rests=0)
        if self.losses + 1 >= self.rule.max_losses:
            return self._open(Opened.UNPROFITABLE, now_ms)
        return replace(self, counted=0, balance_ms=0.0, losses=self.losses + 1)

    def _open(self, why: Opened, now_ms: float) -> "Breaker":
        rests = self.rests + (why is Opened.UNPROFITABLE)
        return Breaker(self.rule, why, opened_ms=now_ms, probed_ms=now_ms, rests=rests)


def unanswered_share(calls: Sequence[Call]) -> float:
    """Return the share of lookups that failed or were cut; 0 of none. The planner switches strategy by it."""
    return sum(call.has_failed for call in calls) / len(calls) if calls else 0.0
