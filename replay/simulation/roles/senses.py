"""What the planner sees of the simulated pipeline: the `Observation` that `agents/planner/` makes of topics."""

import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from planner.catalog.bands import bounds_of
from planner.control.shedding import ORDINARY
from planner.observation.deferral import SeenDeferral, seen_deferral
from planner.observation.forecast import expected_rps
from planner.observation.observation import (
    COUNTS_S,
    DEMAND_MS,
    PROMPTS,
    SCORES,
    SERVED_MS,
    Observation,
    Queue,
    Served,
    WorkerView,
    class_histograms,
    class_shares,
    counts_per_second,
    demand_rps,
    hardness_shares,
)
from replay.simulation.agenda import Agenda
from replay.simulation.job import Draws, Job
from replay.simulation.results.tally import Tally
from replay.simulation.roles.group import Group
from replay.simulation.setup import Setup
from schemas.messages import Status

T = TypeVar("T")

CHUNKS = 2  # of requests drawn at once, which are longer than the histogram


class Senses:
    """Fed by the others as they go; asked once a plan."""

    def __init__(
        self,
        agenda: Agenda,
        setup: Setup,
        groups: dict[str, Group],
        tally: Tally,
        arrivals_ms: np.ndarray,
        is_batch: np.ndarray | None = None,
    ) -> None:
        """`is_batch`: bool, one a request: it is not seen until it leaves the batch lane; None: all are."""
        self._agenda, self._setup = agenda, setup
        self._groups, self._tally, self._arrivals_ms = groups, tally, arrivals_ms
        self._drawn: deque[tuple[int, Draws]] = deque(maxlen=CHUNKS)  # with the number of their first request
        self._scores: defaultdict[tuple[str, str], deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=SCORES)
        )
        self._sent: Counter[str] = Counter()  # jobs of each variant until the plan before
        self._looked_ms = agenda.now_ms
        self._entered: deque[float] | None = deque() if setup.timing.hops.arrive else None  # arrivals, once classified
        self._is_seen = None if is_batch is None else ~is_batch
        self._tiers: deque[str] = deque(maxlen=PROMPTS)
        self._ends: deque[tuple[float, int, int]] = deque([(agenda.now_ms, 0, 0)])  # at each plan: ended, in time

    def on_drawn(self, first: int, draws: Draws) -> None:
        """The requests from this number on are these; they have not arrived yet."""
        self._drawn.append((first, draws))

    def before(self, action: Callable[[Job], None]) -> Callable[[Job], None]:
        """The action upon a request that was classified: where that takes time, it is seen only then."""
        entered = self._entered
        if entered is None:
            return action

        def seen(job: Job) -> None:
            entered.append(job.arrived_ms)
            action(job)

        return seen

    def on_classified(self, job: Job) -> None:
        """A request with a tier of its own is on its way to the router."""
        self._tiers.append(job.tier)
        if self._is_seen is not None:
            self._is_seen[job.number] = True

    def on_over_quota(self, job: Job) -> None:
        """A request with a tier of its own was refused, as no plan could serve it: it is no demand."""
        if self._is_seen is not None:
            self._is_seen[job.number] = False
        if self._entered and job.arrived_ms in self._entered:  # else it is longer ago than anybody looks back
            self._entered.remove(job.arrived_ms)
        if job.tier in self._tiers:
            self._tiers.remove(job.tier)

    def on_scored(self, job: Job, discriminator: str, confidence: float) -> None:
        """A picture was judged."""
        if self._setup.learns:
            self._scores[job.level, discriminator].append((job.draws.hardness[job.row], confidence))

    def observation(self, workers: tuple[WorkerView, ...]) -> Observation:
        """All that is seen now, of these live workers."""
        now_ms, setup, arrived = int(self._agenda.now_ms), self._setup, self._arrived()
        counts = counts_per_second(arrived, now_ms, COUNTS_S)
        return Observation(
            now_ms=now_ms,
            demand_rps=demand_rps(arrived, now_ms, DEMAND_MS),
            hardness=hardness_shares(self._classified(lambda draws: draws.hardness)),
            classes=class_histograms(self._classified(lambda draws: draws.classes)),
            tiers=class_shares(self._tiers) or {ORDINARY: 1.0},
            workers=workers,
            slo_ms=setup.slo_ms,
            forecast_rps=expected_rps(setup.forecast, counts, max(1, round(setup.period_ms / 1000))),
            counts=counts,
            queues=self._queues(),
            deferral=self._deferral(),
            served=self._served(),
        )

    def _classified(self, what: Callable[[Draws], Sequence[T]]) -> list[T]:
        """Of the last requests that have arrived, those apart that are not seen."""
        past, is_seen = self._tally.requests, self._is_seen
        found: list[T] = []
        for first, draws in self._drawn:
            arrived = what(draws)[max(0, past - PROMPTS - first) if is_seen is None else 0 : max(0, past - first)]
            found += arrived if is_seen is None else itertools.compress(arrived, is_seen[first:])
        return found[-PROMPTS:]

    def _arrived(self) -> Sequence[int]:
        """The last minute, or little more. Before 0 the trace is mirrored: a run begins amid traffic, not at rest."""
        now_ms, trace, window_ms = self._agenda.now_ms, self._arrivals_ms, 1000 * COUNTS_S
        if self._entered is None:
            first, past = np.searchsorted(trace, [now_ms - window_ms, now_ms], side="right")
            arrived: list[int] = self._seen(first, past).tolist()
        else:
            while self._entered and self._entered[0] <= now_ms - window_ms:
                self._entered.popleft()
            arrived = sorted(map(int, self._entered))
        if now_ms >= window_ms:
            return arrived
        if self._setup.is_cold:
            return [*(at_ms for at_ms in self._setup.before_ms if at_ms <= now_ms), *arrived]
        mirrored = self._seen(0, np.searchsorted(trace, window_ms - now_ms, side="left"))
        return [*(-mirrored[::-1]).tolist(), *arrived]

    def _seen(self, first: int | np.int64, past: int | np.int64) -> np.ndarray:
        """Arrivals of the requests first .. past - 1, those apart that wait in the batch lane or were over a quota."""
        trace = self._arrivals_ms[first:past]
        return (trace if self._is_seen is None else trace[self._is_seen[first:past]]).astype(np.int64)

    def _queues(self) -> tuple[Queue, ...]:
        seconds = max(0.001, (self._agenda.now_ms - self._looked_ms) / 1000)
        self._looked_ms = self._agenda.now_ms
        queues = []
        for variant, group in sorted(self._groups.items()):
            sent = sum(group.ends)
            queues.append(Queue(variant, group.waiting(), (sent - self._sent[variant]) / seconds))
            self._sent[variant] = sent
        return tuple(queues)

    def _deferral(self) -> tuple[SeenDeferral, ...]:
        bounds = bounds_of(self._setup.catalog)
        return tuple(
            seen_deferral(level, discriminator, scores, bounds)
            for (level, discriminator), scores in sorted(self._scores.items())
        )

    def _served(self) -> Served:
        now_ms, tally, ends = self._agenda.now_ms, self._tally, self._ends
        ended, in_time = tally.ends.total(), tally.ends[Status.COMPLETED] - tally.late
        ends.append((now_ms, ended, in_time))
        while len(ends) > 2 and now_ms - ends[1][0] >= SERVED_MS:
            ends.popleft()
        new = ended - ends[0][1]
        return Served(new, (in_time - ends[0][2]) / new) if new else Served()
