"""`pochade replay run`: a trace published to a deployment at its own pace."""

import datetime
import shlex
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from replay.commands.demo import leave, log_to
from replay.commands.options import CATALOG, SLO
from replay.commands.trace_options import TraceGiven, report_reading, trace_options
from schemas.errors import PochadeError
from streams.as_typed import RepeatableCommand
from streams.commands.known_names import PolicyOption
from streams.commands.options import FOLDER
from streams.extras import OF_REPORTS, need
from streams.visible import counted

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and Kafka's client
    from replay.load.options import LiveOptions
    from replay.load.run import LiveRun
    from replay.traces.trace import Trace
    from streams.settings import Settings


@click.command(cls=RepeatableCommand)
@trace_options
@click.option(
    "--name",
    help="Name of the run (default: the current time); a run that was interrupted goes on when "
    "started again with its name.",
)
@click.option(
    "--prefix", help="Prefix of the topics to publish to (default: PREFIX-replay; with --serve, PREFIX-replay-NAME)."
)
@click.option(
    "--production",
    "is_production",
    is_flag=True,
    help="Publish to this deployment's own topics, which serve production.",
)
@click.option(
    "--serve", "serves", type=click.IntRange(1, 64), metavar="N", help="Start all roles for this run, with N workers."
)
@CATALOG
@click.option(
    "--engine",
    metavar="NAME",
    help="Engine of the workers that --serve starts: diffusers, or profile, which only sleeps as long as measured.",
)
@click.option(
    "--policy",
    cls=PolicyOption,
    metavar="NAME",
    help="Policy of the planner that --serve starts (default: the setting planner.policy).",
)
@SLO
@click.option(
    "--drop/--no-drop",
    "drops",
    default=True,
    help="Take the latency target as the deadline of requests that have none.",
)
@click.option(
    "--speed-probe",
    "probes",
    is_flag=True,
    help="Measure the machine's speed during the run, so that `pochade bench validate` can scale times between "
    "processes to it; takes 2 to 3 % of a core.",
)
@click.option(
    "--report", type=FOLDER, help="Folder to write report.json and report.html to (default: HOME/replay/NAME)."
)
@click.pass_context
def run(context: click.Context, /, given: TraceGiven, name: str | None, **asked: Any) -> None:
    """Publish TRACE to a deployment at the trace's own pace, and report how its requests ended.

    The topics that serve production are not used without --production. An interrupted run (Ctrl-C) prints the command
    that resumes it; nothing is published twice. The report has the keys of `pochade simulate`, so that `pochade report
    compare` works on both, and `pochade bench validate DIR` simulates the same run.

    \b
    Examples:
      pochade replay run arrivals.csv --serve 3 --engine profile --catalog profile --slo 2
      pochade replay run --from-topic --since 1h --speed 2 --prefix sandbox --report out
      pochade replay run .pochade/replay/1122-0900/trace.jsonl.gz --name 1122-0900 --no-spread
    """
    from rich.console import Console

    from replay.load.options import LiveOptions
    from replay.load.record.outcome import fault
    from replay.load.run import LiveRun
    from replay.reports import files
    from replay.reports.progress import open_reporter
    from replay.reports.provenance import describe_run
    from streams import settings
    from streams.catalogs import measured as load_catalog

    need(*OF_REPORTS)  # said before anything is published
    load: Callable[[], Settings] = context.obj
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    own = load()
    options = LiveOptions(name=name or f"{datetime.datetime.now(datetime.UTC):%m%d-%H%M%S}", **asked)
    catalog = load_catalog(options.catalog or own.catalog)
    models = frozenset((*catalog.served, *catalog.bases))
    trace, console = given.open(load, models), Console()
    report_reading(trace)
    trace = _worded(trace, given.trace_seed)
    with open_reporter(console) as teller:
        session = LiveRun(own, settings.load(), options, trace, teller)
        log_to(session.settings.home / "logs" / "replay.log")
        teller.note(_start_line(options, trace, session.settings.kafka.prefix))
        try:
            found = session.run()
        except (KeyboardInterrupt, SystemExit):
            teller.note("interrupted; to go on: " + resume_line(context, session, options.name))
            raise
    report = {**found, "made": describe_run(context)}
    for path in files.write(report, session.folder):
        click.echo(f"report: {path}")
    _show(report)
    if message := fault(report["live"]):
        raise PochadeError(message)


def _start_line(options: "LiveOptions", trace: "Trace", prefix: str) -> str:
    """Return the line that says what a run publishes, and to which topics."""
    production = ", PRODUCTION" if options.is_production else ""
    requests = f"{counted(len(trace), 'request')} over {trace.span_ms / 1000:.6g} s"
    return f"run {options.name}: {requests} to {prefix}.*{production}"


def _worded(trace: "Trace", seed: int) -> "Trace":
    from replay.load.prompts import builtin_prompts
    from replay.traces.wording import filled

    if trace.has_prompts:
        return trace
    lacking = f"{trace.lacks_prompt.sum()} of {counted(len(trace), 'request')}"
    click.echo(f"without a prompt text: {lacking}; each gets one of ours, --prompts replaces all prompts", err=True)
    return filled(trace, builtin_prompts(min(len(trace), 1000), seed))


def resume_line(context: click.Context, session: "LiveRun", name: str) -> str:
    """Return the command that resumes a run: the stored trace, and the options that are not the trace's."""
    from replay.reports.provenance import command_line

    root = context.find_root()
    words = [*shlex.split(command_line(root)), "replay", "run", str(session.trace_path), "--name", name]
    for option in ("prefix", "serves", "catalog", "engine", "policy", "slo_s", "report"):
        if (value := context.params[option]) is not None:
            words += ["--" + option.removesuffix("s" if option == "serves" else "_s"), str(value)]
    words += ["--no-spread"]  # the stored times are those that were published
    flags = {"--production": "is_production", "--speed-probe": "probes"}
    words += [flag for flag, option in flags.items() if context.params[option]]
    return shlex.join(words + ([] if context.params["drops"] else ["--no-drop"]))


def _show(report: Mapping[str, Any]) -> None:
    from replay.reports.cost import savings
    from replay.reports.metrics import format_value
    from replay.simulation.results.tables import describe_parts

    live, late = report["live"], report["live"]["lateness_ms"]
    for policy, figures in report["policies"].items():
        lines = {
            "policy": policy,
            "requests": f"{figures['requests']}, {figures['completed']} completed, {live['lost']} lost",
            "violations": format_value("violation_rate", figures["violation_rate"]),
            "latency": ", ".join(f"{rank} {figures['latency_s'][rank]} s" for rank in ("p50", "p95", "p99")),
            "by level": ", ".join(f"{count} {level}" for level, count in figures["by_level"].items()),
        }
        for label, value in lines.items():
            click.echo(f"{label:<12}{value}")
        for key in ("by_tier", "by_tenant"):
            if key in figures:
                click.echo(describe_parts(key.replace("_", " "), figures[key]))
    for costs in savings(report):
        click.echo(costs)
    click.echo(f"{'driver':<12}late by {late['p50']} ms (p50), {late['p95']} ms (p95), {late['max']} ms at most")
