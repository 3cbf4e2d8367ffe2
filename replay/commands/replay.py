"""`pochade replay TRACE | run | inspect | save | make | outages | what-if`: what the past says about the future."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from replay.commands.live import run
from replay.commands.trace_options import FILE, PROMPTS, SHAPING, TraceGiven, shaping_of, trace_options, with_options
from replay.commands.trace_types import Rate
from replay.commands.what_if import what_if
from streams.commands.options import SHOWN, Ago

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and Kafka's client
    from replay.traces.trace import Trace
    from streams.settings import Settings

OUT = click.option("-o", "--output", type=FILE, required=True, help="The file; .gz packs it.")
FOLDER = click.Path(file_okay=False, path_type=pathlib.Path)


class Replaying(click.Group):
    """`pochade replay TRACE` is `pochade replay run TRACE`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names, or `run` where it is a file."""
        is_file = args[0] not in self.commands and os.path.isfile(args[0])
        return super().resolve_command(ctx, ["run", *args] if is_file else args)


@click.group(cls=Replaying)
def replay() -> None:
    """Traces of requests: publish one again, look at, record or make one; what another plan had made of them.

    A trace is a file that is told by its content, plain or gzip: arrivals (arrival_ms), counts per interval
    (hour,invocations), GenTD26's request files, or JSON lines of timed requests; or --from-topic, what was asked of
    this deployment.

    \b
    Examples:
      pochade replay save --from-topic --since 1h -o hour.jsonl.gz
      pochade replay inspect hour.jsonl.gz
      pochade replay hour.jsonl.gz --prefix sandbox --speed 2
    """


@replay.command()
@trace_options
@click.option("--report", type=FOLDER, help="Folder of trace.json and trace.html, which has the plot.")
@SHOWN
@click.pass_obj
def inspect(load: "Callable[[], Settings]", /, given: TraceGiven, report: pathlib.Path | None, output: str) -> None:
    """Show how much a trace asks for and when: rate plot, burstiness, mix of prompts and models.

    \b
    Examples:
      pochade replay inspect arrivals.csv.gz
      pochade replay inspect hours.csv --to 4:32 --report out
      pochade replay inspect --from-topic --since 2h --until 1h -o json
    """
    from replay.traces.inspection import inspected
    from replay.traces.page import show, write_page

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
    """Write a trace to a file: to record what was asked of a deployment, or to keep what the options made.

    \b
    Examples:
      pochade replay save --from-topic --since 1h -o hour.jsonl.gz
      pochade replay save arrivals.csv --scale 2 --limit 1000 -o doubled.csv
    """
    _write(given.open(load), output)


@replay.command()
@click.argument("counts", type=FILE, required=False)
@click.option("--shape", type=click.Choice(["ramp", "burst", "steps", "phases", "counts"]), required=True)
@click.option("--rate", "rates", type=Rate(), multiple=True, help="As 2 or 40/m: low and high, or each step.")
@click.option("--for", "lasting", type=Ago(), help="How long it lasts, such as 20m.")
@click.option("--every", type=Ago(), help="Of a burst, and of the calm before it.")
@click.option("--phases", default="easy,hard,easy,hard", show_default=True, help="Of equal length.")
@click.option("--graded", type=FILE, help="Prompts for phases: CSV with prompt and hardness, or the rules' counts.")
@click.option("--split", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="Harder is hard.")
@with_options(SHAPING + PROMPTS)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of everything drawn.")
@OUT
def make(shape: str, output: pathlib.Path, **asked: Any) -> None:
    """Make a trace of a shape that the papers use; the same options make the same bytes. Defaults are the paper's.

    \b
    Examples:
      pochade replay make --shape ramp --rate 40/m --rate 540/m --for 40m -o ramp.csv
      pochade replay make --shape burst --rate 1 --rate 8 --every 2m --for 20m --seed 3 -o burst.csv
      pochade replay make --shape phases --rate 2 --graded prompts.csv -o phases.jsonl
      pochade replay make --shape counts hours.csv --to 4:32 -o 4to32.csv
    """
    if (shape == "counts") != (asked["counts"] is not None):
        raise click.UsageError("--shape counts takes a file COUNTS, the other shapes take none")
    _write(_counted(asked) if shape == "counts" else _shaped(shape, asked), output)


def _counted(asked: dict[str, Any]) -> "Trace":
    from replay.load.prompts import read_prompts
    from replay.traces import Asked, read

    prompts = tuple(read_prompts(asked["prompts"])) if asked["prompts"] else ()
    shaping = shaping_of(asked["to"], asked["interval"], asked["spacing"])
    order = asked["order"] or ""
    return read(asked["counts"], Asked(shaping=shaping, prompts=prompts, order=order, seed=asked["seed"]))


def _shaped(name: str, asked: dict[str, Any]) -> "Trace":
    from replay.load.prompts import read_prompts
    from replay.traces.formats.graded import of_rules, read_graded
    from replay.traces.shapes import Shape, shaped
    from replay.traces.wording import worded

    if asked["to"] or asked["interval"]:
        raise click.UsageError("--to and --interval shape counts: give --rate and --for")
    if asked["graded"] and (name != "phases" or asked["prompts"]):
        raise click.UsageError("--graded is for phases, and instead of --prompts")
    graded = read_graded(asked["graded"], of_rules()) if asked["graded"] else None
    seconds, every = ((None if ms is None else ms / 1000) for ms in (asked["lasting"], asked["every"]))
    phases = tuple(phase.strip() for phase in asked["phases"].split(","))
    shape = Shape(
        name=name, rates_rps=asked["rates"], seconds=seconds, every_s=every, phases=phases, split=asked["split"]
    )
    trace = shaped(shape, asked["spacing"] or "poisson", asked["seed"], graded)
    if asked["prompts"]:
        trace = worded(trace, read_prompts(asked["prompts"]), asked["order"] or "", asked["seed"])
    return trace


@replay.command()
@click.option("--workers", type=click.IntRange(1, 100_000), default=8, show_default=True, help="That there are.")
@click.option("--lose", "lost", type=click.IntRange(min=0), default=4, show_default=True, help="Of them, each time.")
@click.option("--store", "stores", multiple=True, help="Lost beside them: vector-store, object-store.")
@click.option("--at", "at_ms", type=Ago(), multiple=True, default=("150m", "400m"), show_default=True, help="When.")
@click.option("--for", "for_ms", type=Ago(), default="40m", show_default=True, help="How long each time.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of which workers are lost.")
@OUT
def outages(output: pathlib.Path, at_ms: tuple[int, ...], for_ms: int, seed: int, **asked: Any) -> None:
    """Write a schedule of what fails when, for `pochade simulate --failures`: workers, and stores by name.

    The default is ARGUS's: half of eight workers, twice, for 40 minutes. While the object store is away, workers wait
    with what they painted, and the discriminator with what it judges. Nothing asks the vector store yet: `simulate`
    says so, and its outages change nothing.

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


def _write(trace: "Trace", path: pathlib.Path) -> None:
    from replay.traces.writing import write

    write(trace, path)
    skipped = "".join(f", {count} skipped: {kind}" for kind, count in trace.skipped.items())
    click.echo(f"{path}: {len(trace)} requests over {trace.span_ms / 1000:.6g} s{skipped}")


for command in (run, what_if):
    replay.add_command(command)
