"""The stream played again with an index that holds few images: which of them should leave."""

import numpy as np

from agents.lab.profiling.reuse.replay import Capacity, replay
from planner.reuse.guard import Comparison, Verdict
from planner.reuse.terms import Floor, Floors, GuardShares
from tests.agents.lab.profiling.reuse.seen import an_observed

FLOORS, GUARD = Floors((Floor(0.9, 0.5),)), GuardShares(equal=0.5)
PROMPTS = ("a", "b", "a", "c", "a")  # of which the oldest comes back


def hits(capacity: Capacity | None) -> list[bool]:
    vectors = np.eye(3)[["abc".index(prompt) for prompt in PROMPTS]]
    seen = an_observed([0.5] * 4, lambda _k, near: near > 0, prompts=PROMPTS, vectors=vectors)

    def compare(one: str, other: str) -> Comparison:
        return Comparison(Verdict.EQUAL if one == other else Verdict.DIFFERS)

    return [bool(step) for step in replay(seen, FLOORS, GUARD, compare, 1.0, capacity).steps]


def test_without_a_capacity_every_image_stays() -> None:
    assert hits(None) == [False, False, True, False, True]


def test_first_in_first_out_loses_an_image_that_is_used_again() -> None:
    assert hits(Capacity(2, "fifo")) == [False, False, True, False, False]


def test_by_steps_saved_an_image_that_was_used_stays() -> None:
    assert hits(Capacity(2, "lcbfu")) == [False, False, True, False, True]
