"""`pochade replay TRACE | run | inspect | save | make | genai2026 | outages | what-if`: traces and live replays."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from replay.commands.given_options import refuse_given
from replay.commands.live import run
from replay.commands.options import seed_option
from replay.commands.trace_options import PROMPTS, SHAPING, TraceGiven, shaping_of, trace_options, with_options
from replay.commands.trace_types import Rate
from replay.commands.what_if import what_if
from streams.command_groups import CommandGroup
from streams.commands.options import FILE, FOLDER, SHOWN, Ago
from streams.extras import OF_REPORTS, need

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and Kafka's client
    from replay.traces.trace import Trace
    from streams.settings import Settings

OUT = click.option(
    "-o", "--output", type=FILE, required=True, help="File to write; a name that ends in .gz is compressed."
)

RATE_SHAPES = ("ramp", "burst", "steps", "phases", "combinations")
SHAPES_OF = {  # an option of `make` -> the shapes that it changes; the others change all
    "rates": RATE_SHAPES,
    "lasting": RATE_SHAPES,
    "every": ("burst",),
    "graded": ("phases",),
    "split": ("phases",),
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
    interval (hour,invocations), GenTD26's request files, or JSON lines of timed requests. With --from-topic the trace
    is what was sent to this deployment.

    \b
    Examples:
      pochade replay save --from-topic --since 1h -o hour.jsonl.gz
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
      pochade replay save --from-topic --since 1h -o hour.jsonl.gz
      pochade replay save arrivals.csv --scale 2 --limit 1000 -o doubled.csv
    """
    _write(given.open(load), output)


@replay.command()
@click.argument("counts", type=FILE, required=False)
@click.option(
    "--shape",
    type=click.Choice([*RATE_SHAPES, "counts"]),
    required=True,
    help="Shape of the trace: a ramp, bursts, steps, phases of easy and hard prompts, combinations of components "
    "that seldom come again (for the catalog genai2026), or the counts of a file.",
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
@click.option(
    "--graded",
    type=FILE,
    help="CSV file of prompts for --shape phases, with the columns prompt and hardness, or prompt and "
    "the counts of HADIS's rules.",
)
@click.option(
    "--split",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Hardness from which a prompt counts as hard, from 0 to 1.",
)
@with_options(SHAPING + PROMPTS)
@seed_option("everything that is drawn")
@OUT
@click.pass_context
def make(context: click.Context, /, shape: str, output: pathlib.Path, **asked: Any) -> None:
    """Generate a trace of a shape that the papers use, with the papers' figures as defaults.

    The same options give the same bytes. COUNTS is the file of counts for --shape counts.

    \b
    Examples:
      pochade replay make --shape ramp --rate 40/m --rate 540/m --for 40m -o ramp.csv
      pochade replay make --shape burst --rate 1 --rate 8 --every 2m --for 20m --seed 3 -o burst.csv
      pochade replay make --shape phases --rate 2 --graded prompts.csv -o phases.jsonl
      pochade replay make --shape combinations --rate 0.5 --for 60m -o sparse.jsonl
      pochade replay make --shape counts hours.csv --to 4:32 -o 4to32.csv
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
    if asked["graded"] and asked["prompts"]:
        raise click.UsageError("--graded is for phases, and instead of --prompts")
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
    from replay.traces.formats.graded import of_rules, read_graded
    from replay.traces.shapes import Shape, shaped
    from replay.traces.wording import worded

    graded = read_graded(asked["graded"], of_rules()) if asked["graded"] else None
    seconds, every = ((None if ms is None else ms / 1000) for ms in (asked["lasting"], asked["every"]))
    shape = Shape(name=name, rates_rps=asked["rates"], seconds=seconds, every_s=every, split=asked["split"])
    trace = shaped(shape, asked["spacing"] or "poisson", asked["seed"], graded)
    if asked["prompts"]:
        trace = worded(trace, read_prompts(asked["prompts"]), asked["order"] or "", asked["seed"])
    return trace


@replay.command()
@click.option(
    "--workers", type=click.IntRange(1, 100_000), default=8, show_default=True, help="Number of workers in the fleet."
)
@click.option(
    "--lose",
    "lost",
    type=click.IntRange(min=0),
    default=4,
    show_default=True,
    help="Number of workers lost in each outage, drawn at random each time.",
)
@click.option(
    "--store",
    "stores",
    multiple=True,
    help="Store that is lost in each outage as well: vector-store or object-store; may be repeated.",
)
@click.option(
    "--at",
    "at_ms",
    type=Ago(),
    multiple=True,
    default=("150m", "400m"),
    show_default=True,
    help="Begin of an outage, as time since the begin of the trace, such as 5m; may be repeated.",
)
@click.option(
    "--for", "for_ms", type=Ago(), default="40m", show_default=True, help="Duration of each outage, such as 40m."
)
@seed_option("the choice of workers that are lost")
@OUT
def outages(output: pathlib.Path, at_ms: tuple[int, ...], for_ms: int, seed: int, **asked: Any) -> None:
    """Write a schedule of outages of workers and stores, for `pochade simulate --failures`.

    The default schedule is that of ARGUS: half of eight workers are lost twice, for 40 minutes each. While the object
    store is away, workers wait with their images, and the discriminator with those that it judges. While the vector
    store is away, policies that begin images from stored latents, such as argus, generate in full; where the catalog
    has no profile of reuse that changes nothing, and `simulate` says so.

    \b
    Examples:
      pochade replay outages --workers 8 --lose 4 --at 5m --for 2m -o failures.csv
      pochade replay outages --lose 0 --store vector-store --at 5m --for 10m -o no-cache.csv
    """
    from replay.traces.outages import Losses, lines, schedule
    from replay.traces.writing import opened

    losses = Losses(at_s=tuple(ms / 1000 for ms in at_ms), for_s=for_ms / 1000, **asked)
    changes = schedule(losses, seed)
    with opened(output) as file:
        file.write("\n".join(lines(changes)) + "\n")
    click.echo(f"{output}: {len(changes)} changes")


@replay.command()
@click.argument("folder", type=FOLDER)
@click.option(
    "--controls",
    "control_share",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Share of the requests that get a ControlNet, drawn; the public files name none.",
)
@click.option(
    "--control-image",
    default="none:",
    show_default=True,
    help="URI of the stored image that ControlNets follow; a live replay needs one, the simulator none.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of requests to take.")
@click.option("--lenient", "is_lenient", is_flag=True, help="Skip lines that cannot be read, and report their number.")
@seed_option("the times, users and ControlNets that are drawn")
@OUT
def genai2026(folder: pathlib.Path, output: pathlib.Path, is_lenient: bool, **asked: Any) -> None:
    """Draw one trace from the two request files of GenTD26 (Alibaba cluster-trace-v2026-GenAI) in FOLDER.

    One file names bases and LoRAs and has no times, the other has times and users and no ids: order, bases and LoRAs
    are the first's, times and users are drawn from the second. How it was made is written beside it, in
    NAME.made.json. Its names are those of the catalog genai2026.

    \b
    Examples:
      pochade replay genai2026 data/genai2026 --lenient -o genai.jsonl.gz
      pochade simulate genai.jsonl.gz --catalog genai2026 --policy clipper-heavy --workers 16 --speed 40
    """
    from replay.traces.formats.gentd26_folder import Drawing, draw_trace
    from replay.traces.writing import opened

    trace, made = draw_trace(folder, Drawing(**asked), is_lenient=is_lenient)
    _write(trace, output)
    beside = output.with_name(f"{output.name.removesuffix('.gz').removesuffix('.jsonl')}.made.json")
    with opened(beside) as file:
        file.write(json.dumps(made, indent=2) + "\n")
    click.echo(f"{beside}: how it was made")


def _write(trace: "Trace", path: pathlib.Path) -> None:
    from replay.traces.writing import write

    write(trace, path)
    skipped = "".join(f", {count} skipped: {kind}" for kind, count in trace.skipped.items())
    click.echo(f"{path}: {len(trace)} requests over {trace.span_ms / 1000:.6g} s{skipped}")


for command in (run, what_if):
    replay.add_command(command)
