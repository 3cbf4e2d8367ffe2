"""One run: a trace through one simulated deployment, until every request has ended."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replay.simulation.agenda import Agenda
from replay.simulation.board import Board
from replay.simulation.drawn import Drawn
from replay.simulation.fleet import Fleet
from replay.simulation.job import Draws, Job
from replay.simulation.judge import Judge
from replay.simulation.planning import PlannerLoop
from replay.simulation.pulse import Pulse
from replay.simulation.recorded import Recorded
from replay.simulation.router import Router
from replay.simulation.senses import Senses
from replay.simulation.serving import Serving
from replay.simulation.setup import Outage, Setup
from replay.simulation.tally import Tally
from replay.simulation.times import CallTimes

WARM_UP_MS = 1000.0  # before 0, for the first plan and heartbeats: a run begins with workers that are ready
MISSED_MS = 200.0  # after a worker is silent, until the planner has looked. Source: agents/planning.py
STEP_MS = 1000.0  # of the clock, when nothing arrives any more
PATIENCE_MS = (
    600_000.0  # without any end, after the last arrival: what is open then waits for a worker that never comes
)

CHUNK = 8192  # requests drawn at once

Source = Callable[[int, int], Draws]
"""(first, count) -> the draws of the requests first .. first + count - 1."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run left behind."""

    setup: Setup
    tally: Tally
    ended_ms: float  # of the last request
    busy_ms: float  # workers painting
    up_ms: float  # workers alive, until the last request ended
    plans: int
    failures: int  # of the policy to make one
    switches: int
    solver_s: float  # wall time of planning


def _source(setup: Setup) -> Source:
    if setup.prompts is None:
        return Drawn(setup.catalog, setup.seed)
    return Recorded(setup.catalog, setup.prompts, setup.seed)


class Simulation:
    """A deployment wired up; `run` once."""

    def __init__(self, setup: Setup, arrivals_ms: np.ndarray, source: Source | None = None) -> None:
        self._setup, self._arrivals_ms = setup, arrivals_ms
        self._source = source or _source(setup)
        agenda, board, timing, catalog = Agenda(-WARM_UP_MS), Board(), setup.timing, setup.catalog
        times, self.tally = CallTimes(catalog), Tally(setup.slo_ms)
        self._pulse = pulse = Pulse(agenda, timing, times)
        serving = Serving(agenda, board, catalog, timing, times, self.tally)
        self._fleet = Fleet(agenda, board, catalog, timing, pulse, serving, self.tally)
        self._router = Router(agenda, board, self._fleet, pulse, timing, times, catalog, self.tally)
        self._senses = Senses(agenda, board, setup, pulse.groups, self.tally, arrivals_ms)
        judge = Judge(agenda, board, self._fleet, pulse, timing, times, catalog, self.tally)
        judge.on_scored = self._senses.on_scored
        serving.on_pictures = judge.on_pictures
        self._planner = PlannerLoop(agenda, board, setup, self._fleet, pulse, self._senses)
        self._agenda = agenda

    def run(self, on_progress: Callable[[int], object] = lambda _requests: None) -> Ran:
        """Serve the whole trace; `on_progress` is told now and then how many requests have arrived since."""
        for worker_id in self._setup.worker_ids():
            self._fleet.start(worker_id)
        self._planner.start()
        for outage in self._setup.outages:
            self._agenda.at(outage.at_ms, self._on_outage, outage)
        for first in range(0, len(self._arrivals_ms), CHUNK):
            arrivals = self._arrivals_ms[first : first + CHUNK].tolist()
            self._serve(first, arrivals)
            on_progress(len(arrivals))
        return self._ran(self._finish())

    def _serve(self, first: int, arrivals_ms: list[float]) -> None:
        agenda, setup, router, senses, tally = self._agenda, self._setup, self._router, self._senses, self.tally
        draws, advance = self._source(first, len(arrivals_ms)), agenda.advance
        for row, at_ms in enumerate(arrivals_ms):
            advance(at_ms)
            number = first + row
            deadline_ms = at_ms + setup.slo_ms if setup.drops else None
            job = Job(number, f"{setup.seed}-{number}", at_ms, deadline_ms, draws, row)
            tally.requests += 1
            senses.on_classified(job)
            router.take(job)

    def _finish(self) -> float:
        """After the last arrival; when the last request ended."""
        agenda, tally = self._agenda, self.tally
        ended, ended_ms = tally.ends.total(), agenda.now_ms
        while tally.open and agenda.now_ms - ended_ms < PATIENCE_MS:
            agenda.advance(agenda.now_ms + STEP_MS)
            if tally.ends.total() > ended:
                ended, ended_ms = tally.ends.total(), agenda.now_ms
        tally.end_span()
        return ended_ms

    def _on_outage(self, outage: Outage) -> None:
        if outage.is_up:
            self._fleet.start(outage.worker_id)
            self._planner.look()
        else:
            self._fleet.stop(outage)
            gone_ms = outage.at_ms + self._setup.timing.silent_ms + MISSED_MS
            self._agenda.at(gone_ms, PlannerLoop.look, self._planner)

    def _ran(self, ended_ms: float) -> Ran:
        processes = self._fleet.all
        up_ms = sum((p.stopped_ms if p.stopped_ms >= 0 else ended_ms) - max(0.0, p.started_ms) for p in processes)
        return Ran(
            setup=self._setup,
            tally=self.tally,
            ended_ms=ended_ms,
            busy_ms=sum(p.busy_ms for p in processes),
            up_ms=up_ms,
            plans=self._planner.published,
            failures=len(self._planner.failures),
            switches=self._fleet.switches,
            solver_s=self._planner.solver_s,
        )
