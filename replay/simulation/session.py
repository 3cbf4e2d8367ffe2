"""Several policies and seeds on one trace: what `pochade simulate` does between its options and its report."""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from planner.observation import Observation
from planner.policies import named
from replay.simulation.figures import Figures, figures_of, over_seeds
from replay.simulation.run import Simulation
from replay.simulation.setup import Setup
from schemas.errors import PochadeError, Unknown

OVERPROVISION = "overprovision"  # the parameter's name in the policies that have it


def with_overprovision(setup: Setup, factor: float) -> Setup:
    """The setup with this over-provisioning; as it was if its policy plans without any."""
    parameters = setup.parameters | {OVERPROVISION: factor}
    try:
        named(setup.policy)(Observation(now_ms=0, demand_rps=0.0), setup.catalog, {}, parameters)
    except Unknown:
        return setup
    return dataclasses.replace(setup, parameters=parameters)


def simulate(
    setup: Setup, arrivals_ms: Sequence[float], seeds: int, on_progress: Callable[[int], object]
) -> tuple[Figures, float]:
    """The figures of a policy over the seeds from the setup's on, and the wall seconds its plans took."""
    trace, solver_s = np.array(arrivals_ms, dtype=np.float64), 0.0
    runs = []
    for seed in range(setup.seed, setup.seed + seeds):
        ran = Simulation(dataclasses.replace(setup, seed=seed), trace).run(on_progress)
        runs.append(figures_of(ran))
        solver_s += ran.solver_s
    return over_seeds(runs), solver_s


def report_of(
    trace: pathlib.Path,
    arrivals_ms: Sequence[float],
    setups: Sequence[Setup],
    policies: Mapping[str, Figures],
    seeds: int,
) -> dict[str, Any]:
    """The report: what was simulated, and what it came to. The same run makes the same bytes."""
    first = setups[0]
    return {
        "trace": {
            "file": trace.name,
            "sha256": hashlib.sha256(trace.read_bytes()).hexdigest(),
            "requests": len(arrivals_ms),
            "seconds": round(arrivals_ms[-1] / 1000, 3),
        },
        "setup": {
            "catalog": first.catalog.name,
            "workers": first.workers,
            "slo_s": first.slo_ms / 1000,
            "period_s": first.period_ms / 1000,
            "forecast": first.forecast,
            "learns": first.learns,
            "recorded": first.prompts is not None,
            "dispatch": first.dispatch or "as planned",
            "drops": first.drops,
            "seeds": seeds,
            "first_seed": first.seed,
            "outages": [dataclasses.asdict(outage) for outage in first.outages],
            "timing": dataclasses.asdict(first.timing),
            "parameters": {setup.policy: setup.parameters for setup in setups},
        },
        "policies": dict(policies),
    }


def write_report(report: Mapping[str, Any], folder: pathlib.Path) -> pathlib.Path:
    """`report.json` in a folder, which is made. Raises PochadeError where it cannot be written."""
    path = folder / "report.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=2) + "\n")
    except OSError as error:
        raise PochadeError(
            f"the report cannot be written to {path}: {error.strerror}; choose another --report"
        ) from None
    return path
