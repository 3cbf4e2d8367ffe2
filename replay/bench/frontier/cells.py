"""One cell as a `pochade bench simulate` command, which is run from the arguments that are printed."""

import os
import pathlib
import shlex
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from replay.bench.commands.bench_simulate import change_of
from replay.bench.commands.bench_simulate import simulate as command
from replay.bench.frontier.grid import GridCell, fleet_of, truth_of
from replay.commands.trace_options import TraceGiven
from replay.simulation import session
from replay.simulation.asked import setups_of
from replay.simulation.results.figures import figures_of
from replay.traces import Trace
from streams.catalogs import measured
from streams.settings import Settings

RECORDED_FIGURES = (
    "requests", "completed", "violations", "violation_rate", "quality", "quality_optimistic", "quality_run",
    "quality_run_optimistic", "heavy_share", "rejected", "utilization", "switches", "plans", "plan_failures",
)  # fmt: skip
"""Figures of a cell that are kept."""

Figures = dict[str, float]


def arguments_of(cell: GridCell, trace: pathlib.Path, scale: float, limit: int | None = None) -> list[str]:
    """Return what follows `pochade bench simulate` to run the cell, whose trace lies in this file."""
    fleet = fleet_of(cell.catalog)
    given = [str(trace), "--scale", f"{scale:g}"]
    given += ["--limit", str(limit)] if limit else []
    given += ["--catalog", cell.catalog, "--workers", str(fleet.workers), "--slo", f"{fleet.slo_s:g}"]
    given += ["--period", "5", "--policy", cell.policy]
    for name, value in cell.parameters:
        given += ["--parameter", f"{cell.policy}.{name}={value:g}"]
    for aspect in truth_of(fleet, cell.truth):
        given += ["--truth", aspect]
    return [*given, "--redraw-arrivals", "--seed", str(cell.seed)]


def command_of(arguments: Sequence[str]) -> str:
    """Return the one line that runs a cell again."""
    return shlex.join(["pochade", "bench", "simulate", *arguments])


def run(arguments: Sequence[str]) -> Figures:
    """Run a cell and return its figures, and `cpu_s`: CPU time of the run in s. Raises what the command raises."""
    began_s = _cpu_s()
    asked = command.make_context("simulate", list(arguments)).params
    given = {field.name: asked[field.name] for field in fields(TraceGiven)}
    trace = _trace(tuple(sorted(given.items())))
    [setup] = setups_of(Settings(), measured(asked["catalog"]), asked)
    [ran] = session.simulate(change_of(asked)(setup), trace, asked["seeds"], lambda _requests: None)
    figures = figures_of(ran)
    found = {name: float(figures[name]) for name in RECORDED_FIGURES if figures[name] is not None}
    return found | {"cpu_s": round(_cpu_s() - began_s, 3)}


@lru_cache(maxsize=8)
def _trace(given: tuple[tuple[str, Any], ...]) -> Trace:
    return TraceGiven(**dict(given)).open(Settings)


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
