"""`pochade replay TRACE | run | inspect | save | make | what-if`: traces and live replays."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from replay.commands.given_options import refuse_given
from replay.commands.live import run
from replay.commands.options import seed_option
from replay.commands.trace_options import (
    PROMPTS,
    SHAPING,
    TraceGiven,
    report_reading,
    shaping_of,
    trace_options,
    with_options,
)
from replay.commands.trace_types import Rate
from replay.commands.what_if import what_if
from streams.command_groups import CommandGroup
from streams.commands.options import FILE, FOLDER, SHOWN, Ago
from streams.extras import OF_REPORTS, need
from streams.visible import counted

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and Kafka's client
    from replay.traces.trace import Trace
    from streams.settings import Settings

OUT = click.option(
    "--out", "output", type=FILE, required=True, help="File to write; a name that ends in .gz is compressed."
)

RATE_SHAPES = ("ramp", "burst", "steps")
SHAPES_OF = {  # an option of `make` -> the shapes that it changes; the others change all
    "rates": RATE_SHAPES,
    "lasting": RATE_SHAPES,
    "every": ("burst",),
}


class Replaying(CommandGroup):
    """`pochade replay TRACE` is `pochade replay run TRACE`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names, or `run` where it is a file."""
        is_file = args[0] not in self.commands and os.path.isfile(args[0])
        return super().resolve_command(ctx, ["run", *args] if is_file else args)


@click.group(cls=Replaying)
def replay() -> None:
    """Publish, inspect, record and generate traces of requests; ask what another plan would have done.

    A trace is a file, plain or gzip, whose format is recognised by its content: arrivals (arrival_ms), counts per
    interval (hour,invocations), or JSON lines of timed requests. With --from-topic the trace
    is what was sent to this deployment.

    \b
    Examples:
      pochade replay save --from-topic --since 1h --out hour.jsonl.gz
      pochade replay inspect hour.jsonl.gz
      pochade replay hour.jsonl.gz --prefix sandbox --speed 2
    """


@replay.command()
@trace_options
@click.option("--report", type=FOLDER, help="Folder to write trace.json and trace.html (with the plot) to.")
@SHOWN
@click.pass_obj
def inspect(load: "Callable[[], Settings]", /, given: TraceGiven, report: pathlib.Path | None, output: str) -> None:
    """Show the rate of TRACE over time, its burstiness, and its mix of prompts and models.

    \b
    Examples:
      pochade replay inspect arrivals.csv.gz
      pochade replay inspect hours.csv --to 4:32 --report out
      pochade replay inspect --from-topic --since 2h --until 1h -o json
    """
    from replay.traces.inspection import inspected
    from replay.traces.page import show, write_page

    if report is not None:
        need(*OF_REPORTS)
    trace = given.open(load)
    found = inspected(trace)
    if output == "json":
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        show(trace, found)
    if report is not None:
        click.echo(f"report: {write_page(trace, found, report)}", err=output == "json")


@replay.command()
@trace_options
@OUT
@click.pass_obj
def save(load: "Callable[[], Settings]", /, given: TraceGiven, output: pathlib.Path) -> None:
    """Write a trace to a file: the requests sent to a deployment (--from-topic), or TRACE changed by the options.

    \b
    Examples:
      pochade replay save --from-topic --since 1h --out hour.jsonl.gz
      pochade replay save arrivals.csv --scale 2 --limit 1000 --out doubled.csv
    """
    trace = given.open(load)
    report_reading(trace)
    _write(trace, output)


@replay.command()
@click.argument("counts", type=FILE, required=False)
@click.option(
    "--shape",
    type=click.Choice([*RATE_SHAPES, "counts"]),
    required=True,
    help="Shape of the trace: a ramp, bursts, steps, or the counts of a file.",
)
@click.option(
    "--rate",
    "rates",
    type=Rate(),
    multiple=True,
    help="Rate of requests, such as 2 (per second) or 40/m: low and high of a ramp or a burst, or "
    "each step; repeat the option.",
)
@click.option(
    "--for", "lasting", type=Ago(), help="Duration of the trace, such as 20m (default: that of the paper's shape)."
)
@click.option("--every", type=Ago(), help="Duration of each burst, and of each calm period before it, such as 2m.")
@with_options(SHAPING + PROMPTS)
@seed_option("everything that is drawn")
@OUT
@click.pass_context
def make(context: click.Context, /, shape: str, output: pathlib.Path, **asked: Any) -> None:
    """Generate a trace of a shape that the papers use, with the papers' figures as defaults.

    The same options give the same bytes. COUNTS is the file of counts for --shape counts.

    \b
    Examples:
      pochade replay make --shape ramp --rate 40/m --rate 540/m --for 40m --out ramp.csv
      pochade replay make --shape burst --rate 1 --rate 8 --every 2m --for 20m --seed 3 --out burst.csv
      pochade replay make --shape counts hours.csv --to 4:32 --out 4to32.csv
    """
    if (shape == "counts") != (asked["counts"] is not None):
        raise click.UsageError("--shape counts takes a file COUNTS, the other shapes take none")
    _refuse_of_other_shapes(context, shape, asked)
    _write(_counted(asked) if shape == "counts" else _shaped(shape, asked), output)


def _refuse_of_other_shapes(context: click.Context, shape: str, asked: dict[str, Any]) -> None:
    """Raise click.UsageError for options that were given and do not change a trace of this shape."""
    if shape != "counts" and (asked["to"] or asked["interval"]):
        raise click.UsageError("--to and --interval shape counts: give --rate and --for")
    for name, shapes in SHAPES_OF.items():
        if shape not in shapes:
            refuse_given(context, [name], f"with --shape {shape}: it is for --shape {' or '.join(shapes)}")
    if not asked["prompts"]:
        refuse_given(context, ["order"], "without --prompts")


def _counted(asked: dict[str, Any]) -> "Trace":
    from replay.load.prompts import read_prompts
    from replay.traces import Asked, read
    from replay.traces.reading import NoEffect

    prompts = tuple(read_prompts(asked["prompts"])) if asked["prompts"] else ()
    shaping = shaping_of(asked["to"], asked["interval"], asked["spacing"])
    order = asked["order"] or ""
    try:
        return read(asked["counts"], Asked(shaping=shaping, prompts=prompts, order=order, seed=asked["seed"]))
    except NoEffect:
        raise click.UsageError(f"{asked['counts']} has no counts: --shape counts needs a file of them") from None


def _shaped(name: str, asked: dict[str, Any]) -> "Trace":
    from replay.load.prompts import read_prompts
    from replay.traces.shapes import Shape, shaped
    from replay.traces.wording import worded

    seconds, every = ((None if ms is None else ms / 1000) for ms in (asked["lasting"], asked["every"]))
    shape = Shape(name=name, rates_rps=asked["rates"], seconds=seconds, every_s=every)
    trace = shaped(shape, asked["spacing"] or "poisson", asked["seed"])
    if asked["prompts"]:
        trace = worded(trace, read_prompts(asked["prompts"]), asked["order"] or "", asked["seed"])
    return trace


def _write(trace: "Trace", path: pathlib.Path) -> None:
    from replay.traces.writing import write

    write(trace, path)
    click.echo(f"{path}: {counted(len(trace), 'request')} over {trace.span_ms / 1000:.6g} s")


for command in (run, what_if):
    replay.add_command(command)
