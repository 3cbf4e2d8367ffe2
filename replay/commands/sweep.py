"""`pochade simulate --sweep workers=4:32`: the smallest fleet that holds a service level."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from schemas.errors import PochadeError

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and the planner
    from replay.simulation.setup import Setup
    from replay.traces import Trace

MAX_WORKERS = 100_000  # workers


class Span(click.ParamType):
    """Option type of a range such as `workers=4:32`; its value is the two numbers."""

    name = "workers=low:high"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return the two numbers, both included in the range."""
        if isinstance(value, tuple):
            return value
        what, _, span = str(value).partition("=")
        low, _, high = span.partition(":")
        if what != "workers" or not (
            low.isdecimal() and high.isdecimal() and 1 <= int(low) <= int(high) <= MAX_WORKERS
        ):
            self.fail(f"{value!r} is no span of workers: write workers=4:32, from 1 to {MAX_WORKERS}", param, ctx)
        return int(low), int(high)


OPTIONS = (
    click.option(
        "--sweep",
        "span",
        type=Span(),
        help="Find the smallest number of workers from LOW to HIGH that meets --hold, such as workers=4:32.",
    ),
    click.option(
        "--hold",
        type=click.FloatRange(0, 1),
        default=0.99,
        show_default=True,
        help="Share of requests that must end within --slo, for --sweep.",
    ),
)


def show(setups: "Sequence[Setup]", trace: "Trace", seeds: int, span: tuple[int, int], hold: float) -> None:
    """Simulate, and print every fleet that was tried and the answer. Raises PochadeError where no policy has one."""
    from rich.console import Console
    from rich.table import Table

    from replay.simulation.session import simulate
    from replay.simulation.sweep import answer, sweep

    console, waiting = Console(), Console(stderr=True)
    table = Table(box=None, pad_edge=False)
    for name in ("policy", "workers", "in time", "busy", "worker s"):
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    answers, found = [], []
    for setup in setups:
        with waiting.status(f"{setup.policy}: {span[0]} to {span[1]} workers"):
            fleet, tried = sweep(setup, span, hold, lambda each: simulate(each, trace, seeds, lambda _: None))
        for each in tried:
            numbers = f"{each.in_time:.2%}", f"{each.utilization:.0%}", f"{each.cost_worker_s:,.0f}"
            table.add_row(setup.policy, str(each.workers), *numbers)
        answers.append(answer(setup.policy, fleet, tried, hold, setup.slo_ms / 1000))
        found.append(fleet)
    console.print(table)
    for sentence in answers:
        console.print(sentence, highlight=False, soft_wrap=True)
    if all(fleet is None for fleet in found):
        raise PochadeError(f"no policy holds {hold:.2%} with up to {span[1]} workers")
