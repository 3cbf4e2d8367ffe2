"""Where a level begins that paints over a rejected draft."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.options import settle
from planner.catalog.paint_over import begins_at, fault
from schemas.messages import PaintOptions
from tests.builders import a_variant, an_image_ref

HEAVY = a_variant(name="heavy", steps=50, honours=("steps", "width"))


def begin(paint_over_step: int, drafts: int = 1, **options: int) -> int:
    return begins_at(paint_over_step, HEAVY, settle(PaintOptions(**options), HEAVY), [an_image_ref()] * drafts)


def test_a_job_begins_at_the_cascades_step() -> None:
    assert begin(30) == 30
    assert begin(0) == 0


@pytest.mark.parametrize(("steps", "step"), [(100, 60), (25, 15), (9, 5), (1, 0)])
def test_a_request_that_sets_the_steps_has_the_same_share_of_them_skipped_rounded_down(steps: int, step: int) -> None:
    assert begin(30, steps=steps) == step


@given(steps=st.integers(1, 200), paint_over_step=st.integers(0, 49))
def test_at_least_one_step_is_left_whatever_the_request_sets(steps: int, paint_over_step: int) -> None:
    assert 0 <= begin(paint_over_step, steps=steps) < steps


def test_each_picture_needs_its_own_draft_of_its_own_size() -> None:
    assert begin(30, n=2, drafts=2) == 30
    assert begin(30, n=2, drafts=1) == 0
    assert begin(30, drafts=0) == 0
    assert begin(30, width=64) == 0


def test_a_step_that_leaves_none_to_take_or_a_draft_of_another_size_is_a_fault() -> None:
    light = a_variant()
    assert fault(49, light, HEAVY) == fault(0, a_variant(width=64), HEAVY) == ""
    assert "got 50" in fault(50, light, HEAVY)
    assert "got -1" in fault(-1, light, HEAVY)
    assert "64 x 32 px" in fault(1, a_variant(width=64), HEAVY)
