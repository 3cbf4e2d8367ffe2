"""A simulated fleet that grows and shrinks by the planner's own object and the supervisor's own decisions."""

import numpy as np

from planner.scaling.fleet import ScaleRules
from replay.simulation.results.figures import figures_of
from replay.simulation.run import Ran
from replay.simulation.setup import Setup
from schemas.messages import Status
from tests.replay.simulation.runs import a_setup, ran

RULES = {"max_workers": 16, "period_ms": 1000.0, "start_ms": 4000.0}


def scaled(workers: int, warm: int = 0, **changes: float) -> Setup:
    scale = ScaleRules(**(RULES | {"warm": warm} | changes))  # type: ignore[arg-type]
    return a_setup(policy="octoai", workers=workers, slo_ms=4000.0, period_ms=1000.0, scale=scale)


def poisson(*spans: tuple[float, float], seed: int = 1) -> np.ndarray:
    """Arrivals of Poisson rates, (requests a second, seconds) after each other."""
    rng, found, begun_s = np.random.default_rng(seed), [], 0.0
    for rate_rps, seconds in spans:
        found.append(np.sort(rng.uniform(begun_s, begun_s + seconds, rng.poisson(rate_rps * seconds))))
        begun_s += seconds
    return 1000 * np.concatenate(found)


def in_time(run: Ran) -> float:
    return 1 - run.tally.violations / run.tally.requests


def test_a_burst_is_met_by_more_workers_and_the_pool_is_what_serves_it_in_time() -> None:
    arrivals_ms = poisson((6, 30), (40, 30), (6, 60))  # heavy takes 200 ms: 2 workers serve 10 a second, 8 the burst
    fixed = ran(a_setup(policy="octoai", workers=2, slo_ms=4000.0), arrivals_ms)
    without, with_pool = ran(scaled(2), arrivals_ms), ran(scaled(2, warm=6), arrivals_ms)
    assert in_time(fixed) < 0.6 < in_time(without) < in_time(with_pool)
    assert in_time(with_pool) > 0.93
    assert (fixed.scale, "scale" in figures_of(fixed)) == ({}, False)
    figures = figures_of(with_pool)["scale"]
    assert 8 < figures["workers_mean"] < figures["workers_most"] <= 16
    assert figures["started"] >= 5
    assert figures["drained"] > 0


def test_nothing_is_lost_where_workers_come_and_go_and_the_fleet_goes_to_zero_and_back() -> None:
    arrivals_ms = poisson((6, 20), (0.0, 250), (6, 40))
    run = ran(scaled(2), arrivals_ms)
    assert run.tally.ends.total() == run.tally.requests == len(arrivals_ms)
    assert run.tally.ends[Status.FAILED] == run.tally.retried == 0
    targets = [sum(plan.scale.targets.values()) for plan in run.plans if plan.scale]
    assert targets[0] == 2
    assert 0 in targets
    assert targets[-1] > 0
    assert run.tally.ends[Status.COMPLETED] >= 0.85 * run.tally.requests


def test_at_constant_load_the_fleet_changes_at_most_once_in_ten_minutes() -> None:
    run = ran(scaled(8, period_ms=10_000.0), poisson((24, 600)))
    assert run.scale["target_changes"] <= 1
