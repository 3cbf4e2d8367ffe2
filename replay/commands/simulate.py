"""`pochade simulate`: policies on a trace, in discrete events, without a broker."""

import math
import pathlib
import time
from typing import TYPE_CHECKING, Any

import click

from replay.commands import deviations, scaling
from replay.commands.covering import Progress, describe
from replay.commands.given_options import refuse_given
from replay.commands.options import SLO, seed_option
from replay.commands.trace_options import (
    TraceGiven,
    report_reading,
    trace_options,
    with_options,
    without_unknown_components,
)
from streams.as_typed import RepeatableCommand
from streams.commands.known_names import CatalogOption, PolicyOption
from streams.commands.options import FILE, FOLDER, POSITIVE
from streams.extras import OF_REPORTS, need

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and the planner
    from replay.simulation.run import Ran
    from replay.simulation.setup import Setup
    from replay.traces import Trace

WIDE = 140  # columns, where no terminal says how many it has
MAX_FOR_BASELINE = 250_000  # requests; a longer trace would take twice its time
NO_TARGET = "the setting planner.slo_s is 0, and catalog {!r} has no target"
DISPATCHES = click.Choice(["least-work", "least-cost", "random", "pull", "round-robin"])


@click.command(
    cls=RepeatableCommand,
    epilog="\b\nExamples:\n"
    "  pochade simulate arrivals.csv --policy clipper-light,diffserve-static --workers 16 "
    "--catalog diffserve-sdturbo --slo 5 --report out\n"
    "  pochade simulate arrivals.csv --policy octoai --workers 2 --max-workers 16 --pool 2 --start 20 --slo 5",
)
@trace_options
@click.option(
    "--policy",
    "policies",
    cls=PolicyOption,
    multiple=True,
    metavar="NAME[,NAME...]",
    help="Policies to simulate, one after the other, separated by commas; may be repeated (required).",
)
@click.option("--workers", type=click.IntRange(1, 100_000), help="Number of simulated workers (required).")
@click.option(
    "--catalog",
    cls=CatalogOption,
    metavar="NAME",
    help="Catalog of the variants and their profile (default: the setting catalog).",
)
@SLO
@click.option(
    "--overprovision",
    type=POSITIVE,
    help="Factor by which policies plan for more than the demand (default: each policy's own).",
)
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="[POLICY.]NAME=NUMBER",
    help="Parameter of all policies, or of the one named, and its value; may be repeated (default: the setting "
    "planner.parameters, for the policy of the setting planner.policy).",
)
@click.option(
    "--period", type=POSITIVE, help="Time between two plans, in seconds (default: the setting planner.period_ms)."
)
@click.option("--dispatch", type=DISPATCHES, help="Rule by which a job gets its worker (default: the plan's).")
@click.option(
    "--seeds",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Number of runs of each policy, each with another random seed.",
)
@click.option(
    "--redraw-arrivals/--recorded-arrivals",
    "redraws",
    default=False,
    help="Draw the arrivals of each run anew, as a Poisson process at the trace's rates (default: the recorded ones).",
)
@seed_option("the first run; run k uses seed + k, counted from 0")
@click.option(
    "--failures",
    type=FILE,
    help="CSV file of outages with the columns at_s (seconds from the begin of the trace), worker (its number from 0, "
    "vector-store or object-store) and change (down or up).",
)
@click.option(
    "--drop/--no-drop",
    "drops",
    default=True,
    show_default=True,
    help="Take the latency target as the deadline: a request that cannot meet it is not begun.",
)
@click.option(
    "--shed/--no-shed",
    "sheds",
    default=None,
    help="Let plans reject what their workers cannot serve, and the router what finds too long a backlog (default: "
    "off for a file; with --from-topic, the setting planner.load_shedding).",
)
@click.option(
    "--load/--no-load",
    "loads",
    default=True,
    show_default=True,
    help="Let a worker that changes its variant take the time that loading takes.",
)
@click.option(
    "--recorded",
    "is_recorded",
    is_flag=True,
    help="Take requests from the prompts recorded in the profile, instead of drawing them at random.",
)
@click.option(
    "--truth-catalog",
    "true_catalog",
    metavar="NAME",
    help="Catalog, or its file, that outcomes are drawn and judged by, while policies plan with --catalog.",
)
@click.option(
    "--learn/--no-learn",
    "learns",
    default=None,
    help="Let every policy plan with the confidences and run times observed so far, as live planners do (default: on "
    "with --from-topic; for a file, only policies that ask for it, such as joint; slower).",
)
@click.option(
    "--baseline/--no-baseline",
    "has_baseline",
    default=None,
    help="Also simulate a random split beside the first policy "
    f"(default: in reports of up to {MAX_FOR_BASELINE:,} requests).",
)
@click.option(
    "--price-per-hour",
    type=POSITIVE,
    help="Price of a worker for an hour, in a currency of your own, by which costs are reported (default: the setting "
    "worker.price_per_hour; 0: none are).",
)
@click.option(
    "--time-limit",
    type=POSITIVE,
    help="Number of seconds after which the run takes no more requests, and is reported as far as it came; for one "
    "policy and seed (default: no limit).",
)
@click.option("--report", type=FOLDER, help="Folder to write report.json and report.html to.")
@with_options(deviations.OPTIONS + scaling.OPTIONS)
@click.pass_context
def simulate(
    context: click.Context, /, given: TraceGiven, report: pathlib.Path | None, has_baseline: bool | None,
    time_limit: float | None, **asked: Any,
) -> None:  # fmt: skip
    """Simulate policies on a trace of requests, with the functions that decide in the live pipeline.

    TRACE is a file of arrivals, counts or requests, plain or gzip (`pochade replay --help`). Confidences, hardness and
    quality are drawn from the catalog's profile, run times around those that it measured, and times between processes
    (the planner's solving among them) as a live run took. The same seed gives the same report.
    """
    from replay.simulation.asked import defaults_of, setups_of, with_components
    from replay.simulation.failures import unheeded
    from replay.simulation.session import baseline_of, report_of
    from streams.catalogs import measured

    until_s = time.monotonic() + time_limit if time_limit else math.inf
    if not asked["has_hops"]:
        refuse_given(context, ["measured"], "with --no-hops, by which nothing takes time between processes")
    if report is not None:
        need(*OF_REPORTS)  # said before minutes of simulating
    settings = context.obj()
    catalog = measured(asked["catalog"] or settings.catalog)
    asked |= defaults_of(settings, catalog, asked, is_own=given.is_topic)
    _require(asked, catalog.name)
    setups = setups_of(settings, catalog, asked)
    if time_limit and (asked["redraws"] or has_baseline or asked["seeds"] * len(setups) > 1):
        raise click.UsageError(
            "--time-limit is for one run: give one --policy and seed, recorded arrivals, no baseline"
        )
    if change := asked.get("change"):  # what `bench simulate` has beside
        setups = [change(setup) for setup in setups]
    if warning := unheeded(setups[0].outages, catalog):
        click.echo(f"--failures: {warning}", err=True)
    given.check_renamed(catalog.served.keys() | catalog.bases.keys())
    trace = given.open(context.obj)
    report_reading(trace)
    trace = without_unknown_components(trace, catalog)
    setups = with_components(setups, trace, asked["budgets"], asked["evictions"], overlaps=asked["overlaps"])
    if setups[0].components is None:
        why = f"as no request of the trace needs a component that catalog {catalog.name!r} has the size of"
        refuse_given(context, ["budgets", "evictions", "overlaps"], why)
    whole, (runs, trace) = trace, _run(setups, trace, asked["seeds"], until_s)
    wants_baseline = report is not None and len(trace) <= MAX_FOR_BASELINE and not time_limit
    if has_baseline or (has_baseline is None and wants_baseline):
        beside = baseline_of(next(iter(runs.values()))[0])
        if beside is not None and beside.policy not in runs:
            runs |= _run([beside], trace, asked["seeds"])[0]
    found = report_of(trace, runs)
    if trace is not whole:
        found["trace"]["whole"] = {"requests": len(whole), "seconds": round(whole.span_ms / 1000, 3)}
        click.echo(f"stopped after {time_limit:g} s: {describe(whole, len(trace))} are simulated", err=True)
    _show(found, runs)
    if report is not None:
        _write(context, found, report)


def _require(asked: dict[str, Any], catalog: str) -> None:
    """Raise click.UsageError with all that is missing."""
    options = {"policies": "--policy", "workers": "--workers", "slo_s": f"--slo ({NO_TARGET.format(catalog)})"}
    missing = [option for name, option in options.items() if not asked[name]]
    if missing:
        raise click.UsageError(f"give also {', '.join(missing)}")
    if asked["max_workers"] is None:
        given = [option for name, option in scaling.NEEDING.items() if asked[name] not in (None, ())]
        if given:
            raise click.UsageError(f"{', '.join(given)}: needs a fleet that is scaled; give also --max-workers")


def _run(
    setups: "list[Setup]", trace: "Trace", seeds: int, until_s: float = math.inf
) -> "tuple[dict[str, list[Ran]], Trace]":
    """Return each policy's runs, and the trace as far as one took it; until then, on the monotonic clock."""
    from replay.simulation.session import simulate as run
    from replay.traces.transforms import limited

    runs = {}
    for setup in setups:
        progress = Progress(setup.policy, trace, seeds, until_s)
        runs[setup.policy] = run(setup, trace, seeds, progress)
    return runs, limited(trace, progress.requests) if until_s < math.inf else trace


def _show(found: dict[str, Any], runs: "dict[str, list[Ran]]") -> None:
    from rich.console import Console

    from replay.reports.compare import about_baseline
    from replay.reports.cost import savings
    from replay.simulation.results.tables import (
        describe_assumptions,
        describe_components,
        describe_parts,
        describe_reuse,
        describe_scale,
        describe_stores,
        describe_violations,
        did,
        figures_table,
    )

    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    console.print(figures_table(found["policies"], {name: sum(r.solver_s for r in ran) for name, ran in runs.items()}))
    if says := about_baseline(found):
        console.print(says, highlight=False, soft_wrap=True)
    for policy, row in found["policies"].items():
        console.print(did(policy, row["planned"]), highlight=False, soft_wrap=True)
        if reasons := describe_violations(policy, row):
            console.print(reasons, highlight=False, soft_wrap=True)
        for parts in (row[key] for key in ("by_tier", "by_tenant") if key in row):
            console.print(describe_parts(policy, parts), highlight=False, soft_wrap=True)
        if "scale" in row:
            console.print(describe_scale(policy, row), highlight=False, soft_wrap=True)
        if "stores" in row:
            console.print(describe_stores(policy, row["stores"]), highlight=False, soft_wrap=True)
        if "hits_by_tier" in row:
            console.print(describe_components(policy, row), highlight=False, soft_wrap=True)
        if reused := describe_reuse(policy, row["reuse"]) if "reuse" in row else "":
            console.print(reused, highlight=False, soft_wrap=True)
    for costs in savings(found):
        console.print(costs, highlight=False, soft_wrap=True)
    assumed = describe_assumptions(found["setup"], found["trace"]["hardness_known"])
    console.print(assumed, highlight=False, soft_wrap=True)


def _write(context: click.Context, found: dict[str, Any], folder: pathlib.Path) -> None:
    from replay.reports.files import write
    from replay.reports.provenance import describe_run

    for path in write(found | {"made": describe_run(context)}, folder):
        click.echo(f"report: {path}")
