"""`pochade replay what-if`: how another plan would have served the requests of the past."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.commands.options import SLO, seed_option
from streams.commands.options import SHOWN, duration, since_option
from streams.visible import counted

if TYPE_CHECKING:  # the clients take half a second to load, which --help need not wait for
    from rich.table import Table

    from streams.settings import Settings

SECONDS = {"latency_p50_s": "latency, median", "latency_p95_s": "latency, 95 %"}


@click.command("what-if")
@click.option(
    "--plan",
    "named",
    required=True,
    metavar="VERSION|FILE",
    help="Version of a published plan, or a JSON file that holds a plan.",
)
@since_option("How far back to read results, such as 1h.", "1h")
@SLO
@seed_option("the bootstrap resamples behind the intervals")
@SHOWN
@click.pass_obj
def what_if(
    load: "Callable[[], Settings]", named: str, since: int, slo_s: float | None, seed: int, output: str
) -> None:
    """Estimate how another plan would have served the requests that have ended, without generating images.

    The first level of every request was drawn with a known probability; weighting results by its inverse estimates
    another plan, with intervals. The output names what the past cannot answer: levels that were never drawn, and images
    kept that this plan would have escalated. Latencies are those of the load at the time: to change load or workers,
    use `pochade simulate`.

    \b
    Examples:
      pochade replay what-if --plan 3
      pochade plan shadow hadis -o json > hadis.json && pochade replay what-if --plan hadis.json --since 2h
    """
    from rich.console import Console

    from replay.what_if import answer, collect, read_plan
    from streams.catalogs import measured as load_catalog
    from streams.commands import opening
    from streams.control.topic import plan_of_version

    settings = load()
    target_s = slo_s or settings.planner.slo_s or load_catalog(settings.catalog).slo_s
    if not target_s:
        raise click.UsageError("give --slo SECONDS: neither the setting planner.slo_s nor the catalog says one")
    plan = plan_of_version(settings, int(named)) if named.isdecimal() else read_plan(Path(named))
    with opening.client(settings) as client:
        collected = collect(opening.results_of(client, since))
    found = answer(collected, plan, 1000 * target_s, seed)
    if output == "json":
        click.echo(json.dumps(found, indent=2))
    else:
        _show(found, duration(since), Console())


def _show(found: Mapping[str, Any], span: str, console: Any) -> None:
    console.print(_table(found))
    skipped = sum(found["skipped"].values())
    console.print(
        f"{found['rests_on']} They ended in the last {span}; the latency target is {found['slo_s']:g} s. The level of "
        f"{found['undrawn']} of them was not drawn. {counted(skipped, 'result')} more cannot be used: no plan would "
        "have changed the end, or the path is unknown."
    )
    for doubt in found["doubts"]:
        console.print(f"[yellow]doubtful:[/] {doubt}")


def _table(found: Mapping[str, Any]) -> "Table":
    from rich.table import Table

    name = f"plan {found['plan_version']}" if found["plan_version"] else found["policy"] or "the plan"
    table = Table(box=None, pad_edge=False)
    for column in ("", "as it went", f"under {name}", "95 % interval"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for key in sorted({**found["as_it_went"], **found["estimate"]}, key=lambda key: (key.startswith("answered"), key)):
        went, would = found["as_it_went"].get(key), found["estimate"].get(key)
        form = _form(key)
        interval = f"{form.format(would['low'])} to {form.format(would['high'])}" if would else "-"
        cells = [form.format(each["value"]) if each else "-" for each in (went, would)]
        table.add_row(_label(key, found["slo_s"]), *cells, interval)
    return table


def _label(key: str, slo_s: float) -> str:
    labels = {"violations": f"later than {slo_s:g} s or not at all", "work_ms": "worker ms a request",
              "painted_again": "generated again"}  # fmt: skip
    return {**labels, **SECONDS}.get(key, key)


def _form(key: str) -> str:
    if key in SECONDS:
        return "{:.2f} s"
    return "{:.0f}" if key == "work_ms" else "{:.1%}"
