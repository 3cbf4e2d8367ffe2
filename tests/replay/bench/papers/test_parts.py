"""Rows for joint's constants and parts."""

from planner.control.proposal import validate_parameters
from planner.policies.joint import PARAMETERS
from replay.bench.frontier.cells import Figures
from replay.bench.frontier.grid import FIRST_TUNING_SEED, GridCell
from replay.bench.papers.answers import Asking, Scale
from replay.bench.papers.parts import PLACES, constants, parts, tables
from replay.bench.papers.runs.arrivals import TUNING, open_trace
from tests.replay.bench.papers.found import alike, figures, found


def test_every_parameter_of_joint_is_a_constant_or_a_part_or_is_left_out_for_a_reason() -> None:
    swept, taken = {each.parameter for each in constants()}, {each.parameter for each in parts()}
    left = PARAMETERS.keys() - swept - taken
    assert {name for name in left if PARAMETERS[name].default} == set()
    for variant in (*constants(), *parts()):
        validate_parameters({variant.parameter: variant.value}, PARAMETERS)
        assert variant.value != PARAMETERS[variant.parameter].default


def test_each_row_compares_one_change_on_tuning_cells_with_redraws_that_are_not_judged() -> None:
    seen: list[GridCell] = []

    def of(cell: GridCell) -> Figures:
        seen.append(cell)
        is_without_rules = dict(cell.parameters).get("rules") == 0
        return figures(0.01 + 0.05 * is_without_rules, -17.0 - 0.5 * is_without_rules - 0.001 * cell.seed % 3)

    asking = Asking(
        run=alike(lambda _: found()),
        grid=lambda cells: [of(cell) for cell in cells],
        trace=lambda name, redraw=None: open_trace(name, None, 50, redraw),
        scale=Scale(),
    )
    constant, part = tables(asking)
    assert len(constant.rows) == len(constants()) * len(PLACES)
    assert len(part.rows) == 2 * len(parts()) * len(PLACES)
    assert {cell.trace for cell in seen} <= set(TUNING)
    assert min(cell.seed for cell in seen) == FIRST_TUNING_SEED
    assert len(seen) == len(set(seen)), "a cell runs once"
    words = {row[3]: (row[-2], row[-1]) for row in part.rows}
    assert words["rules"] == ("+5.00 [+5.00, +5.00]", "behind")
    assert {row[-1] for row in constant.rows} == {"even"}
