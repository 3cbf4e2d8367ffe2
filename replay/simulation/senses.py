"""What the planner sees of the simulated pipeline: the `Observation` that `agents/plan_sources.py` makes of topics."""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence

import numpy as np

from planner.arrivals import counts_per_second
from planner.catalogs.bands import bounds_of
from planner.deferral_seen import SeenDeferral, seen_deferral
from planner.forecast import expected_rps
from planner.observation import (
    Observation,
    Queue,
    Served,
    WorkerView,
    class_shares,
    demand_rps,
    hardness_shares,
)
from replay.simulation.agenda import Agenda
from replay.simulation.board import Board
from replay.simulation.group import Group
from replay.simulation.job import Job
from replay.simulation.setup import Setup
from replay.simulation.tally import Tally
from schemas.messages import Status

DEMAND_MS = 30_000  # over which arrivals are counted. Source: agents/plan_window.py, as are the others
COUNTS_S = 60  # of which a forecast is made
HISTOGRAM = 1000  # prompts. Source: ARGUS 4.3
SCORES = 4000  # a level
SERVED_MS = 60_000


class Senses:
    """Fed by the others as they go; asked once a plan."""

    def __init__(
        self,
        agenda: Agenda,
        board: Board,
        setup: Setup,
        groups: dict[str, Group],
        tally: Tally,
        arrivals_ms: np.ndarray,
    ) -> None:
        self._agenda, self._board, self._setup = agenda, board, setup
        self._groups, self._tally, self._arrivals_ms = groups, tally, arrivals_ms
        self._hardness: deque[float] = deque(maxlen=HISTOGRAM)
        self._classes: deque[dict[str, str]] = deque(maxlen=HISTOGRAM)
        self._scores: defaultdict[tuple[str, str], deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=SCORES)
        )
        self._sent: Counter[str] = Counter()  # jobs of each variant until the plan before
        self._looked_ms = agenda.now_ms
        self._ends: deque[tuple[float, int, int]] = deque([(agenda.now_ms, 0, 0)])  # at each plan: ended, in time

    def on_classified(self, job: Job) -> None:
        """A prompt has arrived."""
        self._hardness.append(job.draws.hardness[job.row])
        self._classes.append(job.draws.classes[job.row])

    def on_scored(self, job: Job, discriminator: str, confidence: float) -> None:
        """A picture was judged."""
        if self._setup.learns:
            self._scores[job.level, discriminator].append((job.draws.hardness[job.row], confidence))

    def observation(self, workers: tuple[WorkerView, ...]) -> Observation:
        """All that is seen now, of these live workers."""
        now_ms, setup, arrived = int(self._agenda.now_ms), self._setup, self._arrived()
        strategy = self._board.before.strategy if self._board.before else "models"
        counts = counts_per_second(arrived, now_ms, COUNTS_S)
        return Observation(
            now_ms=now_ms,
            demand_rps=demand_rps(arrived, now_ms, DEMAND_MS),
            hardness=hardness_shares(list(self._hardness)),
            classes=class_shares([labels.get(strategy, "") for labels in self._classes]),
            workers=workers,
            slo_ms=setup.slo_ms,
            forecast_rps=expected_rps(setup.forecast, counts, max(1, round(setup.period_ms / 1000))),
            counts=counts,
            queues=self._queues(),
            deferral=self._deferral(),
            served=self._served(),
        )

    def _arrived(self) -> Sequence[int]:
        """The last minute. Before 0 the trace is mirrored: a run begins in the midst of traffic, not at rest."""
        now_ms, trace, window_ms = self._agenda.now_ms, self._arrivals_ms, 1000 * COUNTS_S
        first, past = np.searchsorted(trace, [now_ms - window_ms, now_ms], side="right")
        arrived: list[int] = trace[first:past].astype(np.int64).tolist()
        if now_ms >= window_ms:
            return arrived
        mirrored = trace[: np.searchsorted(trace, window_ms - now_ms, side="left")]
        return [*(-mirrored[::-1].astype(np.int64)).tolist(), *arrived]

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
