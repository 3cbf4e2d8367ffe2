"""Made workloads after the papers': rate curves. Times and rates are options."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from replay.traces.rates import Knot, along
from replay.traces.trace import MAX_SPAN_MS, InvalidTrace, Trace, of_arrivals
from schemas.errors import Unknown

MAX_KNOTS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A workload's shape; None for the paper's."""

    name: str
    rates_rps: tuple[float, ...] = ()
    seconds: float | None = None
    every_s: float | None = None  # a burst, and the calm before it


def ramp(shape: Shape) -> list[Knot]:
    """Go from the first rate to the second along a line.

    Source: ARGUS 5.3 and Fig. 17, 40 to 540 a minute; 5.1 has 50 to 600 in about 800 minutes.
    """
    low, high = _rates(shape, 2, (40 / 60, 540 / 60))
    return [Knot(0, low), Knot(_seconds(shape, 800 * 60), high)]


def burst(shape: Shape) -> list[Knot]:
    """Calm at the first rate and a burst at the second, in turn, each for `every_s`. Source: ARGUS 5.1, "interleaved
    periods of low and high query demand"; it gives no figures: the defaults are ours, within Fig. 16's range."""
    calm, high = _rates(shape, 2, (100 / 60, 500 / 60))
    seconds, every_s = _seconds(shape, 3600), 300.0 if shape.every_s is None else shape.every_s
    if not 0 < every_s <= seconds or seconds / every_s > MAX_KNOTS:
        raise InvalidTrace(f"--every must be above 0 and at most the {seconds:g} s of the trace: got {every_s:g} s")
    edges = [*np.arange(0, seconds, every_s).tolist(), seconds]
    return _stairs([calm if number % 2 == 0 else high for number in range(len(edges) - 1)], edges)


def steps(shape: Shape) -> list[Knot]:
    """Hold the rates one after the other, each for an equal time.

    Source: HADIS 4.3, Fig. 6: four pieces, up, peak, down; the figure only draws its rates: the defaults are ours.
    """
    rates = _rates(shape, None, (1.0, 4.0, 8.0, 2.0))
    return _stairs(rates, np.linspace(0, _seconds(shape, 1200), len(rates) + 1).tolist())


CURVES: Final[dict[str, Callable[[Shape], list[Knot]]]] = {"ramp": ramp, "burst": burst, "steps": steps}


def shaped(shape: Shape, spacing: str, seed: int) -> Trace:
    """Return the trace of a shape. Equal arguments give equal traces. Raises InvalidTrace, Unknown."""
    if shape.name not in CURVES:
        raise Unknown("shape", shape.name, CURVES)
    arrival_ms = along(CURVES[shape.name](shape), spacing, seed)
    if not len(arrival_ms):
        raise InvalidTrace(f"the shape {shape.name} gives no request: give higher rates, or a longer time")
    given = {name: value for name, value in dataclasses.asdict(shape).items() if value not in (None, ())}
    return of_arrivals(arrival_ms, shape.name, f"pochade replay make: {given}, spacing {spacing}, seed {seed}")


def _stairs(rates: Sequence[float], edges: Sequence[float]) -> list[Knot]:
    spans = zip(rates, itertools.pairwise(edges), strict=True)
    return [Knot(at, rate) for rate, edge in spans for at in edge]


def _rates(shape: Shape, count: int | None, papers: tuple[float, ...]) -> tuple[float, ...]:
    rates = shape.rates_rps or papers
    if count is not None and len(rates) != count:
        raise InvalidTrace(f"the shape {shape.name} has {count} rates: got {len(rates)}")
    return rates


def _seconds(shape: Shape, papers: float) -> float:
    seconds = papers if shape.seconds is None else shape.seconds
    if not 0 < seconds <= MAX_SPAN_MS / 1000:
        raise InvalidTrace(f"a trace lasts more than 0 s and at most {MAX_SPAN_MS / 1000:g} s: got {seconds:g} s")
    return seconds
