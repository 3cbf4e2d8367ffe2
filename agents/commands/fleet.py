"""`pochade fleet`: which worker holds which model component in which tier of memory, and how that fits demand."""

from collections.abc import Mapping
from typing import Any

import click

from streams.cli import LazySettings
from streams.commands import listing
from streams.commands.options import SHOWN
from streams.visible import counted

WORKER_COLUMNS = ("worker", "variant", "state", "device", "host", "volume", "lacks", "hits", "moved", "loads")
COMPONENT_COLUMNS = ("variant", "component", "popularity", "requests", "device", "host", "volume", "wanted")


@click.command()
@SHOWN
@click.pass_obj
def fleet(obj: LazySettings, output: str) -> None:
    """Show which worker holds which component in which tier, hit rates, bytes moved, and the mismatch with demand.

    "lacks" is what the plan in force wants on a worker and it does not hold near enough yet. Hits, moved bytes and
    loads (components that a job waited for) are since the worker's start, reported while it serves a variant that has
    bases. The mismatch is Eq. 2 of MLoRA over bases: 0 says that shares of what is held equal shares of demand, 2 that
    nothing held is asked for. A worker on an NVIDIA card reports the card's memory in use, temperature and utilisation.

    \b
    Examples:
      pochade fleet
      pochade fleet -o json | jq '.workers[] | {worker, held}'
    """
    from agents.planner.fleet_report import device_in_words, fleet_report
    from agents.planner.live import observe_once
    from streams import catalogs
    from streams.visible import json_text, visible

    live = observe_once(obj(), catalogs.measured(obj().catalog))
    found = fleet_report(live.observation, live.plan, live.out, live.devices)
    if output == "json":
        click.echo(json_text(found, indent=2))
        return
    listing.show([_worker(each) for each in found["workers"]], WORKER_COLUMNS, "table")
    for name, device in live.devices.items():
        click.echo(visible(f"{name} runs on {device_in_words(device)}"))
    if found["components"]:
        click.echo()
        listing.show(found["components"], COMPONENT_COLUMNS, "table")
    click.echo()
    for line in _totals(found):
        click.echo(visible(line))


def _worker(row: Mapping[str, Any]) -> dict[str, Any]:
    held = {label: _residency_text(row, label) for label in ("device", "host", "volume")}
    return {
        "worker": row["worker"],
        "variant": row["variant"] or "-",
        "state": row["state"],
        **held,
        "lacks": " ".join(row["missing"]) or "-",
        "hits": _rates(row["hit_rates"]) or "-",
        "moved": _bytes(sum(row["moved_bytes"].values())),
        "loads": row["loads"],
    }


def _residency_text(row: Mapping[str, Any], label: str) -> str:
    if not row["reports_components"]:
        return "-"
    budget = row["budget_bytes"].get(label)
    room = "" if budget is None else f" ({_bytes(row['held_bytes'].get(label, 0))} of {_bytes(budget)})"
    return f"{' '.join(row['held'][label]) or 'nothing'}{room}"


def _totals(found: Mapping[str, Any]) -> list[str]:
    places = "says who holds what" if found["places_components"] else "leaves components to the workers"
    lines = [f"plan {found['plan']} by {found['policy']} {places}" if found["plan"] else "no plan is in force"]
    lines += [f"worker {worker} is {why}" for worker, why in found["out"].items()]
    if any(each["reports_components"] for each in found["workers"]):
        rates = _rates(found["hit_rates"])
        lines.append(
            f"components of jobs found in {rates}" if rates else "no job has used a component of these workers"
        )
        moved = ", ".join(f"{_bytes(count)} into {label}" for label, count in found["moved_bytes"].items())
        lines.append(f"{counted(found['loads'], 'load')} that a job waited for, {moved or 'nothing'} moved")
    else:
        lines.append("no live worker serves a variant that has bases: what jobs found is not known meanwhile")
    for variant, each in found["mismatch"].items():
        lines.append(
            f"mismatch of {variant}'s bases: {each['held']:.2f} as held, {each['uniform']:.2f} if all were held alike; "
            f"{each['misplaced_share']:.0%} of what is held lies where demand is not"
        )
    return lines


def _rates(rates: Mapping[str, float]) -> str:
    return ", ".join(f"{label} {share:.0%}" for label, share in rates.items())


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
