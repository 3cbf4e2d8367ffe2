"""The inputs of questions, and how their figures are averaged and written."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from replay.bench.frontier.cells import Figures
from replay.bench.frontier.grid import GridCell
from replay.bench.papers.fluid_bound import fluid_bound
from replay.bench.papers.runs.cell_runner import Run
from replay.bench.papers.runs.cells import Cell, Found, setup_of
from replay.traces import Trace

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a heading; every cell a text as it is printed."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The amount of runs: `few` seeds where chance matters little, `seeds` where an interval is wanted."""

    seeds: int = 5
    few: int = 5
    other_truths: tuple[str, ...] = ()  # of the frontier, with which joint is compared too, beside the catalog
    is_quick: bool = False  # so little that figures mean nothing: that all questions can be asked


QUICK = Scale(seeds=2, few=1, is_quick=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The inputs of a question."""

    run: Run
    grid: Callable[[Sequence[GridCell]], list[Figures]]  # cells of `pochade bench frontier` -> their figures, in order
    trace: Callable[..., Trace]  # name, and the seed of another draw of its arrivals -> the trace
    scale: Scale


class Mean:
    """Several runs that differ by their seed."""

    def __init__(self, runs: Sequence[Found]) -> None:
        self.runs = runs

    def of(self, name: str) -> float:
        """The mean of a figure; nan where a run has none."""
        return statistics.fmean(self.each(name))

    def each(self, name: str) -> list[float]:
        """A figure, run by run; `fleet.workers` is the figure `workers` of the run's `fleet`."""
        return [float(attrgetter(name)(run)) for run in self.runs]

    @property
    def violations(self) -> float:
        """Share of requests."""
        return self.of("violations")

    @property
    def fid(self) -> float:
        """Where quality is one."""
        return -self.of("quality")

    @property
    def fid_run(self) -> float:
        """FID of all answers of a run together, as the papers judge."""
        return -self.of("quality_run")


def over_seeds(run: Run, cells: Mapping[K, Cell], seeds: int) -> dict[K, Mean]:
    """Each cell with the seeds 0, 1 ...: all run side by side."""
    spread = [dataclasses.replace(cell, seed=seed) for cell in cells.values() for seed in range(seeds)]
    found = run(spread)
    return {name: Mean(found[at * seeds : (at + 1) * seeds]) for at, name in enumerate(cells)}


def bound_fids(asking: Asking, cell: Cell) -> list[float]:
    """Return the FID that no plan can beat on the arrivals of each of the first seeds; nan: it is not known."""
    arrivals = [asking.trace(cell.trace, seed).arrival_ms for seed in range(asking.scale.few)]
    setup = setup_of(cell)
    about = setup.workers, setup.slo_ms, setup.period_ms
    bounds = [fluid_bound(setup.true_catalog, each, *about) for each in arrivals]
    return [math.nan if bound is None else -bound for bound in bounds]


def bound_fid(asking: Asking, cell: Cell) -> float:
    """Return the mean, over the arrivals of the first seeds, of the FID that no plan can beat; nan if not known."""
    return statistics.fmean(bound_fids(asking, cell))


def percent(share: float, digits: int = 1) -> str:
    """Return a share of 1 in percent, with `digits` digits after the point; a dash for nan."""
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def number(value: float, digits: int = 2) -> str:
    """Return a number with `digits` digits after the point; a dash for nan."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def less(fid: float, other: float) -> float:
    """Return by which share the first FID is lower than the second."""
    return 1 - fid / other
