"""The requests that the queue of a variant's workers rejects or makes late.

Its work, in seconds a worker, drifts by load - 1 and varies as arrivals do (reflected Brownian motion). Who would wait
longer than allowed is turned away, so the queue ends at a barrier, and what is lost is the rate at which it is pushed
against it,

    m / (1 - exp(-2 m B / s2)) of the workers' time        m = load - 1, B barrier in s, s2 variance a second

as far as it can have grown to the barrier by then. Below a load of 1 the chance to wait at all is Erlang C's.
Where drafts and requests without one may wait differently long, both are let in up to the lower barrier, and above it
those alone who may wait longer, up to theirs. So while the lower is reached, the first lose all and the others what
the room above cannot take; together they lose what the workers cannot carry.
Source: Harrison, Brownian Motion and Stochastic Flow Systems, 1.9 and 5.6; the variance is Allen-Cunneen's.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

NOT_FIRST: Final = 0.45  # of those whom a full call makes late: the most urgent go before it (`limits_of`)
FULL: Final = 0.25  # of the longest queue: beyond it calls are full, and none is late before
SQRT_2: Final = math.sqrt(2)
AFTER_S: Final = (8.0, 30.0, 80.0)  # of a new plan, at which its queues are looked at


class Limits(NamedTuple):
    """How long jobs may wait, and the consequences when the queue is at its limit."""

    turned_s: float  # a job that would wait longer is rejected
    late: float = 0.0  # share of the others that are late then
    batch: int = 1  # jobs that share a call then
    full: float = FULL  # of the longest queue: beyond it they are late
    image_s: float = 0.0  # of a worker's time that an image takes then
    call_s: float = 0.0  # that a call takes then, on average


class Queue(NamedTuple):
    """A variant's work, whose loss is asked for several demands, numbers of workers and times."""

    work: float  # seconds a request
    first_work: float  # of which without a draft
    image_s: float
    call_s: float  # that a call takes where the queue is as long as it can be, on average
    whole_s: float  # of an image from noise
    one_s: float
    first: Limits  # of jobs without a draft
    again: Limits  # of drafts
    variability: float
    is_one: bool  # one queue for all workers

    def with_more(self, images: float) -> "Queue":
        """Return the queue with `images` more images a request that have no draft."""
        if not images:
            return self
        work = images * self.whole_s
        return self._replace(work=self.work + work, first_work=self.first_work + work)

    def lost(
        self, rps: float, workers: int, start_s: float, times_s: Sequence[float]
    ) -> list[tuple[float, float, float]]:
        """At each of some times after the start, shares: of the images without a draft, and of the drafts, that are
        turned away; of all that are not, who are late."""
        if not workers:
            turned_s = self.first.turned_s, self.again.turned_s
            shares = [[max(0.0, 1 - limit_s / at_s) for limit_s in turned_s] for at_s in times_s]
            return [(first, again, 0.0) for first, again in shares]
        load, first = rps * self.work / workers, rps * self.first_work / workers
        if load <= 0:
            return [(0.0, 0.0, 0.0)] * len(times_s)
        variance = 2 * self.variability * self.image_s / (workers if self.is_one else 1)
        wait = waiting_share(workers if self.is_one else 1, load * self.one_s / self.image_s)
        again = load - first
        limits = self.again if again > 1e-9 else self.first
        if again <= 1e-9 or first <= 0:
            whole = Edge(load, variance * load, limits.turned_s, start_s, wait).after(times_s, limits.full)
            lost = [(min(1.0, each / load), limits.late * beyond) for each, beyond in whole]
            return [(0.0, share, late) if first <= 0 else (share, 0.0, late) for share, late in lost]
        is_first = self.first.turned_s >= self.again.turned_s  # may those without a draft wait longer?
        high, longest_s = (first, self.first.turned_s) if is_first else (again, self.again.turned_s)
        shortest_s = min(self.first.turned_s, self.again.turned_s)
        whole = Edge(load, variance * load, shortest_s, start_s, wait).after(times_s, limits.full)
        alone = Edge(high, variance * high, longest_s, start_s, wait).after(times_s)
        above_s = longest_s - shortest_s if longest_s > shortest_s else 0.0
        above = Edge(high, variance * high, above_s, 0.0, 1.0).after(times_s)
        found = []
        for (back, beyond), (own, _), (rest, _) in zip(whole, alone, above, strict=True):
            also = rest / high  # while the others are turned away, these are too where the room above is full
            lower = min(1.0, back / (load - high + also * high))
            upper = min(1.0, max(own / high, lower * also))
            of_first, of_again = (upper, lower) if is_first else (lower, upper)
            found.append((of_first, of_again, limits.late * beyond))
        return found

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
    """Work that drifts between nothing and a barrier (see the module)."""

    __slots__ = ("_above_s", "_barrier_s", "_drift", "_load", "_rate", "_scale", "_start_s", "_variance", "_wait", "_z")

    def __init__(self, load: float, variance: float, barrier_s: float, start_s: float, wait: float) -> None:
        """`variance`: of the work that comes, s^2 a second; `wait`: the chance to wait at all below a load of 1."""
        self._load, self._barrier_s, self._wait = load, barrier_s, wait if load < 1 else 1.0
        drift = self._drift = load - 1
        variance = self._variance = max(variance, 1e-12)
        self._above_s = start_s - barrier_s if start_s > barrier_s else 0.0  # worked off while all are turned away
        self._start_s = start_s - self._above_s
        self._z, self._rate, self._scale = 0.0, 0.0, 1.0
        if 0 < barrier_s < math.inf:
            z = self._z = min(700.0, 2 * drift * barrier_s / variance)
            if z >= -60:
                self._rate = variance / (2 * barrier_s) if abs(z) < 1e-6 else drift / -math.expm1(-z)
                self._scale = math.exp(z) if z < 0 else 1.0

    def after(self, times_s: Sequence[float], part: float = 1.0) -> list[tuple[float, float]]:
        """At each of some times after the start: the share of the workers' time that what is turned away would take,
        and the share of who is let in that finds more than a part of the longest queue."""
        load, barrier_s, z, wait = self._load, self._barrier_s, self._z, self._wait
        if barrier_s <= 0:
            return [(load, 0.0)] * len(times_s)
        if barrier_s == math.inf:
            return [(0.0, 0.0)] * len(times_s)
        found, beyond = list[tuple[float, float]](), self._beyond(part) if part < 1 else 0.0
        for time_s in times_s:
            at_s = time_s - self._above_s
            if at_s <= 0:
                found.append((load, (1 - part) * wait))
            elif z < -60:  # in the end no request is rejected, except waiting ones
                found.append((0.0, 0.0))
            else:
                there = self._there(at_s if at_s > 1e-9 else 1e-9)
                pushed = self._rate * there * wait
                found.append((pushed if pushed < load else load, beyond * there * wait))
        return found

    def _there(self, at_s: float) -> float:
        """Return the growth of the queue to the barrier by then, as a share of its final size."""
        spread, moved_s = SQRT_2 * math.sqrt(self._variance * at_s), self._drift * at_s
        by_then = 0.5 * math.erfc((self._barrier_s - self._start_s - moved_s) / spread)
        if self._z < 30:
            by_then += self._scale * 0.5 * math.erfc((self._barrier_s + self._start_s + moved_s) / spread)
        there = by_then / self._scale
        return there if there < 1.0 else 1.0

    def _beyond(self, part: float) -> float:
        """Share of a queue that has come to its end that is longer than this part of the longest."""
        z = self._z
        if abs(z) < 1e-6:
            return 1 - part
        if z > 0:
            return (1 - math.exp(-z * (1 - part))) / -math.expm1(-z)
        return (math.exp(z * part) - math.exp(z)) / -math.expm1(z)


@lru_cache(maxsize=4096)
def _erlang(servers: int, hundredths: int) -> float:
    """Return Erlang C at a utilisation of `hundredths` / 200, as `queueing.erlang_c` for arrays."""
    utilization, blocked = hundredths / 200, 1.0
    offered = servers * utilization
    for k in range(1, servers + 1):
        busy = offered * blocked
        blocked = busy / (k + busy)
    return blocked / (1 - utilization * (1 - blocked))


def waiting_share(servers: int, load: float) -> float:
    """Share of arrivals that find all servers busy (Erlang C); 1 from a load of 1 on."""
    return _erlang(servers, int(200 * load)) if load < 0.995 else 1.0


def limits_of(left_s: float, call_s: Callable[[int], float], most: int) -> Limits:
    """Return how long jobs may wait that must end within `left_s`, their call included, at most `most` to a call.

    Senders predict the wait as the call in progress plus all waiting images one by one, and the job as one image. So
    the queue may grow until this prediction reaches the limit, although batches take less time. But a job's own call is
    as long as all jobs that share it, and begins after the calls before it, so an admitted job may be late. NOT_FIRST
    of these count as late (README, Late in a full call).
    """
    one_s = call_s(1)
    if left_s < one_s:
        return Limits(0.0, image_s=one_s, call_s=one_s)
    most = max(1, min(most, int(left_s / one_s)))
    batch = next((size for size in range(most, 1, -1) if 2 * call_s(size) <= left_s), 1)
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
    images, mean_s = _busy_call(left_s, call_s, batch, most)
    return Limits(turned_s, NOT_FIRST * late, batch, max(FULL, full), mean_s / images, mean_s)


def _busy_call(left_s: float, call_s: Callable[[int], float], batch: int, most: int) -> tuple[float, float]:
    """Mean images and seconds of a call in a busy fleet: `batch` share each, up to `most` some.

    One more does if it comes so late in the call in progress that the rest of this call and all images up to its own,
    one by one, fit in the time that it has.
    """
    if batch == most:
        return batch, call_s(batch)
    full_s, one_s = call_s(most), call_s(1)
    more = [min(1.0, max(0.0, left_s - place * one_s) / full_s) for place in range(batch + 1, most + 1)]
    filled = [1.0] * batch + more + [0.0]
    return sum(filled), sum((filled[at] - filled[at + 1]) * call_s(at + 1) for at in range(most))
