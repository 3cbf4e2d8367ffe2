"""Several policies and seeds on one trace: what `pochade simulate` does between its options and its report."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from planner.observation.observation import Observation
from planner.policies import BASELINE, named
from planner.serving.routing.routing import ANY_BACKLOG_MS
from replay.reports.assembly import demand, entry
from replay.reports.files import VERSION
from replay.simulation.draws.classes import origin_of
from replay.simulation.draws.hop_latencies import NO_LATENCIES
from replay.simulation.draws.repeats import repeats_of
from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.overrides import requested_overrides
from replay.simulation.run import Ran, Simulation
from replay.simulation.setup import Setup, Timing
from replay.simulation.times import CallTimes, LevelTimes
from replay.traces import Trace
from replay.traces.transforms import redrawn
from schemas.errors import Unknown
from schemas.messages import Status

OVERPROVISION = "overprovision"  # the parameter's name in the policies that have it


def with_overprovision(setup: Setup, factor: float) -> Setup:
    """The setup with this over-provisioning; as it was if its policy plans without any."""
    parameters = setup.parameters | {OVERPROVISION: factor}
    try:
        named(setup.policy)(Observation(now_ms=0, demand_rps=0.0), setup.catalog, {}, parameters)
    except Unknown:
        return setup
    return dataclasses.replace(setup, parameters=parameters)


def simulate(setup: Setup, trace: Trace, seeds: int, on_progress: Callable[[int], object]) -> list[Ran]:
    """Return a policy's runs, one per seed from the setup's on. Known hardness counts, the rest is drawn.

    `on_progress`: as `Simulation.run` has it.
    """
    knows, runs = setup.prompts is None and not np.isnan(trace.hardness).all(), []
    recorded = requested_overrides(trace, setup.catalog, setup.quotas, setup.features)
    for seed in range(setup.seed, setup.seed + seeds):
        own, arrived = dataclasses.replace(setup, seed=seed), arrivals_of(setup, trace, seed)
        wishes = recorded.drawn(arrived) if recorded and setup.redraws else recorded
        repeats = repeats_of(arrived)
        source = SyntheticOutcomes(setup.true_catalog, seed, arrived.hardness, repeats) if knows else None
        end_ms = float(trace.arrival_ms[-1])
        run = Simulation(own, arrived.arrival_ms, source, wishes=wishes, repeats=repeats, end_ms=end_ms)
        runs.append(run.run(on_progress))
    return runs


def _timing(timing: Timing) -> dict[str, Any]:
    """Return the times for a report; None for a backlog without limit."""
    times = {name: ms for name, ms in dataclasses.asdict(timing).items() if name != "hops"}
    return {name: None if ms == ANY_BACKLOG_MS else ms for name, ms in times.items()}


def arrivals_of(setup: Setup, trace: Trace, seed: int) -> Trace:
    """Return what arrives in the run of a seed."""
    return redrawn(trace, seed) if setup.redraws else trace


def baseline_of(ran: Ran) -> Setup | None:
    """Return a split by chance that is to cost as much as the run's answers; None where it cannot be computed.

    It has two levels, the cheapest and the best. An answer of one between counts for the part of the way to the best
    that its run time is: with two levels the share is the run's own, with more it is not 0 because the best was unused.
    """
    catalog, completed = ran.setup.catalog, ran.tally.ends[Status.COMPLETED]
    run_ms = LevelTimes(CallTimes(catalog))
    least_ms, most_ms = run_ms[catalog.cheapest().name], run_ms[catalog.best().name]
    if not completed or most_ms <= least_ms:
        return None
    answer_ms = sum(count * run_ms[level] for level, count in ran.tally.levels.items()) / completed
    share = min(1.0, max(0.0, (answer_ms - least_ms) / (most_ms - least_ms)))
    return dataclasses.replace(ran.setup, policy=BASELINE, parameters={"heavy_share": round(share, 2)})


def report_of(trace: Trace, runs: Mapping[str, Sequence[Ran]]) -> dict[str, Any]:
    """Return the report: setup and figures. Equal runs give equal bytes."""
    every = [policy_runs[0] for policy_runs in runs.values()]
    return {
        "version": VERSION,
        "trace": {
            "file": trace.name,
            "sha256": hashlib.sha256(trace.arrival_ms.tobytes()).hexdigest(),  # of what was simulated
            "requests": len(trace),
            "seconds": round(trace.span_ms / 1000, 3),
            "hardness_known": round(float(np.mean(~np.isnan(trace.hardness))), 4),
            **({"spread_within": trace.spread_within} if trace.spread_within else {}),
        },
        "setup": _setup_table(every, len(next(iter(runs.values())))),
        **demand(every[0]),
        "baseline": BASELINE,
        "policies": {policy: entry(policy_runs) for policy, policy_runs in runs.items()},
    }


def _setup_table(every: Sequence[Ran], seeds: int) -> dict[str, Any]:
    """Return what was simulated, for a report; `every`: one run of each policy, which share all but their policies."""
    first = every[0].setup
    return {
        "catalog": first.catalog.name,
        "scale": first.catalog.scale,
        **({"truth": first.true_catalog.name} if first.truth is not None else {}),
        "workers": first.workers,
        "slo_s": first.slo_ms / 1000,
        "period_s": first.period_ms / 1000,
        "forecast": first.forecast,
        "hysteresis": first.hysteresis,
        "learns": first.learns,
        "recorded": first.prompts is not None,
        "classes": origin_of(first.catalog),
        "dispatch": first.dispatch or "as planned",
        "drops": first.drops,
        "sheds": first.sheds,
        "arrivals": "redrawn" if first.redraws else "recorded",
        "seeds": seeds,
        "first_seed": first.seed,
        "outages": [dataclasses.asdict(outage) for outage in first.outages],
        "hops": first.timing.hops != NO_LATENCIES,
        "variation": first.variation.as_table(),
        **({"price_per_hour": first.price_per_hour} if first.price_per_hour else {}),
        **({"scaling": dataclasses.asdict(first.scale)} if first.is_scaled else {}),
        **({"budgets": dataclasses.asdict(first.components.budgets)} if first.components else {}),
        **(
            {
                "eviction": {
                    run.setup.policy: run.setup.components.eviction or "as planned"
                    for run in every
                    if run.setup.components
                }
            }
            if first.components
            else {}
        ),
        "timing": _timing(first.timing),
        "quotas": {tenant: dataclasses.asdict(quota) for tenant, quota in first.quotas.items()},
        "parameters": {run.setup.policy: run.setup.parameters for run in every},
    }
