"""The catalog as a value: the figures that are planned with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.entries import DeferralPoint, deferred_share, highest_threshold, run_ms, shares_below
from planner.catalog.model import Cut, classes_of
from tests.builders import a_catalog, a_discriminator, a_variant


@pytest.mark.parametrize(("batch", "ms"), [(1, 20), (2, 30), (3, 37), (4, 44), (8, 72)])
def test_run_time_is_linear_between_measured_batches_and_goes_on_with_the_last_slope(batch: int, ms: float) -> None:
    assert run_ms(a_variant(), batch) == pytest.approx(ms)


def test_with_one_measured_batch_size_pictures_take_their_time_one_by_one() -> None:
    assert run_ms(a_variant(latency_ms={1: 20.0}), 5) == pytest.approx(100)


@given(st.integers(1, 64))
def test_a_larger_batch_never_takes_less_time(batch: int) -> None:
    assert run_ms(a_variant(), batch + 1) >= run_ms(a_variant(), batch)


def test_cheaper_levels_come_dearest_first() -> None:
    middle = a_variant(name="middle", latency_ms={1: 90.0}, quality=None)
    catalog = a_catalog(variants=a_catalog().variants | {"middle": middle})
    assert [v.name for v in catalog.cheaper_than("heavy")] == ["middle", "light"]
    assert catalog.cheaper_than("light") == []
    assert [v.name for v in catalog.dearer_than("light")] == ["middle", "heavy"]
    assert catalog.dearer_than("heavy") == []


def test_a_variant_of_unmeasured_quality_is_best_only_when_none_is_measured() -> None:
    slow = a_variant(name="slow", latency_ms={1: 900.0}, quality=None)
    catalog = a_catalog(variants=a_catalog().variants | {"slow": slow})
    assert catalog.best().name == "heavy"
    assert a_catalog(variants={"slow": slow, "fast": a_variant(name="fast", quality=None)}, cascades=(),
                     class_cuts={}).best().name == "slow"  # fmt: skip


@pytest.mark.parametrize(("hardness", "level"), [(0, "light"), (0.69, "light"), (0.7, "heavy"), (1.0, "heavy")])
def test_a_class_reaches_up_to_its_cut_and_the_last_one_includes_one(hardness: float, level: str) -> None:
    assert classes_of(a_catalog(), hardness) == {"models": level}


def test_cuts_may_name_one_class_for_all() -> None:
    assert classes_of(a_catalog(class_cuts={"models": (Cut("light", 1.0),)}), 0.99) == {"models": "light"}


STEPS = a_discriminator(
    deferral=(DeferralPoint(0.1, 0.0), DeferralPoint(0.2, 0.4), DeferralPoint(0.6, 0.4), DeferralPoint(0.8, 0.9))
)


@given(st.floats(0, 1))
def test_deferral_rises_from_zero_to_one(threshold: float) -> None:
    share = deferred_share(STEPS, threshold)
    assert 0 <= share <= 1
    assert deferred_share(STEPS, 0) == 0
    assert deferred_share(STEPS, 1) == 1
    assert share <= deferred_share(STEPS, min(1.0, threshold + 0.05)) + 1e-12


@given(st.floats(0, 1))
def test_the_highest_threshold_defers_no_more_than_the_share_and_a_higher_one_does(share: float) -> None:
    threshold = highest_threshold(STEPS, share)
    assert deferred_share(STEPS, threshold) <= share + 1e-9
    if threshold < 1 - 1e-3:
        assert deferred_share(STEPS, threshold + 1e-3) > share


@given(st.lists(st.floats(0, 1), max_size=5))
def test_many_thresholds_at_once_give_what_each_gives(thresholds: list[float]) -> None:
    each = [deferred_share(STEPS, threshold) for threshold in thresholds]
    assert shares_below(STEPS.deferral, thresholds) == pytest.approx(each)


def test_on_a_flat_piece_of_the_curve_the_highest_threshold_is_its_end() -> None:
    assert highest_threshold(STEPS, 0.4) == pytest.approx(0.6)
    assert highest_threshold(STEPS, 2.0) == 1
