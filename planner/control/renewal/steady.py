"""Decides whether demand and fleet are still what the last solution was made for, so that none is needed now.

A solution of `joint` costs some 60 ms of CPU, and at a constant load each period ends with the plan in force. Policies
that ask for it (`PolicyTerms.on_change`) are asked again if something has changed beyond chance, and once in REST_MS.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from planner.observation.observation import COUNTS_S, Observation
from planner.observation.workers import SERVING
from schemas.messages import Expected

REST_MS: Final = 60_000  # longest time between two solutions: what is learned from results comes in by then
REST_SHARE: Final = 0.25  # of the time that a plan has stood so far: the longer, the longer it may rest
RECENT_S: Final = 5  # of a window in which a jump shows that the time since the last solution would hide
DEVIATIONS: Final = 2.5  # of Poisson's noise, by which arrivals may differ from the expected ones
BACKLOG_SHARE: Final = 0.1  # of the SLO, by which the mean backlog of a worker may differ
IN_TIME: Final = 0.99  # share of the results of the last minute; with less the plan is not as expected
ROOM: Final = 0.6  # busy share of the busiest workers, above which each period is planned for
UNANSWERED: Final = 0.05  # share of lookups, by which it may differ
assert REST_MS <= 1000 * COUNTS_S, "all arrivals since the last solution must be in the observation"


class Solved(NamedTuple):
    """What the last solution was made for."""

    version: int  # of the plan that it left in force
    at_ms: int
    demand_rps: float
    utilization: float  # expected of the busiest workers
    backlog_ms: float  # mean of the workers
    fleet: tuple[tuple[str, bool, str, str], ...]  # (id, whether it serves, variant served, its home) of each worker
    unanswered: float  # share of lookups of stored latents without an answer in time


def solved_for(seen: Observation, version: int, expected: Expected | None) -> Solved:
    """Return what a solution for this observation was made for; without an expectation it has no room."""
    rps, busy = (expected.demand_rps, expected.utilization) if expected else (seen.planning_rps, 1.0)
    fleet = tuple((w.worker_id, w.state in SERVING, w.variant, w.home) for w in seen.workers)
    unanswered = max(seen.reuse.failing, seen.reuse.unanswered) if seen.reuse else 0.0
    return Solved(version, seen.now_ms, rps, busy, _backlog_ms(seen), fleet, unanswered)


def is_steady(last: Solved, seen: Observation) -> bool:
    """Whether an observation differs from what the last solution was made for by chance alone.

    It is not steady while requests wait for a variant or end late, or any need components: their demand changes with
    time alone.
    """
    elapsed_s = math.ceil((seen.now_ms - last.at_ms) / 1000)
    rest_ms = min(REST_MS, REST_SHARE * (last.at_ms - seen.in_force.created_ms)) if seen.in_force else 0
    if not 0 < 1000 * elapsed_s <= rest_ms or len(seen.counts) < elapsed_s or last.utilization > ROOM:
        return False
    is_known = not (seen.needs or any(seen.unserved.values()))
    is_known = is_known and not (seen.components and seen.components.demand)
    is_in_time = seen.served.in_time is None or seen.served.in_time >= IN_TIME
    now = solved_for(seen, last.version, None)
    is_alike = now.fleet == last.fleet and abs(now.backlog_ms - last.backlog_ms) <= BACKLOG_SHARE * seen.slo_ms
    is_alike = is_alike and abs(now.unanswered - last.unanswered) <= UNANSWERED
    windows = {elapsed_s, min(RECENT_S, elapsed_s)}
    return is_known and is_in_time and is_alike and all(_is_chance(seen.counts[-s:], last.demand_rps) for s in windows)


def _is_chance(counts: Sequence[int], rps: float) -> bool:
    expected = rps * len(counts)
    return abs(sum(counts) - expected) <= DEVIATIONS * math.sqrt(max(1.0, expected))


def _backlog_ms(seen: Observation) -> float:
    return sum(worker.remaining_ms for worker in seen.workers) / max(1, len(seen.workers))
