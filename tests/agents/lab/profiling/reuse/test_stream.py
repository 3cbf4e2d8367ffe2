"""The stream of requests, their neighbours, and the stream played again by the rules of serving."""

import numpy as np

from agents.lab.profiling.reuse.observed import Observed
from agents.lab.profiling.reuse.replay import replay
from agents.lab.profiling.reuse.stream import draw_requests, find_neighbours
from agents.lab.world.stream import STANDARD
from planner.reuse.guard import Comparison
from planner.reuse.terms import Difference, Floor, Floors, GuardShares
from tests.agents.lab.profiling.reuse.seen import EQUAL, an_observed, differing

ANGLES = {"a": 0.0, "a, oil": 0.1, "a, ink": 0.25, "b": 1.5}
HALF = GuardShares(equal=0.5, style=0.5)


def vectors_of(prompts: list[str]) -> np.ndarray:
    return np.array([[np.cos(ANGLES[each]), np.sin(ANGLES[each])] for each in prompts])


def by_first_letter(one: str, other: str) -> Comparison:
    return EQUAL if one[0] == other[0] else differing(Difference.OBJECT)


def a_stream(*prompts: str) -> Observed:
    vectors = vectors_of(list(prompts))
    near = find_neighbours(prompts, vectors, by_first_letter, seed=1)
    return an_observed([0.0] * (len(prompts) - 1), lambda *_: True, prompts=prompts, vectors=vectors, neighbours=near)


def test_a_longer_stream_begins_as_a_shorter_one() -> None:
    short, long = (draw_requests(3, count, STANDARD).asked for count in (30, 60))
    assert long.first(30) == short
    assert len(set(long.seeds)) == 60


def test_of_equal_prompts_the_latest_is_the_nearest_and_exact() -> None:
    near = a_stream("a", "a", "b", "a").neighbours
    assert near.nearest.tolist() == [-1, 0, 1, 1]
    assert near.is_exact.tolist() == [False, True, False, True]
    assert near.similarity[1] == 1.0
    assert near.passes.tolist() == [False, True, False, True]


def test_the_unrelated_one_is_an_earlier_one_of_another_prompt() -> None:
    near = a_stream("a", "a", "b", "a", "b").neighbours
    assert near.unrelated[:2].tolist() == [-1, -1]
    assert near.unrelated[3] == 2
    assert near.unrelated[4] in (0, 1, 3)
    assert near.unrelated_rows.tolist() == [2, 3, 4]


def test_what_was_reused_is_not_stored_so_that_nobody_begins_from_it() -> None:
    """ "a, ink" is near enough to "a, oil", which was reused, but not to "a", which was not."""
    seen = a_stream("a", "a, oil", "a, ink", "b")
    floors = Floors((Floor(0.98, 0.5),))
    played = replay(seen, floors, HALF, by_first_letter, 1.0)
    assert played.steps.tolist() == [0, 2, 0, 0]
    assert seen.neighbours.nearest[2] == 1


def test_repeats_of_a_prompt_are_counted_apart() -> None:
    played = replay(a_stream("a", "b", "a", "a, oil"), Floors((Floor(0.9, 0.5),)), HALF, by_first_letter, 0.25)
    assert played.steps.tolist() == [0, 0, 1, 1], "the route allows a quarter of four steps"
    assert (played.is_exact & (played.steps > 0)).tolist() == [False, False, True, False]


def test_without_floors_nothing_is_reused() -> None:
    assert not replay(a_stream("a", "a", "a"), Floors(), HALF, by_first_letter, 1.0).steps.any()
