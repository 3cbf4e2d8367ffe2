"""`pochade plan shadow|explain`: policies on what the pipeline sees now, without being obeyed."""

from pathlib import Path

import click

from agents.commands.options import PARAMETERS, numbers
from streams.cli import LazySettings
from streams.commands.known_names import PolicyOption
from streams.commands.options import FILE, FILE_IN, SHOWN


@click.command(
    epilog="\b\nExamples:\n  pochade plan shadow hadis\n  pochade plan shadow argus --save seen.json -o json"
)
@click.argument("policy")
@PARAMETERS
@click.option("--save", type=FILE, help="File to write the observation to, as JSON, for `plan solve --observation`.")
@SHOWN
@click.pass_obj
def shadow(obj: LazySettings, policy: str, parameters: tuple[str, ...], save: Path | None, output: str) -> None:
    """Show what POLICY would decide now, beside the plan in force. The shadow plan is not published."""
    from agents.commands.plan_tables import print_json, print_shadow
    from agents.planner.describing import differences
    from agents.planner.live import observe_once
    from agents.planner.observation_file import write
    from agents.planner.propose import rules_of
    from agents.planner.report import Task, report, solve_task
    from planner.control.plans import memory_of, publish
    from planner.policies import named
    from streams import catalogs

    named(policy)  # an unknown policy is reported before anything is read
    catalog = catalogs.measured(obj().catalog)
    live = observe_once(obj(), catalog)
    if save is not None:
        write(live.observation, save)
    memory = memory_of(live.plan, policy)
    task = Task(policy, live.observation, catalog, memory, numbers(parameters), rules_of(obj()))
    found = solve_task(task)
    would = report(task, found)
    rows = differences(live.plan, publish(found.proposal, live.plan, policy, 0)) if live.plan else []
    if output == "json":
        changes = [{"what": what, "in_force": was, "shadow": then} for what, was, then in rows]
        print_json({"in_force": live.plan, "shadow": would, "changes": changes})
    else:
        print_shadow(live.plan, would, rows)


@click.command(epilog="\b\nExamples:\n  pochade plan explain\n  pochade plan explain --observation seen.json -o json")
@click.option(
    "--policy",
    cls=PolicyOption,
    metavar="NAME",
    help="Policy whose plan is explained (default: the policy of the plan in force).",
)
@click.option(
    "--observation", type=FILE_IN, help="JSON file of what the planner observes, instead of the running pipeline."
)
@PARAMETERS
@SHOWN
@click.pass_obj
def explain(
    obj: LazySettings, policy: str | None, observation: Path | None, parameters: tuple[str, ...], output: str
) -> None:
    """Show what limits the plan at the current demand, what one more worker would gain and one less would lose."""
    from agents.commands.plan_tables import print_explained, print_json
    from agents.planner.live import observe_once
    from agents.planner.observation_file import read
    from agents.planner.propose import rules_of
    from agents.planner.report import Task, explain_plan
    from planner.control.plans import memory_of
    from planner.policies import DEFAULT
    from streams import catalogs

    catalog = catalogs.measured(obj().catalog)
    given = numbers(parameters)
    if observation is not None:
        task = Task(policy or obj().planner.policy or DEFAULT, read(observation), catalog, {}, given)
    else:
        live = observe_once(obj(), catalog)
        name = policy or (live.plan.policy if live.plan else obj().planner.policy or DEFAULT)
        pinned = live.pin.parameters if live.pin and live.pin.policy == name else obj().planner.parameters
        task = Task(name, live.observation, catalog, memory_of(live.plan, name), given or pinned)
    found = explain_plan(task._replace(rules=rules_of(obj())))
    if output == "json":
        print_json(found)
    else:
        print_explained(found)
