import dataclasses
from functools import partial

import numpy as np
import pytest

from replay.simulation.run import Ran
from replay.simulation.setup import Setup
from replay.simulation.sweep import answer, sweep
from tests.replay.simulation.runs import a_setup, arrivals, one_level, ran


def fleets(needed: int) -> tuple[list[int], "list[tuple[int | None, list[int]]]"]:
    asked: list[int] = []
    one = ran(a_setup(catalog=one_level(), policy="clipper-light", workers=2), arrivals(10, 20))

    def run(setup: Setup) -> list[Ran]:
        asked.append(setup.workers)
        if setup.workers >= needed:
            return [one]
        late = dataclasses.replace(one, setup=setup)
        lost = type(one.tally)(1.0, one.timeline)
        lost.requests = 20
        return [dataclasses.replace(late, tally=lost)]

    found, tried = sweep(a_setup(), (4, 32), 0.99, run)
    return asked, [(found, [each.workers for each in tried])]


@pytest.mark.parametrize("needed", [1, 4, 5, 17, 31, 32])
def test_the_smallest_fleet_is_found_in_few_runs(needed: int) -> None:
    asked, [(found, tried)] = fleets(needed)
    assert found == max(4, needed)
    assert len(asked) <= 6
    assert sorted(asked) == tried
    assert found == 4 or found - 1 in tried  # the next smaller one was seen to fail


def test_a_span_that_holds_nowhere_has_no_answer_and_says_so() -> None:
    asked, [(found, _)] = fleets(33)
    assert (asked, found) == ([32], None)
    _, tried = sweep(a_setup(catalog=one_level(), policy="clipper-light"), (1, 1), 1.0, lambda _: [overloaded()])
    assert "not even 1 worker can answer" in answer("argus", None, tried, 1.0, 5.0)


def overloaded() -> Ran:
    return ran(a_setup(catalog=one_level(), policy="clipper-light", workers=1, slo_ms=40.0), arrivals(100, 200))


def one_run(trace: np.ndarray, setup: Setup) -> list[Ran]:
    return [ran(setup, trace)]


def test_a_real_fleet_grows_with_the_demand() -> None:
    found = []
    for rate in (40, 120):
        setup = a_setup(catalog=one_level(), policy="clipper-light", slo_ms=60.0)
        trace = arrivals(rate, 1000)
        found.append(sweep(setup, (1, 8), 0.97, partial(one_run, trace))[0])
    assert found[0] is not None
    assert found[1] is not None
    assert 1 < found[0] < found[1] <= 8
