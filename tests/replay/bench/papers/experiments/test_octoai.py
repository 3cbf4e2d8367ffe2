"""OctoAI's experiments: a fleet that grows and shrinks, and which runs would speak against the post."""

import dataclasses

import pytest

from replay.bench.papers.answers import Asking, Scale
from replay.bench.papers.experiments.experiment import FAILS, HOLDS, OPEN, settle
from replay.bench.papers.experiments.octoai import (
    AS_IT_IS,
    BURST,
    COLD,
    EXPERIMENTS,
    FLEETS,
    IDLE,
    POOLED,
    STEADY,
    burst_cells,
    scaling_cells,
)
from replay.bench.papers.runs.arrivals import open_trace
from replay.bench.papers.runs.cells import Cell, Found, run
from replay.bench.papers.runs.scaling import Scaled
from tests.replay.bench.papers.found import alike, found, graded

ROUTING, SCALING, STARTS = EXPERIMENTS
FIRST = "a fleet that grows violates less"


def as_said(cell: Cell) -> Found:
    """Return what the post's own fleet would come to."""
    late = {FLEETS[name]: share for name, share in zip(FLEETS, (0.1, 0.2, 0.4, 0.6), strict=True)}
    fleet = {STEADY: Scaled(8, (8, 9), 0.5), IDLE: Scaled(2, (2, 0, 1, 2), 3.0)}.get(
        cell.trace, Scaled(20, (8, 16, 30))
    )
    return found(late.get(cell.scaling, 0.0) + 0.001 * cell.seed**2, fleet=fleet, mean_s=9.0)


def standings(experiment: object, **changes: Scaled) -> list[str]:
    """Judge an experiment on runs as said, but for the fleets of some traces."""

    def of(cell: Cell) -> Found:
        fleet = changes.get(cell.trace.partition("-")[0])
        return as_said(cell) if fleet is None else as_said(cell)._replace(fleet=fleet)

    asking = Asking(run=alike(of), grid=graded(), trace=open_trace, scale=Scale(few=3))
    [outcome] = settle([experiment], asking)  # type: ignore[list-item]
    return [each.standing for each in outcome.results]


def test_a_fleet_as_the_post_describes_it_agrees_with_all_that_it_says() -> None:
    assert standings(SCALING) == [HOLDS] * 4
    assert standings(STARTS) == [HOLDS] * 2


@pytest.mark.parametrize(
    ("changes", "found_wrong"),
    [
        ({"burst": Scaled(20, (8, 24, 30))}, 1),  # three times as many at once
        ({"burst": Scaled(8, (8,))}, 1),  # it never grew
        ({"constant": Scaled(8, (8, 9, 8, 9), 1.5)}, 2),
        ({"silence": Scaled(2, (2, 1, 2), 1.0)}, 3),  # it never reached zero
        ({"silence": Scaled(2, (2, 0), 1.0)}, 3),  # it stayed there
    ],
)
def test_each_fact_of_scaling_fails_by_itself_where_the_fleet_did_otherwise(
    changes: dict[str, Scaled], found_wrong: int
) -> None:
    found_here = standings(SCALING, **changes)
    assert [at for at, standing in enumerate(found_here) if standing == FAILS] == [found_wrong]


def test_a_pool_that_changes_nothing_does_not_agree_with_the_post() -> None:
    def of(cell: Cell) -> Found:
        return as_said(dataclasses.replace(cell, scaling=FLEETS[COLD]))

    asking = Asking(run=alike(of), grid=graded(), trace=open_trace, scale=Scale(few=3))
    [outcome] = settle([STARTS], asking)
    assert HOLDS not in [each.standing for each in outcome.results]
    assert OPEN not in [each.standing for each in outcome.results]


def test_growth_is_of_the_target_before_and_from_zero_as_from_one() -> None:
    assert Scaled(0, (0, 1, 2, 4, 3)).growth == 2
    assert Scaled(0, (0, 3)).growth == 3
    assert Scaled().growth == 1


def test_a_cell_with_limits_of_scaling_grows_in_the_burst_and_one_without_stays_as_it_is() -> None:
    trace = open_trace(BURST, None, 900, 0)
    assert trace.arrival_ms[-1] > 300_000  # the burst has begun
    grown, stayed = (run(burst_cells(False)[name], trace) for name in (POOLED, AS_IT_IS))
    assert grown.fleet.targets[:2] == (8, 16)
    assert grown.fleet.growth == 2
    assert grown.fleet.workers > stayed.fleet.workers == pytest.approx(8, abs=0.1)
    assert stayed.fleet.targets == ()
    assert grown.violations < stayed.violations


def test_the_silence_lets_a_fleet_reach_zero() -> None:
    came = run(scaling_cells(False)[IDLE], open_trace(IDLE, None, 50, 1))
    assert 0 in came.fleet.targets
    assert came.fleet.targets[-1] > 0
