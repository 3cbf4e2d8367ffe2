"""A live run as the simulator's own record of one, so that every figure is counted by the same formula."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from planner.catalog.model import Catalog
from planner.observation.workers import GONE
from planner.serving.ending.outcomes import as_score
from replay.load.clock import TraceClock
from replay.load.record.history import History
from replay.load.record.request_records import RequestRecord, observed
from replay.simulation.job import Job
from replay.simulation.overrides import metrics_for, requested_overrides
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.results.timeline import Timeline
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.run import Ran
from replay.simulation.setup import Setup
from replay.traces.trace import Trace
from schemas.messages import Heartbeat, Plan, Result, Status
from streams.operator.explain import steps_of

Beat = tuple[float, Heartbeat]
"""Ms since the start of the trace."""


def ran_of(history: History, seen: Sequence[RequestRecord], setup: Setup, trace: Trace) -> Ran:
    """Return the live run as the simulator's run. Times are the trace's: a request counts from its arrival there.

    The order of completions, their levels and drafts are the run's; quality, which was not measured, is the catalog's
    for the level, hardness and confidence.
    """
    arrival_ms, wishes = trace.arrival_ms, requested_overrides(trace, setup.catalog, setup.quotas, setup.features)
    clock = TraceClock(arrival_ms, history.published.created_ms)
    beats = [(clock(at_ms), beat) for at_ms, beat in history.beats]
    tally = metrics_for(wishes, setup.slo_ms, arrival_ms)
    tally.requests = len(arrival_ms)
    draws = observed(seen, setup.catalog)(0, len(arrival_ms))
    judges = _boards(history.plans, setup.catalog)
    ended_ms = 0.0
    for number in sorted(history.results, key=lambda n: _end_ms(arrival_ms, n, history.results[n])):
        result = history.results[number]
        ended_ms = max(ended_ms, _end_ms(arrival_ms, number, result))
        new = partial(wishes.job if wishes else Job, number, result.request_id, float(arrival_ms[number]), None)
        _count(tally, result, judges, _generated(new(draws, number), result))
    tally.end_span()
    lives = _lives(beats, ended_ms)
    _sample(tally.timeline, beats, ended_ms)
    return Ran(
        setup=setup,
        tally=tally,
        ended_ms=ended_ms,
        busy_ms=float(sum(result.generate_ms for result in history.results.values())),
        lives=tuple(lives),
        plans=tuple(_at(plan, clock) for plan in history.plans),
        failures=0,
        switches=_switches(beats),
        solver_s=0.0,
    )


def _end_ms(arrival_ms: np.ndarray, number: int, result: Result) -> float:
    return float(arrival_ms[number]) + (result.latency_ms or 0)


def _boards(plans: Iterable[Plan], catalog: Catalog) -> dict[int, PlanState]:
    boards = {plan.version: PlanState(catalog) for plan in plans}
    for plan in plans:
        boards[plan.version].obey(plan)
    return boards


def _generated(job: Job, result: Result) -> Job:
    steps = steps_of(result)
    if steps:
        job.level, job.step = steps[-1].level, steps[-1].refine_from_step
    if len(steps) > 1:
        job.draft = steps[-2].level, steps[-2].refine_from_step
    return job


def _count(tally: RunMetrics, result: Result, boards: Mapping[int, PlanState], job: Job) -> None:
    if result.status is not Status.COMPLETED:
        tally.ended(result.status, job, result.code)
        return
    tally.escalated += job.draft is not None
    is_judged = result.confidence is not None and result.threshold is not None
    job.is_rejected = is_judged and as_score(result.confidence) < (result.threshold or 0.0)
    board = boards.get(result.plan_version or 0)
    judges = board.judges(job.level) if board else None
    tally.completed(job, job.level, job.step, judges, job.arrived_ms + (result.latency_ms or 0))


def _at(plan: Plan, clock: TraceClock) -> Plan:
    return replace(plan, created_ms=round(clock(plan.created_ms)))


def _by_worker(beats: Iterable[Beat]) -> dict[str, list[Beat]]:
    by_worker: defaultdict[str, list[Beat]] = defaultdict(list)
    for at_ms, beat in beats:
        by_worker[beat.worker_id].append((at_ms, beat))
    return by_worker


def _lives(beats: Iterable[Beat], ended_ms: float) -> list[tuple[float, float]]:
    """Lifetime of each worker, from its first heartbeat to its last, or to the end of the run where it went on."""
    lives = []
    for own in _by_worker(beats).values():
        last_ms, last = own[-1]
        start_ms, stop_ms = max(0.0, own[0][0]), last_ms if last.state in GONE else max(last_ms, ended_ms)
        if start_ms < min(stop_ms, ended_ms):
            lives.append((start_ms, min(stop_ms, ended_ms)))
    return lives


def _switches(beats: Iterable[Beat]) -> int:
    """Changes of a worker's variant after the first request."""
    variants = [
        [beat.variant for at_ms, beat in own if at_ms >= 0 and beat.variant] for own in _by_worker(beats).values()
    ]
    return sum(before != after for own in variants for before, after in itertools.pairwise(own))


def _sample(timeline: Timeline, beats: Sequence[Beat], ended_ms: float) -> None:
    """Sample the work that waited per worker, by the newest heartbeats at each moment."""
    remaining: dict[str, float] = {}
    at = 0
    for now_ms in np.arange(0.0, ended_ms, timeline.sample_ms).tolist():
        while at < len(beats) and beats[at][0] <= now_ms:
            beat = beats[at][1]
            remaining[beat.worker_id] = float(sum(each.remaining_ms for each in beat.partitions))
            at += 1
        timeline.sampled(now_ms, sum(remaining.values()) / max(1, len(remaining)))
