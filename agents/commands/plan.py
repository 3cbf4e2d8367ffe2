"""`pochade plan ...`: look at the plans that were published, and pin a policy."""

import getpass
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from streams.cli import LazySettings

if TYPE_CHECKING:
    from schemas.messages import Cascade, Pin, Plan
    from streams.settings import Settings

READ_S = 15
OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


@click.group(epilog="Example: pochade plan pin clipper-heavy")
def plan() -> None:
    """Show the plan in force and those before it; pin a policy or let the configured one plan again."""


@plan.command(epilog="Example: pochade plan show -o json")
@OUTPUT
@click.pass_obj
def show(obj: LazySettings, output: str) -> None:
    """Show the plan that the pipeline obeys now."""
    from schemas.errors import PochadeError

    plans, pin = _read(obj())
    if not plans:
        raise PochadeError("no plan has been published: is a planner running? (`pochade serve planner`)")
    if output == "json":
        click.echo(json.dumps(asdict(plans[-1]), indent=2))
    else:
        _print_plan(plans[-1], pin)


@plan.command(epilog="Example: pochade plan history -o json")
@OUTPUT
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many plans.")
@click.pass_obj
def history(obj: LazySettings, output: str, last: int) -> None:
    """List the plans published before, the newest last."""
    plans, _ = _read(obj())
    if output == "json":
        click.echo(json.dumps([asdict(p) for p in plans[-last:]], indent=2))
        return
    _table(
        ["version", "policy", "at", "allocation", "reason"],
        [[str(p.version), p.policy, _at(p.created_ms), _allocation(p), p.reason] for p in plans[-last:]],
    )


@plan.command(epilog="Example: pochade plan pin random-split --parameter heavy_share=0.3")
@click.argument("policy")
@click.option("--parameter", "parameters", multiple=True, metavar="NAME=NUMBER", help="Of the policy; may be repeated.")
@click.pass_obj
def pin(obj: LazySettings, policy: str, parameters: tuple[str, ...]) -> None:
    """Have one policy plan until unpinned, without restarting anything."""
    from agents import catalogs
    from planner.observation import Observation
    from planner.policies import named
    from streams.reading import now_ms

    numbers = dict(_number(parameter) for parameter in parameters)
    # a trial on an empty fleet: an unknown policy or parameter is told here, not in the planner's log
    named(policy)(Observation(now_ms=now_ms(), demand_rps=0.0), catalogs.load(obj().catalog), {}, numbers)
    _write_pin(obj(), policy, numbers)
    click.echo(f"{policy} is pinned; `pochade plan show` tells when its plan is in force")


@plan.command(epilog="Example: pochade plan unpin")
@click.pass_obj
def unpin(obj: LazySettings) -> None:
    """Let the configured policy plan again."""
    _write_pin(obj(), "", {})
    click.echo("unpinned: the configured policy plans again")


def _number(parameter: str) -> tuple[str, float]:
    name, _, value = parameter.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise click.BadParameter(f"{parameter!r} is not NAME=NUMBER, such as heavy_share=0.3") from None


def _read(settings: "Settings") -> tuple[list["Plan"], "Pin | None"]:
    from schemas import topics
    from schemas.messages import Pin, Plan
    from schemas.record import Incoming
    from streams.codec import decode
    from streams.reading import Follower

    plans: list[Plan] = []
    pins: list[Pin | None] = [None]

    def on_record(record: Incoming) -> None:
        if record.key == topics.PIN_KEY.encode():
            found = decode(record.value, Pin) if record.value else None
            pins.append(found if found and found.policy else None)
        elif record.value:
            plans.append(decode(record.value, Plan))

    follower = Follower(settings, [topics.PLAN], on_record).start()
    try:
        follower.wait_caught_up(READ_S)
    finally:
        follower.close()
    return plans, pins[-1]


def _write_pin(settings: "Settings", policy: str, parameters: dict[str, float]) -> None:
    from agents.writing import outgoing
    from schemas import topics
    from schemas.messages import Pin
    from streams.producer import KafkaRecordProducer, send_all
    from streams.reading import now_ms

    order = Pin(policy=policy, parameters=parameters, by=getpass.getuser(), created_ms=now_ms())
    producer = KafkaRecordProducer(settings)
    record = outgoing(topics.PLAN, order, request_id=topics.PIN_KEY, cause={}, role="operator", now_ms=now_ms())
    try:
        send_all(producer, [record], READ_S)
    finally:
        producer.close()


def _print_plan(shown: "Plan", pin: "Pin | None") -> None:
    routes = [f"{_where(route)} -> {_shares(route.levels)}" for route in shown.routes]
    cascades = [_cascade(cascade) for cascade in shown.cascades]
    expected = shown.expected
    _table(
        ["plan", str(shown.version)],
        [
            ["policy", shown.policy + (f" (pinned by {pin.by})" if pin else "")],
            ["published", _at(shown.created_ms)],
            ["reason", shown.reason],
            ["routes", "\n".join(routes)],
            ["cascades", "\n".join(cascades) or "none"],
            ["workers", _allocation(shown)],
            ["dispatch", f"{shown.dispatch}, batches {shown.batch or 1}"],
            ["expected", json.dumps(asdict(expected)) if expected else "nothing said"],
        ],
    )


def _cascade(cascade: "Cascade") -> str:
    over = f", over the draft from step {cascade.paint_over_step}" if cascade.paint_over_step else ""
    return f"{cascade.level} -> {cascade.next_level} if {cascade.discriminator} < {cascade.threshold:.3f}{over}"


def _where(route: Any) -> str:
    return f"class {route.label}" if route.label else f"hardness {route.hardness_from:g} to {route.hardness_to:g}"


def _shares(levels: dict[str, float]) -> str:
    return ", ".join(f"{level} {share:.0%}" for level, share in sorted(levels.items()) if share > 0)


def _allocation(shown: "Plan") -> str:
    return ", ".join(f"{worker}: {variant}" for worker, variant in sorted(shown.allocation.items())) or "none"


def _at(ms: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(ms / 1000).astimezone().isoformat(" ", "seconds")


def _table(columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
