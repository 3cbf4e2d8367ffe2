"""`pochade plan pin|unpin|rollback`: an operator's orders to the planner."""

import click

from agents.commands.options import PARAMETERS, numbers
from streams.cli import LazySettings


@click.command(epilog="\b\nExamples:\n  pochade plan pin random-split --parameter heavy_share=0.3")
@click.argument("policy")
@PARAMETERS
@click.pass_obj
def pin(obj: LazySettings, policy: str, parameters: tuple[str, ...]) -> None:
    """Pin POLICY: the running planner uses it until `plan unpin`, without a restart.

    The command ends when a plan by POLICY is in force; with exit status 1 if none is within 20 s, and says why.
    """
    from planner.observation.observation import Observation
    from planner.policies import named
    from planner.reuse.terms import check_live
    from streams import catalogs
    from streams.clock import now_ms
    from streams.commands.recording import recorded
    from streams.control.topic import await_answer, order

    given, catalog = numbers(parameters), catalogs.measured(obj().catalog)
    # a trial on an empty fleet: what is unknown, or no live role can do, is reported here, not in the planner's log
    tried = named(policy)(Observation(now_ms=now_ms(), demand_rps=0.0), catalog, {}, given)
    check_live(tried.reuse)
    with recorded(obj(), "pin", policy, {"policy": policy, "parameters": given}) as note:
        note.outcome = await_answer(obj(), order(obj(), policy, given), policy)
    click.echo(f"{policy} is pinned: {note.outcome}")


@click.command(epilog="\b\nExamples:\n  pochade plan unpin")
@click.pass_obj
def unpin(obj: LazySettings) -> None:
    """End a pin or a rollback: the configured policy plans again."""
    from streams.commands.recording import recorded
    from streams.control.history import published
    from streams.control.topic import await_answer, order

    pin = published(obj()).pin
    if pin is None:
        click.echo("nothing is pinned: the configured policy plans")
        return
    was = f"plan {pin.plan_version}" if pin.plan_version else pin.policy
    with recorded(obj(), "unpin", was, {}) as note:
        note.outcome = await_answer(obj(), order(obj()))
    click.echo(f"unpinned {was}, the configured policy plans again: {note.outcome}")


@click.command(epilog="\b\nExamples:\n  pochade plan rollback\n  pochade plan rollback 12\n  pochade plan unpin")
@click.argument("version", type=click.IntRange(1), required=False)
@click.pass_obj
def rollback(obj: LazySettings, version: int | None) -> None:
    """Return to the decision of plan VERSION until `plan unpin`.

    The default is the newest plan by another policy, or from before the present order: it undoes `plan pin`.
    The leading planner publishes that decision as a new plan, for the workers that are there now.
    """
    from streams.commands.recording import recorded
    from streams.control.history import in_force, one_undone, published
    from streams.control.topic import await_answer, of_version, order

    found = published(obj(), version or 0)
    now, plan = in_force(found), of_version(found.plans, version) if version else one_undone(found)
    with recorded(obj(), "rollback", str(plan.version), {}) as note:
        note.outcome = await_answer(obj(), order(obj(), plan_version=plan.version), plan.policy)
    click.echo(
        f"from plan {now.version} by {now.policy} to plan {plan.version} by {plan.policy} "
        f"until `pochade plan unpin`: {plan.reason}; {note.outcome}"
    )
