"""The sweep of ARGUS's affinity model."""

from replay.bench.papers.affinities import FACTORS, POWERS, sweep
from replay.bench.papers.answers import Asking, Scale
from replay.bench.papers.runs.arrivals import open_trace
from replay.bench.papers.runs.cells import Cell, Found
from replay.bench.papers.runs.names import ARGUS, PAC
from tests.replay.bench.papers.found import alike, found, graded


def test_verdicts_on_argus_are_counted_over_both_parameters_of_the_affinity_model() -> None:
    seen: list[Cell] = []

    def of(cell: Cell) -> Found:
        """Better images than PAC where losses are large, and never fewer violations."""
        seen.append(cell)
        ahead = 1.0 if cell.policy == ARGUS and "=2," in cell.catalog else 0.0
        return found(violations=0.02, quality=18.0 + ahead - 0.1 * (cell.policy == PAC) + 0.01 * ahead * cell.seed)

    asking = Asking(
        run=alike(of), grid=graded(), trace=lambda name, redraw=None: open_trace(name, None, 50, redraw), scale=Scale()
    )
    swept = sweep(asking)
    assert len({cell.catalog for cell in seen}) == swept.places == len(FACTORS) * len(POWERS)
    assert list(swept.held.values()) == [len(FACTORS) * len(POWERS), len(POWERS), 0]
    assert "better images than Proteus in 3" in swept.words()
    published = [row[2] for row in swept.table.rows if row[:2] == ("x 1", "0.812")]
    assert published == ["17.40"], "the fit gives the published mean"
