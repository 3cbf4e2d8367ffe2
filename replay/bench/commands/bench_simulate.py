"""`pochade bench simulate`: `pochade simulate` in worlds that differ from what deployments and catalogs are."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from replay.commands.deviations import CV
from replay.commands.given_options import refuse_given
from replay.commands.simulate import simulate as product
from streams.as_typed import RepeatableCommand
from streams.commands.options import Number

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and the planner
    from replay.simulation.setup import Setup

FACTOR = Number(1, 1000)


class Stragglers(click.ParamType):
    """Option type of a share of calls and the factor by which they take longer, such as `0.01:5`."""

    name = "share:factor"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Return both numbers."""
        if isinstance(value, tuple):
            return value
        share, _, factor = str(value).partition(":")
        try:
            found = float(share), float(factor)
        except ValueError:
            found = math.nan, math.nan
        if not (0 <= found[0] <= 1 and 1 <= found[1] <= 1000):
            self.fail(f"{value!r}: write SHARE:FACTOR, such as 0.01:5, with a factor from 1 to 1000", param, ctx)
        return found


OPTIONS: Final = (
    click.Option(
        ["--truth"],
        multiple=True,
        metavar="ASPECT=NUMBER",
        help="What is true and policies do not know: time.VARIANT, choice, confidence, monotone, class.STRATEGY.LEVEL "
        "(replay/bench/truth.py); may be repeated.",
    ),
    click.Option(
        ["--stragglers"],
        type=Stragglers(),
        help="Share of calls that take longer and the factor by which they do, such as 0.01:5 (default: none).",
    ),
    click.Option(
        ["--load-cv"],
        type=CV,
        default=0.0,
        show_default=True,
        help="Coefficient of variation of load times, which no catalog measures; 0.88 is that of a production trace.",
    ),
    click.Option(
        ["--resident"],
        type=click.IntRange(1, 1000),
        help="Number of models that a worker holds; changing to a held one takes no load time (default: 1, or as many "
        "as --preload and --load-beside need).",
    ),
    click.Option(
        ["--preload", "preloaded"],
        multiple=True,
        metavar="NAME[,NAME...]",
        help="Variants that every worker holds from its start, separated by commas; may be repeated.",
    ),
    click.Option(
        ["--load-beside", "beside_factor"],
        type=FACTOR,
        help="Let a worker load a model beside serving, its calls taking this factor longer meanwhile (default: "
        "loading blocks the worker, as it does live).",
    ),
)


def change_of(asked: Mapping[str, Any]) -> "Callable[[Setup], Setup]":
    """Return what these options change of a setup. Raises PochadeError, Unknown for what cannot be."""
    from replay.bench.truth import Truth
    from replay.simulation.asked import check_fits
    from replay.simulation.setup import Residency
    from schemas.errors import PochadeError

    truth = Truth.parse(asked["truth"])
    if truth and asked["is_recorded"]:
        raise PochadeError("--recorded takes outcomes as they were recorded: leave --truth out")
    preloaded = tuple(name for given in asked["preloaded"] for name in given.split(",") if name)
    least = max(len(preloaded), 2 if asked["beside_factor"] else 1)
    residency = Residency(
        models=asked["resident"] or least, preloaded=preloaded, beside_factor=asked["beside_factor"] or 0.0
    )
    share, factor = asked["stragglers"] or (0.0, 1.0)
    spread = {"straggler_share": share, "straggler_factor": factor, "load_cv": asked["load_cv"]}

    def change(setup: "Setup") -> "Setup":
        for name in preloaded:
            setup.catalog.level(name)
        true = truth.of(setup.true_catalog) if truth else setup.truth
        if true is not None:
            check_fits(setup.catalog, true)
        timing = dataclasses.replace(setup.timing, residency=residency)
        variation = dataclasses.replace(setup.variation, **spread)
        return dataclasses.replace(setup, truth=true, timing=timing, variation=variation)

    return change


@click.pass_context
def _run(context: click.Context, /, **asked: Any) -> None:
    if not asked["loads"]:
        needing = ["load_cv", "resident", "preloaded", "beside_factor"]
        refuse_given(context, needing, "with --no-load, by which changing variant takes no time")
    change = change_of(asked)
    own = {option.name for option in OPTIONS}
    assert product.callback is not None
    product.callback(**{name: value for name, value in asked.items() if name not in own}, change=change)


simulate = RepeatableCommand(
    "simulate",
    callback=_run,
    params=[*product.params, *OPTIONS],
    help="Simulate as `pochade simulate` does, in a world that differs: a truth that policies do not know, calls that "
    "take longer now and then, loads whose times vary, workers that hold several models or load beside serving.",
    epilog="\b\nExamples:\n"
    "  pochade bench simulate t.csv --catalog tiny --policy joint --workers 4 --truth time.heavy=1.2\n"
    "  pochade bench simulate t.csv --catalog tiny --policy argus --workers 4 --load-beside 1.1",
)
