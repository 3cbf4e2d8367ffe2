"""`pochade plan ...`: show plans, solve one, and order which policy plans."""

import click

from agents.commands.plan_live import explain, shadow
from agents.commands.plan_orders import pin, rollback, unpin
from agents.commands.plan_solve import solve
from streams.cli import LazySettings
from streams.command_groups import CommandGroup
from streams.commands.options import SHOWN

SHOWN_PLANS = 20  # decisions, by `history`


@click.group(cls=CommandGroup, epilog="\b\nExamples:\n  pochade plan solve --demand 24 --workers 16")
def plan() -> None:
    """Show the plans of a running pipeline, order which policy makes them, or solve one without a pipeline."""


@plan.command(epilog="\b\nExamples:\n  pochade plan show -o json")
@SHOWN
@click.pass_obj
def show(obj: LazySettings, output: str) -> None:
    """Show the plan that the pipeline obeys now."""
    from agents.commands.plan_tables import print_json, print_plan
    from streams.control.history import in_force, published

    history = published(obj())
    if output == "json":
        print_json(in_force(history))
    else:
        print_plan(in_force(history), history.pin)


@plan.command(epilog="\b\nExamples:\n  pochade plan history -o json")
@SHOWN
@click.pass_obj
def history(obj: LazySettings, output: str) -> None:
    """List the 20 newest decisions, the newest last, and for how long each was in force.

    Plans that decide the same are one decision, of the first one's version and reason.
    """
    from agents.commands.plan_tables import decisions_as_json, print_history, print_json
    from planner.control.renewal.same_plan import decisions
    from streams.clock import now_ms
    from streams.control.history import published

    found, now = decisions(published(obj()).plans)[-SHOWN_PLANS:], now_ms()
    if output == "json":
        print_json(decisions_as_json(found, now))
    else:
        print_history(found, now)


@plan.command(epilog="\b\nExamples:\n  pochade plan diff\n  pochade plan diff 3\n  pochade plan diff 3 7")
@click.argument("before", type=click.IntRange(1), required=False)
@click.argument("after", type=click.IntRange(1), required=False)
@SHOWN
@click.pass_obj
def diff(obj: LazySettings, before: int | None, after: int | None, output: str) -> None:
    """Show how plan AFTER (default: the plan in force) differs from plan BEFORE (default: the plan before it)."""
    from agents.commands.plan_tables import print_differences, print_json
    from agents.planner.describing import differences
    from streams.control.history import in_force, one_before, published
    from streams.control.topic import of_version

    found = published(obj(), *(version for version in (before, after) if version))
    new = of_version(found.plans, after) if after else in_force(found)
    old = of_version(found.plans, before) if before else one_before(found, new)
    rows = differences(old, new)
    if output == "json":
        changes = [{"what": what, "before": was, "after": now} for what, was, now in rows]
        print_json({"before": old.version, "after": new.version, "changes": changes})
    else:
        print_differences(old.version, new.version, rows)


for command in (pin, unpin, rollback, solve, shadow, explain):
    plan.add_command(command)
