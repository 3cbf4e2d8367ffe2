"""`pochade plan solve`: what a policy would decide, without Kafka and without a running pipeline."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agents.commands.options import PARAMETERS, numbers
from streams.cli import LazySettings
from streams.commands.known_names import CatalogOption, PolicyOption
from streams.commands.options import FILE_IN, POSITIVE, SHOWN, Number

if TYPE_CHECKING:
    from planner.observation.observation import Observation


@click.command()
@click.option(
    "--policy",
    cls=PolicyOption,
    metavar="NAME",
    help="Policy that makes the plan (default: the setting planner.policy).",
)
@click.option(
    "--demand",
    type=Number(min=0),
    metavar="RPS",
    help="Demand to plan for, in requests per second (default: that of --observation).",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 100_000),
    metavar="N",
    help="Number of idle workers to plan for (default: the workers of --observation).",
)
@click.option(
    "--catalog",
    cls=CatalogOption,
    metavar="NAME",
    help="Name of a shipped catalog, or a TOML file (default: the setting catalog).",
)
@click.option(
    "--slo",
    type=Number(min=0),
    metavar="SECONDS",
    help="Latency target in seconds (default: that of --observation, else the catalog's).",
)
@click.option(
    "--overprovision",
    type=POSITIVE,
    metavar="X",
    help="Factor by which the policy plans for more than the demand (default: the policy's).",
)
@click.option(
    "--observation", type=FILE_IN, help="JSON file of what the planner observes, as written by `plan shadow --save`."
)
@PARAMETERS
@SHOWN
@click.pass_obj
def solve(
    obj: LazySettings,
    policy: str | None,
    demand: float | None,
    workers: int | None,
    catalog: str | None,
    slo: float | None,
    overprovision: float | None,
    observation: Path | None,
    parameters: tuple[str, ...],
    output: str,
) -> None:
    """Make one plan and print it. Needs no Kafka and no running pipeline, and changes nothing.

    \b
    Examples:
      pochade plan solve --policy diffserve --demand 24 --workers 16 --catalog diffserve-sdturbo --overprovision 1
      pochade plan solve --policy hadis --demand 2 --workers 16 --catalog hadis-l40s --slo 60 -o json
      pochade plan solve --observation seen.json --workers 20
    """
    from agents.commands.plan_tables import print_json, print_report
    from agents.planner.propose import rules_of
    from agents.planner.report import Task, report, solve_task, with_overprovision
    from planner.policies import DEFAULT
    from streams import catalogs

    name = policy or obj().planner.policy or DEFAULT
    held = catalogs.measured(catalog or obj().catalog)
    if lacking := catalogs.without_profile(held):
        click.echo(f"not installed: {lacking}", err=True)
    asked_s = held.slo_s if slo is None and observation is None else slo
    task = Task(
        name, _observation(observation, demand, workers, asked_s), held, {}, numbers(parameters), rules_of(obj())
    )
    task = with_overprovision(task, overprovision)
    found = report(task, solve_task(task))
    if output == "json":
        print_json(found)
    else:
        print_report(found)


def _observation(file: Path | None, demand: float | None, workers: int | None, slo: float | None) -> "Observation":
    """Return the file's observation, if there is one, changed by the options."""
    import time
    from dataclasses import replace

    from agents.planner.observation_file import idle_workers, read
    from planner.observation.observation import Observation

    if file is None and (demand is None or workers is None):
        raise click.UsageError("give --demand and --workers, or --observation FILE")
    now_ms = time.time_ns() // 1_000_000
    seen = read(file) if file else Observation(now_ms=now_ms, demand_rps=0.0)
    if demand is not None:
        seen = replace(seen, demand_rps=demand, forecast_rps=None, counts=())
    if workers is not None:
        seen = replace(seen, workers=idle_workers(workers, seen.now_ms))
    return replace(seen, slo_ms=1000 * slo) if slo is not None else seen
