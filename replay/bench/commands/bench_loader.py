"""`pochade bench loader`: how fast weights come from S3 to the local disk, and from there into memory."""

import json
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from replay.bench.commands.measuring import OUTPUT, lines
from streams.commands.options import Number

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings


@click.command()
@click.option(
    "--megabytes",
    type=click.IntRange(1, 65_536),
    default=64,
    show_default=True,
    help="Size of the file of weights, in MiB.",
)
@click.option(
    "--ranges",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="Number of ranges that are read from S3 at once.",
)
@click.option(
    "--connection-mb-s",
    type=Number(1, 100_000),
    default=50,
    show_default=True,
    help="Throughput that the throttled server gives to each connection, in MB per second.",
)
@click.option(
    "--repeats",
    type=click.IntRange(2, 1000),
    default=10,
    show_default=True,
    help="Number of times that each side reads the file.",
)
@click.option(
    "--starts",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Number of times that a worker is started anew and by fork, up to its first image; 0 skips them.",
)
@click.option(
    "--compiles",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    help="Number of times that a worker of each variant of --compiled is started eager, compiling, and from kept code; "
    "0 skips them.",
)
@click.option(
    "--compiled",
    default="heavy",
    show_default=True,
    help="Names of the variants of catalog tiny to compile, separated by commas.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Folder on the disk to measure (default: the folder of this deployment's data).",
)
@OUTPUT
@click.pass_obj
def loader(
    load: "Callable[[], Settings]", /, megabytes: int, ranges: int, connection_mb_s: float, repeats: int,
    starts: int, compiles: int, compiled: str, folder: pathlib.Path | None, output: str,
) -> None:  # fmt: skip
    """Measure the loading of weights: from S3 against one plain GET, from the disk against dd, and starts of workers.

    Needs no broker and no S3: a server of this machine sends the file, once throttled for each connection and once as
    fast as it can. Loaded files are compared with their sha-256 and synced; the time of a plain GET is reported
    without and with its sync.

    \b
    Examples:
      pochade bench loader
      pochade bench loader --megabytes 1024 --repeats 5 -o json
      pochade bench loader --starts 0 --compiles 3 --compiled heavy,middle
    """
    import signal

    from replay.bench.environment.figures import Conditions
    from replay.bench.loader.run import run
    from replay.commands.demo import leave

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    settings, conditions = load(), Conditions()
    asked = {"megabytes": megabytes, "ranges": ranges, "connection_mb_s": connection_mb_s, "repeats": repeats}
    where = folder or settings.home
    measured = run(
        where, megabytes=megabytes, ranges=ranges, repeats=repeats, connection_mb_s=connection_mb_s,
        note=lambda text: click.echo(text, err=True),
    )  # fmt: skip
    if starts:
        from replay.bench.loader import starts as starting

        measured["starts"] = starting.run(where, "tiny", "heavy", starts, lambda text: click.echo(text, err=True))
    if compiles:
        from replay.bench.loader import compiled as compiling

        names = [name.strip() for name in compiled.split(",")]
        measured["compiled"] = {
            name: compiling.run(where, "tiny", name, compiles, lambda text: click.echo(text, err=True))
            for name in names
        }
    report = {
        "bench": "loader",
        "asked": {**asked, "starts": starts, "compiles": compiles},
        **measured,
        **conditions.as_table(settings),
    }
    click.echo(json.dumps(report) if output == "json" else "\n".join(lines(report)))
