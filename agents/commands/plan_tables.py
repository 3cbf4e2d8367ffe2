"""Prints the results of `pochade plan`: tables for people, JSON for programs."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.table import Column, Table

from agents.planner.describing import (
    describe_admission,
    describe_cascade,
    describe_residency,
    describe_reuse,
    describe_routes,
)
from planner.control.renewal.same_plan import Decision
from schemas.avro import to_wire
from schemas.messages import Cascade, Pin, Plan, Route
from streams.clock import utc
from streams.codec.avro import from_values
from streams.commands import listing
from streams.commands.options import duration
from streams.commands.terminal import console
from streams.control.reuse import is_asked_for

Row = Sequence[str]
EXPECTED = {
    "demand_rps": "demand {:.3g} requests/s", "utilization": "utilization {:.0%}",
    "heavy_share": "share of the best level {:.0%}", "fid": "FID {:.4g} (lower is better)",
}  # fmt: skip
WHOLE = ("version", "policy", "variant")  # columns of names: never cut, however narrow the terminal


def print_json(value: Any) -> None:
    """Plain values and messages, as JSON with the names on the wire."""
    click.echo(json.dumps(value, indent=2, default=lambda message: to_wire(type(message))(message)))


def print_plan(shown: Plan, pin: Pin | None) -> None:
    """Print one plan, a line for each of its parts."""
    rows = [
        ("policy", shown.policy + _ordered(shown.policy, pin)),
        ("published", utc(shown.created_ms)),
        ("reason", shown.reason),
        ("routes", describe_routes(shown.routes)),
        ("cascades", "\n".join(map(describe_cascade, shown.cascades)) or "none"),
        ("workers", _workers(shown.allocation)),
        ("dispatch", f"{shown.dispatch}, batches {_counts(shown.batch) or 1}"),
        ("admitted", describe_admission(shown.admission)),
        *([("reuse", describe_reuse(shown.reuse))] if shown.reuse is not None and is_asked_for(shown) else []),
        *([("components", describe_residency(shown.residency))] if shown.residency else []),
        ("expected", _expected(dataclasses.asdict(shown.expected)) if shown.expected else "not known"),
        ("evidence", (shown.expected.evidence if shown.expected else "") or "none"),
    ]
    _print(["plan", str(shown.version)], rows)


def print_history(decisions: Sequence[Decision], now_ms: int) -> None:
    """Print one line per decision."""
    rows = [
        (str(each.plan.version), each.plan.policy, utc(each.plan.created_ms), duration(each.stood_ms(now_ms)),
         str(each.published), each.plan.reason)
        for each in decisions
    ]  # fmt: skip
    _print(["version", "policy", "at", "in force for", "published", "reason"], rows)


def decisions_as_json(decisions: Sequence[Decision], now_ms: int) -> list[dict[str, Any]]:
    """Return each decision's plan with how often it was published, and for how long it was in force."""
    return [
        {**to_wire(Plan)(each.plan), "published": each.published, "in_force_ms": each.stood_ms(now_ms)}
        for each in decisions
    ]


def print_differences(before: int, after: int, rows: Sequence[Row]) -> None:
    """Print one line per change."""
    _print(["what", f"plan {before}", f"plan {after}"], rows)


def print_report(found: Mapping[str, Any]) -> None:
    """Print a solved plan."""
    _print(["plan by", found["policy"]], _report(found))


def print_shadow(in_force: Plan | None, would: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Print what would be decided, then the differences from the plan in force."""
    print_report(would)
    if in_force is None:
        click.echo("no plan is in force: is a planner running? (`pochade serve planner`)")
    elif rows:
        _print(["what", f"plan {in_force.version} in force", f"{would['policy']} would"], rows)
    else:
        click.echo(f"it would decide as plan {in_force.version} in force does")


def print_explained(found: Mapping[str, Any]) -> None:
    """Print the limits, and the plan with one worker more or less."""
    click.echo("\n".join(f"limit: {limit}" for limit in found["binding"]) or "no limit is reached: there is room")
    _print(
        ["variant", "workers", "images/s offered", "images/s capacity", "busy"],
        [
            (load["variant"], str(load["workers"]), f"{load['offered_rps']:.3g}", f"{load['capacity_rps']:.3g}",
             f"{load['utilization']:.0%}")
            for load in found["loads"]
        ],
    )  # fmt: skip
    columns = {name: dict(_report(found[name])) for name in ("one_less", "now", "one_more") if name in found}
    click.echo(f"evidence: {columns['now']['evidence']}")
    names = {"one_less": "one worker less", "now": "now", "one_more": "one worker more"}
    parts = [part for part in next(iter(columns.values())) if part not in ("solved in", "dispatch", "evidence")]
    _print(
        ["", *(names[name] for name in columns)], [(part, *(rows[part] for rows in columns.values())) for part in parts]
    )


def _report(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    routes = [_route(route) for route in found["routes"]]
    return [
        ("feasible", "yes" if found["feasible"] else "no: not all of the demand is served in time"),
        ("reason", found["reason"]),
        ("routes", describe_routes(routes)),
        ("cascades", "\n".join(describe_cascade(_cascade(table)) for table in found["cascades"]) or "none"),
        ("workers", _counts(found["allocation"]) or "none"),
        ("batches", _counts(found["batch"])),
        ("dispatch", found["dispatch"]),
        ("admitted", found["admission"]["reason"] if found["admission"] else "all requests"),
        ("expected", _expected(found["expected"])),
        ("evidence", found["expected"].get("evidence") or "none"),
        ("solved in", f"{found['solve_ms']:.1f} ms"),
    ]


def _route(table: Mapping[str, Any]) -> Route:
    route: Route = from_values(Route, table)
    return route


def _cascade(table: Mapping[str, Any]) -> Cascade:
    return Cascade(
        level=table["from"], next_level=table["to"], discriminator=table["discriminator"],
        threshold=table["threshold"], refine_from_step=table["paint_over_step"],
    )  # fmt: skip


def _expected(table: Mapping[str, Any]) -> str:
    known = [words.format(table[name]) for name, words in EXPECTED.items() if table.get(name) is not None]
    return ", ".join([*known, *_quality(table)]) or "not known"


def _quality(table: Mapping[str, Any]) -> Sequence[str]:
    """Return the expected quality with its interval, or that none is known; nothing where FID stands for it."""
    if table.get("quality") is None or table.get("fid") is not None:
        return []
    if table.get("quality_low") is None:
        return [f"quality {table['quality']:.3f} (number of prompts unknown)"]
    interval = f"[{table['quality_low']:.3f}, {table['quality_high']:.3f}]"
    return [f"quality {table['quality']:.3f} {interval} (95 %, {table['quality_prompts']} prompts)"]


def _ordered(policy: str, pin: Pin | None) -> str:
    """Return how an operator's order explains the policy of the plan in force."""
    if pin is None:
        return ""
    if pin.plan_version:
        return f" (back to plan {pin.plan_version}, by {pin.by})"
    numbers = "".join(f", {name} {value:g}" for name, value in sorted(pin.parameters.items()))
    if pin.policy == policy:
        return f" (pinned by {pin.by}{numbers})"
    return f" ({pin.policy} is pinned by {pin.by}{numbers}, and not in force yet: does a planner run?)"


def _workers(allocation: Mapping[str, str]) -> str:
    return ", ".join(f"{worker}: {variant}" for worker, variant in sorted(allocation.items())) or "none"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _print(columns: Sequence[str], rows: Sequence[Row]) -> None:
    if not listing.is_terminal():
        listing.tab_separated(columns, rows)
        return
    table = Table(*(Column(name, no_wrap=name in WHOLE) for name in columns))
    for row in rows:
        table.add_row(*row)
    console(markup=False).print(table)
