"""Does a fleet that grows and shrinks meet a burst, with and without a warm pool, and is it still at constant load?

In simulation, with the planner's scaling and the decisions of `pochade scale`. Source of the questions: OctoAI, "Stable
Diffusion at scale" (2023): automatic scaling, warm pooling, pull-based routing. Baselines: a fleet that stays as it is
and costs as many worker-seconds, and a load balancer that pushes in turn or at random.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.scaling.fleet import ScaleRules
from replay.bench.environment.figures import met
from replay.bench.papers.runs.names import OCTOAI, PUSHED
from replay.reports.intervals import interval
from replay.simulation.draws.run_times import Variation
from replay.simulation.run import Ran, Simulation
from replay.simulation.setup import FIXED, Setup

TARGETS: Final = {
    "in_time_with_pool": (">=", 0.9),
    "ahead_of_fixed": (">=", 0.0),
    "target_changes_at_constant_load": ("<=", 1.0),
}
PLAN_MS: Final = 1000.0  # between plans
QUANTILES: Final = (0.5, 0.9, 0.99)
UNLIKE: Final = 1.0  # coefficient of variation of run times, of jobs whose steps and sizes differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of the bench."""

    workers: int = 8  # that serve at the start
    busy: float = 0.6  # share of their time, before and after the burst
    times: float = 8.0  # the burst's rate, by that before it
    before_s: float = 120.0
    burst_s: float = 60.0
    after_s: float = 600.0
    steady_s: float = 600.0  # of constant load
    max_workers: int = 64
    warm: int = 8
    period_s: float = 2.0  # of scaling
    start_s: float = 20.0  # until a worker that is started anew is in the pool
    slo_s: float = 5.0
    seeds: int = 3


def run(catalog: Catalog, asked: Asked, note: Callable[[str], object]) -> dict[str, Any]:
    """Run all questions over the seeds, and return the figures."""
    note(f"burst: {asked.seeds} seeds, with a pool of {asked.warm}, without, and a fleet of equal worker-seconds")
    bursts = [_burst(catalog, asked, seed) for seed in range(asked.seeds)]
    note(f"constant load: {asked.steady_s:g} s")
    steady = [_steady(catalog, asked, seed) for seed in range(asked.seeds)]
    note("jobs of unlike length: pulled, pushed in turn, pushed at random")
    figures = {name: [burst[name] for burst in bursts] for name in bursts[0]}
    ahead = [a["in_time"] - b["in_time"] for a, b in zip(figures["pool"], figures["fixed"], strict=True)]
    reached = {
        "in_time_with_pool": statistics.fmean(each["in_time"] for each in figures["pool"]),
        "ahead_of_fixed": statistics.fmean(ahead),
        "target_changes_at_constant_load": max(steady),
    }
    return {
        "burst": {name: _means(rows) for name, rows in figures.items()},
        "ahead_of_fixed": _mean(ahead),
        "target_changes_at_constant_load": steady,
        "latency_s_of_unlike_jobs": _dispatch(catalog, asked),
        "targets": met(reached, TARGETS),
    }


def arrivals_of(spans: Sequence[tuple[float, float]], seed: int) -> np.ndarray:
    """Return the arrival times in ms of a Poisson process: (requests a second, seconds), one span after the other."""
    rng, found, begun_s = np.random.default_rng(seed), [], 0.0
    for rate_rps, seconds in spans:
        found.append(np.sort(rng.uniform(begun_s, begun_s + seconds, rng.poisson(rate_rps * seconds))))
        begun_s += seconds
    return 1000 * np.concatenate(found)


def _rate_rps(catalog: Catalog, asked: Asked) -> float:
    return asked.busy * asked.workers * 1000 / run_ms(catalog.best(), 1)


def _setup(catalog: Catalog, asked: Asked, seed: int, warm: int) -> Setup:
    scale = ScaleRules(
        max_workers=asked.max_workers, warm=warm, period_ms=1000 * asked.period_s, start_ms=1000 * asked.start_s
    )
    return Setup(
        catalog=catalog, policy=OCTOAI, workers=asked.workers, slo_ms=1000 * asked.slo_s, period_ms=PLAN_MS,
        seed=seed, scale=scale,
    )  # fmt: skip


def _burst(catalog: Catalog, asked: Asked, seed: int) -> dict[str, dict[str, float]]:
    rate = _rate_rps(catalog, asked)
    arrivals_ms = arrivals_of(
        [(rate, asked.before_s), (asked.times * rate, asked.burst_s), (rate, asked.after_s)], seed
    )
    pool, none = (Simulation(_setup(catalog, asked, seed, warm), arrivals_ms).run() for warm in (asked.warm, 0))
    count = max(1, math.ceil(pool.up_ms / pool.ended_ms))
    alike = replace(_setup(catalog, asked, seed, 0), workers=count, scale=FIXED)
    runs = {"pool": pool, "no_pool": none, "fixed": Simulation(alike, arrivals_ms).run()}
    return {name: _figures(ran) for name, ran in runs.items()}


def _figures(ran: Ran) -> dict[str, float]:
    p99_ms = ran.tally.latencies.quantile(0.99)
    return {
        "in_time": round(1 - ran.tally.violations / ran.tally.requests, 4),
        "p99_s": math.nan if p99_ms is None else round(p99_ms / 1000, 2),
        "worker_s": round(ran.up_ms / 1000),
        "workers_mean": round(ran.up_ms / ran.ended_ms, 2),
        "cold_starts": ran.scale.get("started", 0.0),
        "target_changes": ran.scale.get("target_changes", 0.0),
    }


def _steady(catalog: Catalog, asked: Asked, seed: int) -> float:
    """Changes of the workers that should serve, at a load that those of the start are for."""
    arrivals_ms = arrivals_of([(_rate_rps(catalog, asked), asked.steady_s)], seed)
    return Simulation(_setup(catalog, asked, seed, asked.warm), arrivals_ms).run().scale["target_changes"]


def _dispatch(catalog: Catalog, asked: Asked) -> dict[str, dict[str, float]]:
    """Return p50, p90, p99 of a fleet of constant size, by dispatch; run times vary by UNLIKE."""
    best = catalog.best().name
    arrivals_ms = arrivals_of([(0.8 / asked.busy * _rate_rps(catalog, asked), asked.before_s)], 0)
    setup = replace(
        _setup(catalog, asked, 0, 0), scale=FIXED, drops=False, variation=Variation(run_cv={best: {1: UNLIKE}})
    )
    ways = {
        "pull": setup,
        "round_robin": replace(setup, policy=PUSHED),
        "random": replace(setup, policy=PUSHED, parameters={"random": 1.0}),
    }
    found = {}
    for name, each in ways.items():
        latencies = Simulation(each, arrivals_ms).run().tally.latencies
        found[name] = {f"p{round(100 * q)}": round((latencies.quantile(q) or 0.0) / 1000, 3) for q in QUANTILES}
    return found


def _means(rows: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
    return {name: _mean([row[name] for row in rows]) for name in rows[0]}


def _mean(values: Sequence[float]) -> dict[str, Any]:
    """The mean, with its 95 % interval by Student's t where there are several values that differ."""
    mean = {"mean": round(statistics.fmean(values), 4)}
    return mean | {"interval": interval(values)} if len(values) > 1 and min(values) < max(values) else mean
