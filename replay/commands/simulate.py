"""`pochade simulate`: policies on a trace, in discrete events, without a broker."""

import math
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and the planner
    from rich.console import Console
    from rich.table import Table

    from replay.simulation.setup import Setup, Timing
    from streams.settings import Settings

FILE = click.Path(dir_okay=False, path_type=pathlib.Path)
POSITIVE = click.FloatRange(min=0, min_open=True)
WIDE = 140  # columns, where no terminal says how many it has
DISPATCHES = click.Choice(["least-work", "random", "pull", "round-robin"])


@click.command(
    epilog="Example: pochade simulate arrivals.csv --policy clipper-light,diffserve-static --workers 16 "
    "--catalog diffserve-sdturbo --slo 5 --report out"
)
@click.argument("trace", type=FILE)
@click.option("--policy", "policies", multiple=True, required=True, metavar="NAME[,NAME...]", help="Simulated in turn.")
@click.option("--workers", type=click.IntRange(1, 100_000), required=True, help="Painting processes.")
@click.option("--catalog", metavar="NAME", help="Variants to paint with, and their profile (default: the setting).")
@click.option("--slo", type=POSITIVE, required=True, help="Seconds within which a request should be answered.")
@click.option("--overprovision", type=POSITIVE, help="Of demand, for policies that plan for it.")
@click.option("--parameter", "parameters", multiple=True, metavar="[POLICY.]NAME=NUMBER", help="Of the policies.")
@click.option("--period", type=POSITIVE, help="Seconds between plans (default: the setting planner.period_ms).")
@click.option("--dispatch", type=DISPATCHES, help="How workers get jobs (default: as the plan says).")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Runs with other draws.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first.")
@click.option("--failures", type=FILE, help="CSV at_s,worker,change: workers that go `down` and come `up`.")
@click.option(
    "--drop/--no-drop", "drops", default=True, help="The SLO is a deadline: what cannot meet it is not begun."
)
@click.option("--load/--no-load", "loads", default=True, help="Changing variant takes the time that loading takes.")
@click.option("--recorded", "is_recorded", is_flag=True, help="Requests are prompts of the profile, not drawn.")
@click.option("--learn/--no-learn", "learns", default=False, help="Plan with the confidences seen (slower).")
@click.option("--report", type=click.Path(file_okay=False, path_type=pathlib.Path), help="Folder of report.json.")
@click.pass_obj
def simulate(load: Any, /, trace: pathlib.Path, report: pathlib.Path | None, **asked: Any) -> None:
    """Run policies on a trace of arrivals, in simulated time, with the decisions of the live pipeline.

    TRACE is a CSV file, plain or gzip, with one column arrival_ms. Confidences, hardness and quality are drawn from
    the catalog's profile. Everything but the planner's own speed is simulated; the same seed gives the same report.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from replay.simulation.session import report_of, write_report
    from replay.simulation.session import simulate as run
    from replay.traces import read_trace

    arrivals_ms = read_trace(trace)
    setups = _setups(load(), asked)
    console, figures, slow = Console(), {}, {}
    if not console.is_terminal:
        console.width = WIDE
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        for setup in setups:
            task = progress.add_task(setup.policy, total=len(arrivals_ms) * asked["seeds"])
            figures[setup.policy], slow[setup.policy] = run(
                setup, arrivals_ms, asked["seeds"], partial(progress.advance, task)
            )
    _show(figures, slow, console)
    if report is not None:
        path = write_report(report_of(trace, arrivals_ms, setups, figures, asked["seeds"]), report)
        console.print(f"report: {path}", highlight=False, soft_wrap=True)


def _setups(settings: "Settings", asked: dict[str, Any]) -> list["Setup"]:
    from planner.policies import named
    from replay.simulation.catalogs import load, recorded
    from replay.simulation.failures import read_failures
    from replay.simulation.session import with_overprovision
    from replay.simulation.setup import Setup

    names = [name.strip() for given in asked["policies"] for name in given.split(",") if name.strip()]
    chosen = asked["catalog"] or settings.catalog
    catalog, setups = load(chosen), []
    prompts = recorded(chosen) if asked["is_recorded"] else None
    for name in dict.fromkeys(names):
        named(name)
        setup = Setup(
            catalog=catalog,
            policy=name,
            workers=asked["workers"],
            slo_ms=1000 * asked["slo"],
            seed=asked["seed"],
            parameters=_parameters(asked["parameters"], name, names),
            period_ms=1000 * asked["period"] if asked["period"] else float(settings.planner.period_ms),
            forecast=settings.planner.forecast,
            learns=asked["learns"],
            dispatch=asked["dispatch"] or "",
            drops=asked["drops"],
            prompts=prompts,
            timing=_timing(settings, loads=asked["loads"]),
        )
        if asked["overprovision"]:
            setup = with_overprovision(setup, asked["overprovision"])
        setups.append(setup)
    if not setups:
        raise PochadeError("--policy names none: give one, or several with commas")
    if asked["failures"]:
        import dataclasses

        outages = read_failures(asked["failures"], setups[0].worker_ids())
        setups = [dataclasses.replace(setup, outages=outages) for setup in setups]
    return setups


def _timing(settings: "Settings", loads: bool) -> "Timing":
    from planner.backlog import limit_ms
    from replay.simulation.setup import Timing

    return Timing(
        beat_ms=settings.worker.heartbeat_ms,
        silent_ms=settings.planner.worker_silent_ms,
        session_ms=settings.kafka.session_timeout_ms,
        grace_ms=1000 * settings.ledger.grace_s,
        most_backlog_ms=limit_ms(settings.admission.max_backlog_s, "standard", settings.admission.interactive_headroom),
        max_attempts=settings.worker.max_attempts,
        loads=loads,
    )


def _parameters(given: Sequence[str], policy: str, policies: Sequence[str]) -> dict[str, float]:
    """Those of one policy: without a policy's name they are all policies'."""
    parameters = {}
    for assignment in given:
        key, _, value = assignment.partition("=")
        owner, _, name = key.rpartition(".")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            raise PochadeError(f"--parameter must be [POLICY.]NAME=NUMBER: got {assignment!r}")
        if owner and owner not in policies:
            raise PochadeError(
                f"--parameter {assignment!r} is of a policy that is not simulated: {', '.join(policies)}"
            )
        if owner in ("", policy):
            parameters[name] = number
    return parameters


def _show(figures: dict[str, dict[str, Any]], solver_s: dict[str, float], console: "Console") -> None:
    console.print(_table(figures, solver_s))


def _table(figures: dict[str, dict[str, Any]], solver_s: dict[str, float]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("policy", "requests", "violations", "quality", "heavy", "p50 s", "p99 s", "busy", "plans", "switches"):
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    table.add_column("planning s", justify="right", no_wrap=True)
    for policy, row in figures.items():
        latency = row["latency_s"]
        judged = f"FID {row['fid']:.2f}" if row["fid"] is not None else _told(row["quality"], "{:.4f}")
        table.add_row(
            policy, f"{row['requests']:.0f}", _told(row["violation_rate"], "{:.2%}"), judged,
            _told(row["heavy_share"], "{:.1%}"), _told(latency["p50"], "{:.2f}"), _told(latency["p99"], "{:.2f}"),
            _told(row["utilization"], "{:.0%}"), f"{row['plans']:.0f}", f"{row['switches']:.0f}",
            f"{solver_s[policy]:.1f}",
        )  # fmt: skip
    return table


def _told(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
