"""`pochade bench overhead | worker | router | ledger | ledger-state | crowd | ...`: each against a baseline."""

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from replay.bench.commands.bench_components import components
from replay.bench.commands.bench_crowd import crowd
from replay.bench.commands.bench_frontier import frontier
from replay.bench.commands.bench_gateway import gateway, gateway_cost
from replay.bench.commands.bench_genai import genai2026
from replay.bench.commands.bench_guarantee import guarantee
from replay.bench.commands.bench_in_flight import in_flight
from replay.bench.commands.bench_loader import loader
from replay.bench.commands.bench_observing import observing
from replay.bench.commands.bench_papers import papers
from replay.bench.commands.bench_peers import peers
from replay.bench.commands.bench_reuse import reuse
from replay.bench.commands.bench_scale import scale
from replay.bench.commands.bench_simulate import simulate
from replay.bench.commands.bench_trace import trace
from replay.bench.commands.bench_validate import validate
from replay.bench.commands.measuring import OUTPUT, measure
from replay.commands.options import seed_option
from schemas.errors import PochadeError
from streams.command_groups import CommandGroup
from streams.commands.known_names import PolicyOption
from streams.commands.options import Number

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings

COUNT = click.IntRange(min=10)
REPEATS = click.option(
    "--repeats",
    type=click.IntRange(1, 20),
    default=3,
    show_default=True,
    help="Number of runs of the pipeline and of the baseline.",
)


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure the pipeline and a baseline in the same run, on a broker that runs as long as the benchmark.

    Measure on a quiet machine: the report says how busy it was. Exit status 1 says that a record was lost, or that a
    plan was worse than the baseline's.

    \b
    Examples:
      pochade bench overhead
      pochade bench worker --heavy 12 --light 200
      pochade bench router --kill -o json
      pochade bench ledger --existing 1000000
      pochade bench ledger-state --ids 69120000
      pochade bench crowd flood
      pochade bench planner --policy joint
      pochade bench papers --traces FOLDER --page RESULTS.md
      pochade bench frontier --traces FOLDER
      pochade bench reuse --requests 1200
      pochade bench loader
      pochade bench components
      pochade bench gateway
      pochade bench gateway-cost
      pochade bench guarantee
      pochade bench in-flight
      pochade bench peers
      pochade bench observing
      pochade bench genai2026 FOLDER
      pochade bench scale
      pochade bench trace phases --out phases.csv
      pochade bench validate RUN
    """


bench.add_command(components)
bench.add_command(crowd)
bench.add_command(frontier)
bench.add_command(gateway)
bench.add_command(gateway_cost)
bench.add_command(genai2026)
bench.add_command(guarantee)
bench.add_command(in_flight)
bench.add_command(loader)
bench.add_command(observing)
bench.add_command(papers)
bench.add_command(peers)
bench.add_command(reuse)
bench.add_command(scale)
bench.add_command(simulate)
bench.add_command(trace)
bench.add_command(validate)


@bench.command()
@click.option(
    "--count",
    type=COUNT,
    default=200,
    show_default=True,
    help="Number of requests to the pipeline, and as many to the baseline.",
)
@click.option(
    "--rate",
    type=Number(0.1, 20),
    default=5.0,
    show_default=True,
    help="Number of requests per second to the pipeline, and as many to the baseline.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Number of requests to each side before the measurement begins.",
)
@OUTPUT
@click.pass_obj
def overhead(load: "Callable[[], Settings]", /, output: str, **asked: Any) -> None:
    """Measure the latency that the pipeline adds to generating, against a skeleton whose handlers only copy.

    \b
    Examples:
      pochade bench overhead
      pochade bench overhead --count 100 --rate 2 -o json
    """
    from replay.bench.overhead import run

    measure("overhead", lambda site: run(site, **asked), load(), asked, output)


@bench.command()
@click.option(
    "--light",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Number of images of the light level in each round; 0 skips the level.",
)
@click.option(
    "--heavy",
    type=click.IntRange(min=0),
    default=15,
    show_default=True,
    help="Number of images of the heavy level in each round; 0 skips the level.",
)
@REPEATS
@OUTPUT
@click.pass_obj
def worker(load: "Callable[[], Settings]", light: int, heavy: int, repeats: int, output: str) -> None:
    """Measure the throughput of a worker against a bare diffusers loop, on one core and one thread.

    \b
    Examples:
      pochade bench worker
      pochade bench worker --light 200 --heavy 0
    """
    from replay.bench.worker import run

    counts = {name: count for name, count in (("light", light), ("heavy", heavy)) if count}
    asked = {"light": light, "heavy": heavy, "repeats": repeats}
    measure("worker", lambda site: run(site, counts=counts, repeats=repeats), load(), asked, output)


@bench.command()
@click.option("--count", type=COUNT, default=20_000, show_default=True, help="Number of records in each run.")
@REPEATS
@click.option("--kill", "is_killed", is_flag=True, help="Add one run in which the router is killed (kill -9) half way.")
@OUTPUT
@click.pass_obj
def router(load: "Callable[[], Settings]", /, output: str, **asked: Any) -> None:
    """Measure how many records per second one router places, against a hop that only copies.

    \b
    Examples:
      pochade bench router
      pochade bench router --kill -o json
    """
    from replay.bench.router import run

    measure("router", lambda site: run(site, **asked), load(), asked, output)


@bench.command()
@click.option("--count", type=COUNT, default=20_000, show_default=True, help="Number of outcomes in each run.")
@click.option(
    "--existing",
    type=COUNT,
    default=100_000,
    show_default=True,
    help="Number of results on the topic before the ledger is restarted.",
)
@REPEATS
@OUTPUT
@click.pass_obj
def ledger(load: "Callable[[], Settings]", /, output: str, **asked: Any) -> None:
    """Measure how many outcomes per second one ledger ends, and how soon it serves again after a restart.

    \b
    Examples:
      pochade bench ledger
      pochade bench ledger --existing 1000000
    """
    from replay.bench.ledger import run

    measure("ledger", lambda site: run(site, **asked), load(), asked, output)


@bench.command("ledger-state")
@click.option(
    "--ids",
    type=COUNT,
    default=2_000_000,
    show_default=True,
    help="Number of ended ids on the topic `ended`, in chunks.",
)
@click.option(
    "--existing",
    type=COUNT,
    default=200_000,
    show_default=True,
    help="Number of results that no chunk covers, so that they are read whole.",
)
@OUTPUT
@click.pass_obj
def ledger_state(load: "Callable[[], Settings]", /, output: str, **asked: Any) -> None:
    """Measure a ledger's memory of ended ids, and how soon it serves again with chunks and from whole results.

    \b
    Examples:
      pochade bench ledger-state
      pochade bench ledger-state --ids 69120000
    """
    from replay.bench.ledger_state import run

    measure("ledger-state", lambda site: run(site, **asked), load(), asked, output)


@bench.command()
@click.option(
    "--policy",
    "policies",
    cls=PolicyOption,
    multiple=True,
    metavar="NAME",
    help="Measure only this policy; may be repeated.",
)
@click.option(
    "--solves",
    type=click.IntRange(3, 100_000),
    default=200,
    show_default=True,
    help="Number of plans that each policy makes.",
)
@click.option(
    "--baselines",
    type=click.IntRange(3, 10_000),
    default=5,
    show_default=True,
    help="Number of plans that each baseline makes.",
)
@click.option(
    "--seconds",
    type=Number(0.1, 3600),
    default=20,
    show_default=True,
    help="Longest time to measure one policy, in seconds.",
)
@click.option(
    "--limit",
    "limit_s",
    type=Number(0.1, 600),
    default=10,
    show_default=True,
    help="Time limit of the baseline's solver for one plan, in seconds.",
)
@seed_option("the observations that are planned for", 1)
@OUTPUT
@click.pass_obj
def planner(
    load: "Callable[[], Settings]", /, policies: tuple[str, ...], solves: int, baselines: int, seconds: float,
    limit_s: float, seed: int, output: str,
) -> None:  # fmt: skip
    """Measure how long each policy takes to plan, against the plain model in PuLP.

    Needs no broker. Every policy plans for varied observations on one core; times are in milliseconds. A baseline's
    solution counts also where its solver was stopped at --limit.

    \b
    Examples:
      pochade bench planner
      pochade bench planner --policy joint --solves 50
    """
    from replay.bench.environment.figures import Conditions
    from replay.bench.environment.planner_cases import cases
    from replay.bench.planner import Effort, run, table
    from streams.catalogs import measured as catalog

    asked = {"solves": solves, "baselines": baselines, "seconds": seconds, "limit_s": limit_s, "seed": seed}
    chosen, conditions = cases(catalog, solves, seed, policies), Conditions()
    with _between_solves(len(chosen)) as on_progress:
        measured = run(chosen, Effort(solves, baselines, seconds, limit_s), on_progress)
    report = {"bench": "planner", "asked": asked, **measured, **conditions.as_table(load())}
    click.echo(json.dumps(report) if output == "json" else "\n".join(table(report)))
    if measured["worse"]:
        raise PochadeError(f"{measured['worse']} plans were worse than the baseline's: see `largest_lag`")


@contextlib.contextmanager
def _between_solves(cases: int) -> Iterator[Callable[[str, int], object]]:
    """Show a progress bar that draws only when it is updated, so that no thread takes time from the measurement."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    progress = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
    names: dict[str, None] = {}

    def on_progress(name: str, solves: int) -> None:
        names[name] = None
        progress.update(task, completed=len(names) - 1, description=f"{name}: {solves} solves", refresh=True)

    with progress:
        task = progress.add_task("warming up", total=cases)
        yield on_progress
