"""What the queue of a variant's workers turns away, and whom it makes late.

Its work, in seconds a worker, drifts by load - 1 and varies as arrivals do (reflected Brownian motion). Who would wait
longer than allowed is turned away, so the queue ends at a barrier, and what is lost is the rate at which it is pushed
against it,

    m / (1 - exp(-2 m B / s2)) of the workers' time        m = load - 1, B barrier in s, s2 variance a second

as far as it can have grown to the barrier by then. Below a load of 1 the chance to wait at all is Erlang C's.
Source: Harrison, Brownian Motion and Stochastic Flow Systems, 1.9 and 5.6; the variance is Allen-Cunneen's.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

FULL: Final = 0.25  # of the longest queue: beyond it calls are full, and none is late before
AFTER_S: Final = (8.0, 30.0, 80.0)  # of a new plan, at which its queues are looked at


class Limits(NamedTuple):
    """How long jobs may wait, and what comes of it where the queue is as long as it can be."""

    turned_s: float  # who would wait longer is turned away
    late: float = 0.0  # share of the others that are late then
    batch: int = 1  # most jobs that share a call then
    full: float = FULL  # of the longest queue: beyond it they are late


class Queue(NamedTuple):
    """A variant's work, whose loss is asked for several demands, crews and times."""

    work: float  # seconds a request
    first_work: float  # of which without a draft
    image_s: float
    one_s: float
    first: Limits  # of jobs without a draft
    again: Limits  # of drafts
    variability: float
    is_one: bool  # one queue for all workers

    def lost(self, rps: float, workers: int, start_s: float, at_s: float) -> tuple[float, float, float]:
        """Shares some time after the start: of the images without a draft, and of the drafts, that are turned away;
        of all that are not, who are late."""
        if not workers:
            first, again = (max(0.0, 1 - limits.turned_s / at_s) for limits in (self.first, self.again))
            return first, again, 0.0
        load, first = rps * self.work / workers, rps * self.first_work / workers
        if load <= 0:
            return 0.0, 0.0, 0.0
        variance = 2 * self.variability * self.image_s / (workers if self.is_one else 1)
        wait = waiting_share(workers if self.is_one else 1, load * self.one_s / self.image_s)
        again = load - first
        limits = self.again if again > 1e-9 else self.first
        edge = Edge(load, variance * load, limits.turned_s, start_s, at_s, wait)
        late = limits.late * edge.beyond(limits.full) if limits.late else 0.0
        if again <= 1e-9:
            return min(1.0, edge.pushed / load), 0.0, late
        back = edge.pushed
        alone = Edge(first, variance * first, self.first.turned_s, start_s, at_s, wait).pushed if first > 0 else 0.0
        if back >= again:
            return (min(1.0, max(alone, back - again) / first) if first > 0 else 0.0), 1.0, late
        if first > 0 and self.first.turned_s > limits.turned_s:
            above = Edge(first, variance * first, self.first.turned_s - limits.turned_s, 0.0, at_s, 1.0)
            alone = max(alone, back / again * above.pushed)
        return (min(1.0, alone / first) if first > 0 else 0.0), back / again, late

    def wait_s(self, rps: float, workers: int, start_s: float) -> float:
        """Mean wait until the last of AFTER_S, roughly."""
        if not workers:
            return self.first.turned_s
        load, at_s = rps * self.work / workers, AFTER_S[-1]
        grown_s = max(0.0, start_s + (load - 1) * at_s / 2)
        noise_s = self.variability * self.image_s / workers * load
        wait = waiting_share(workers, load * self.one_s / self.image_s)
        own_s = min(wait * noise_s / (1 - load), math.sqrt(noise_s * at_s)) if load < 1 else math.sqrt(noise_s * at_s)
        return min(grown_s + own_s, max(0.0, self.first.turned_s))


class Edge:
    """Work that drifts between nothing and a barrier, at a time after the start (see the module)."""

    __slots__ = ("_barrier_s", "_there", "_wait", "_z", "pushed")

    def __init__(
        self, load: float, variance: float, barrier_s: float, start_s: float, at_s: float, wait: float
    ) -> None:
        """`variance`: of the work that comes, s^2 a second; `wait`: the chance to wait at all below a load of 1.

        `pushed`: the share of the workers' time that what is turned away would take.
        """
        self._barrier_s, self._wait = barrier_s, wait if load < 1 else 1.0
        if barrier_s <= 0:
            self.pushed, self._z, self._there = load, 0.0, 1.0
            return
        if math.isinf(barrier_s):
            self.pushed, self._z, self._there = 0.0, -math.inf, 0.0
            return
        above_s = max(0.0, start_s - barrier_s)  # worked off while everybody is turned away
        start_s, at_s = start_s - above_s, at_s - above_s
        if at_s <= 0:
            self.pushed, self._z, self._there = load, 0.0, 1.0
            return
        drift, variance, at_s = load - 1, max(variance, 1e-12), max(at_s, 1e-9)
        z = self._z = min(700.0, 2 * drift * barrier_s / variance)
        spread = math.sqrt(variance * at_s)
        by_then = _normal((start_s + drift * at_s - barrier_s) / spread)
        if z < -60:  # in the end nobody is turned away: only what waits already may be
            self._there, self.pushed = by_then, 0.0
            return
        rate = variance / (2 * barrier_s) if abs(z) < 1e-6 else drift / -math.expm1(-z)
        if z < 30:
            by_then += math.exp(min(z, 0.0)) * _normal((-barrier_s - start_s - drift * at_s) / spread)
        self._there = min(1.0, by_then / math.exp(min(z, 0.0)))
        self.pushed = min(load, rate * self._there * self._wait)

    def beyond(self, part: float) -> float:
        """Share of who is let in that finds more than this part of the longest queue."""
        z = self._z
        if self._barrier_s <= 0 or z < -60:
            return 0.0
        if abs(z) < 1e-6:
            share = 1 - part
        elif z > 0:
            share = (1 - math.exp(-z * (1 - part))) / -math.expm1(-z)
        else:
            share = (math.exp(z * part) - math.exp(z)) / -math.expm1(z)
        return share * self._there * self._wait


@lru_cache(maxsize=4096)
def _erlang(servers: int, hundredths: int) -> float:
    """Erlang C at a utilisation of so many halves of a hundredth, as `queueing.erlang_c` has it for many at once."""
    utilization, blocked = hundredths / 200, 1.0
    offered = servers * utilization
    for k in range(1, servers + 1):
        busy = offered * blocked
        blocked = busy / (k + busy)
    return blocked / (1 - utilization * (1 - blocked))


def waiting_share(servers: int, load: float) -> float:
    """Share of arrivals that find all servers busy (Erlang C); 1 from a load of 1 on."""
    return _erlang(servers, int(200 * load)) if load < 0.995 else 1.0


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def limits_of(left_s: float, call_s: Callable[[int], float], most: int) -> Limits:
    """Of jobs that may take `left_s`, their call included, where at most so many share one.

    Whoever places a job reckons the call in progress, what waits image by image, and the job as one image. So as many
    can wait as fit in like this, which take less together than foretold; but a job's own call is as long as all that
    share it make it, and it begins when the calls before it have ended: so who is let in may be late.
    """
    one_s = call_s(1)
    if left_s < one_s:
        return Limits(0.0)
    batch = max(1, min(most, int(left_s / one_s)))
    full_s = call_s(batch)
    in_hand_s = min(left_s - one_s, full_s / 2)
    longest, late, full = int(left_s / one_s), 0.0, 1.0
    for place in range(longest - batch + 1, longest + 1):  # of who comes during a call, where the queue stays longest
        soonest_s = min(full_s, left_s - place * one_s)  # until the call in progress ends, when the place is free
        rest_s = left_s - full_s * (1 + (place - 1) // batch)
        if soonest_s > rest_s:  # let in as soon as it may be, it is late; else it comes at any time of the call
            late += (1.0 if soonest_s < full_s else min(1.0, 1 - max(0.0, rest_s) / soonest_s)) / batch
            full = min(full, (place - 1) / longest)
    turned_s = in_hand_s + (left_s - one_s - in_hand_s) * full_s / batch / one_s
    return Limits(turned_s, late, batch, max(FULL, full))
