"""Chooses the worker of a variant that gets the next job, and the time of a sender's retry if none can."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog
from planner.serving.dispatch import least_cost
from planner.serving.dispatch.free_times import FreeTimes, any_of
from planner.serving.dispatch.least_cost import Option
from schemas.errors import Unknown
from schemas.messages import TIERS, Plan

RETRY_MS: Final = 5.0  # between two looks for an idle worker
INTERACTIVE, DEFAULT_TIER, _ = TIERS
OVERTAKEN_MS: Final = 48_000.0  # of a queue, for which standard requests wait by default; the rest is waited for
PULLS: Final = frozenset({"pull"})  # kinds by which a job waits in its variant's queue until a worker is idle
KINDS: Final = ("least-cost", "least-work", "pull", "random", "round-robin")  # `least_cost.py`: if components count
HELD: Final = frozenset({"least-cost", "least-work"})  # kinds by which jobs wait there if the plan holds them
LEAD_MS: Final = 40.0  # before a worker is idle, held jobs go to it: about the time that they take to get there
QUICK_MS: Final = 200.0  # of a worker's work, with which calls that are shorter are held: it takes as much at once
SHORT: Final = 1.25  # times an image's own time, that a call with an interactive job takes at most


class Retry(NamedTuple):
    """The decision to try again: no worker can take the job yet, and the plan's dispatch does not queue it."""

    after_ms: float
    idle_in_ms: float  # until a worker can take it, as far as is known now


class Call(NamedTuple):
    """The jobs that go to a worker at once, and what may lie before it then."""

    jobs: int
    beside: int  # of them, where an interactive one is among them
    ahead_ms: float


ONE: Final = Call(1, 1, 0.0)


def holds(plan: Plan, waiting: int = 0) -> bool:
    """Whether a new job waits in its variant's queue by this plan, where `waiting` jobs do, whatever workers have."""
    return plan.dispatch in PULLS or (waiting > 0 and holds_back(plan))


def holds_back(plan: Plan) -> bool:
    """Whether new jobs wait by this plan while all workers have work, and go to one at once while one is idle."""
    return plan.holds and plan.dispatch in HELD


def queued_ms(jobs: int, image_ms: float, workers: int, tier: str = DEFAULT_TIER) -> float:
    """Time in ms for which a variant's queue keeps a request of `tier` waiting; 0 without jobs in it, or workers.

    `image_ms`: run time of one image alone as served, by which heartbeats count waiting jobs too. Of what tiers the
    jobs are is not known: an interactive request is taken to overtake OVERTAKEN_MS of work, and to wait for the rest.
    """
    if not workers:
        return 0.0
    return max(0.0, jobs * image_ms / workers - (OVERTAKEN_MS if tier == INTERACTIVE else 0.0))


class JobCost(NamedTuple):
    """The cost of a job that needs components, beside the work that a worker has."""

    run_ms: float  # as served
    lacking_ms: Callable[[int], float]  # place of a worker -> time to load what it lacks


class WorkerChoice:
    """Chooses the workers of one sender's jobs. Not thread-safe: one owner."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._sent: Counter[str] = Counter()  # jobs by variant
        self._calls: dict[tuple[str, int, bool], Call] = {}

    def choose(
        self, plan: Plan, variant: str, request_id: str, free: FreeTimes, now_ms: float, cost: JobCost | None = None
    ) -> int | Retry | None:
        """Return the place in `free` of the worker that gets the job; None if the variant has no worker.

        `free`: when each worker of the variant has done all that it has, on the clock of `now_ms`. `cost`: None: the
        job needs no components, so that it takes as long on each worker.
        """
        if not len(free):
            return None
        if cost is not None and plan.dispatch in least_cost.BY_COST:
            place = self._by_cost(plan.dispatch, variant, request_id, free, now_ms, cost)
            if place is not None:
                return place
        ahead = self.call(plan, variant).ahead_ms
        if holds_back(plan) and ahead < free.wait_ms(now_ms):
            return Retry(RETRY_MS, free.first_ms() - now_ms - ahead)
        place = pick(plan.dispatch, free, now_ms, request_id, self._sent[variant], ahead)
        return Retry(RETRY_MS, free.first_ms() - now_ms - ahead) if place is None else place

    def call(self, plan: Plan, variant: str) -> Call:
        """Return what goes to a worker of a variant at once by this plan."""
        key = variant, plan.batch.get(variant, 1), holds_back(plan)
        found = self._calls.get(key)
        if found is None:
            found = self._calls[key] = _call_of(self._catalog.level(variant), *key[1:])
        return found

    def _by_cost(
        self, kind: str, variant: str, request_id: str, free: FreeTimes, now_ms: float, cost: JobCost
    ) -> int | None:
        """Look at each worker; None if none is idle and the kind gives jobs only to idle ones."""
        options = [
            Option(max(0.0, at_ms - now_ms), cost.lacking_ms(place), cost.run_ms) for place, at_ms in enumerate(free)
        ]
        return least_cost.pick(kind, options, request_id, self._sent[variant])

    def on_sent(self, variant: str) -> None:
        """A job was sent to the worker that was chosen."""
        self._sent[variant] += 1


def _call_of(level: Variant, most: int, holds: bool) -> Call:
    image_ms = run_ms(level, 1)
    if not holds:
        return Call(1, 1, ahead_ms(image_ms, most))
    if level.bases:  # a job goes to the worker that has its components, or is to load them
        return Call(1, 1, math.inf)
    if run_ms(level, most) < QUICK_MS - LEAD_MS:
        return Call(1, 1, QUICK_MS - run_ms(level, most))
    beside = max(size for size in range(1, most + 1) if run_ms(level, size) <= SHORT * image_ms)
    return Call(most, beside, LEAD_MS)


def ahead_ms(image_ms: float, most: int) -> float:
    """ms of work that may wait before a worker whose jobs are pulled: `most` images of `image_ms` share a call.

    It is the next call's, so that the call is full when the one in progress ends. It is nothing where images are
    generated one by one, as a job that is bound to a busy worker can only lose.
    """
    return most * image_ms if most > 1 else 0.0


def pick(
    kind: str, free: FreeTimes, now_ms: float, request_id: str, sent_before: int, most_ahead_ms: float = 0.0
) -> int | None:
    """Return the worker for a job by its place in `free`; None if there is none, or (pull) none can take it yet.

    `free` is on the clock of `now_ms`; `sent_before` counts the sender's jobs to this variant. `most_ahead_ms`: work
    that may wait before a worker whose jobs are pulled, `ahead_ms`. least-work and pull look at the idle workers, or at
    those that tie for being free first, and at no other. Raises Unknown for a kind that is not in KINDS. Source of
    least-work: ARGUS 4.4, Eq. 3, with running work counted.
    """
    if kind not in KINDS:
        raise Unknown("dispatch", kind, KINDS)
    if not len(free):
        return None
    if kind == "round-robin":
        return sent_before % len(free)
    if kind == "random":
        return any_of(range(len(free)), request_id)
    idle = free.idle(now_ms)
    if kind == "pull" and not idle and free.first_ms() - now_ms >= most_ahead_ms:
        return None
    return any_of(idle or free.first(), request_id)
