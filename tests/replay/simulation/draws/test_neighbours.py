"""Neighbours of requests and times of lookups, drawn from a profile of reuse."""

import numpy as np
import pytest

from planner.catalog.reuse import Neighbours
from replay.simulation.draws.neighbours import CHUNK, NeighbourDraws, lookup_times_ms
from tests.planner.solvers.levels.builders import a_reuse_profile

ROWS = (Neighbours(0.7, 0.2), Neighbours(0.9, 0.5, {"equal": 0.6, "colour": 0.4}))


def test_requests_find_neighbours_as_often_as_the_profile_says() -> None:
    draws = NeighbourDraws(ROWS, seed=1)
    found = [draws.at(number) for number in range(20_000)]
    assert sum(each is None for each in found) / 20_000 == pytest.approx(0.3, abs=0.01)
    near = [each for each in found if each and each.similarity == 0.9]
    assert len(near) / 20_000 == pytest.approx(0.5, abs=0.01)
    assert sum(each.verdict == "colour" for each in near) / len(near) == pytest.approx(0.4, abs=0.015)
    assert {each.verdict for each in found if each and each.similarity == 0.7} == {"equal"}


def test_a_request_has_the_same_neighbour_whenever_it_is_looked_up() -> None:
    there, back = NeighbourDraws(ROWS, seed=1), NeighbourDraws(ROWS, seed=1)
    numbers = [0, 5, CHUNK + 3, CHUNK - 1]
    assert [there.at(n) for n in numbers] == [back.at(n) for n in reversed(numbers)][::-1]
    other = NeighbourDraws(ROWS, seed=2)
    assert [there.at(n) for n in range(50)] != [other.at(n) for n in range(50)]


def test_without_a_profile_nobody_finds_anything() -> None:
    assert NeighbourDraws((), seed=1).at(7) is None


@pytest.mark.parametrize(("median", "high"), [(3.0, 9.0), (20.0, 20.0), (0.0, 0.0)])
def test_times_have_the_median_and_the_95th_percentile_of_the_profile(median: float, high: float) -> None:
    times = lookup_times_ms(a_reuse_profile(retrieval_ms=median, retrieval_p95_ms=high), seed=4)
    assert np.percentile(times, 50) == pytest.approx(median, rel=0.05)
    assert np.percentile(times, 95) == pytest.approx(high, rel=0.1)
