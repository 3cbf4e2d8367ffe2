"""What runs could have come to, without running any."""

from collections.abc import Callable, Sequence

from replay.bench.frontier.cells import Figures
from replay.bench.frontier.grid import GridCell
from replay.bench.frontier.tables import JUDGES
from replay.bench.papers.runs.cells import Cell, Course, Found, catalog_of


def found(violations: float = 0.0, quality: float = -17.0, **changed: object) -> Found:
    """Figures of a run of 40 intervals of 10 s."""
    course = Course(10.0, [10] * 40, [round(10 * (1 - violations))] * 40, [{"sd35-turbo": 6, "sd35-medium": 4}] * 40)
    figures: dict[str, object] = {
        "violations": violations,
        "quality": quality,
        "quality_in_slo": quality,
        "heavy_share": 0.4,
        "by_level": {},
        "utilization": 0.7,
        "p50_s": 1.0,
        "p90_s": 2.0,
        "p99_s": 3.0,
        "switches": 4,
        "pairs": {"sd35-turbo > sd35-medium": 1.0},
        "planned": [(0.0, 8), (1203.0, 4)],
        "course": course,
        "cpu_s": 0.5,
        "quality_run": quality,
        "quality_optimistic": quality,
        "quality_run_optimistic": quality,
        "mean_s": 2.0,
    }
    return Found(**(figures | changed))  # type: ignore[arg-type]


def alike(of: Callable[[Cell], Found]) -> Callable[[Sequence[Cell]], list[Found]]:
    """A runner whose answers follow from the cell."""

    def run(cells: Sequence[Cell]) -> list[Found]:
        for cell in cells:
            catalog_of(cell.catalog)  # it must be there
        return [of(cell) for cell in cells]

    return run


def graded(of: Callable[[GridCell], Figures] = lambda _: figures()) -> Callable[[Sequence[GridCell]], list[Figures]]:
    """A runner of the frontier's cells whose answers follow from the cell."""
    return lambda cells: [of(cell) for cell in cells]


def figures(violations: float = 0.0, quality: float = -17.0) -> Figures:
    """Figures of a cell of the frontier."""
    return {"violation_rate": violations, "cpu_s": 1.0} | dict.fromkeys(JUDGES, quality)
