"""Deferral and quality by hardness band, with and without a profile, and as traffic shows it."""

import dataclasses

import pytest

from planner.catalog.bands import (
    Histogram,
    band_shares,
    bounds_of,
    cascade_table,
    curve_rows,
    level_quality,
    shares_within,
)  # fmt: skip
from planner.catalog.curves import CascadeCurves, SharePoint
from planner.catalog.entries import DeferralPoint
from planner.catalog.measured import CascadeBands, Measured, Start
from planner.catalog.model import Catalog
from planner.observation.deferral import ObservedDeferral, observed_deferral
from tests.builders import a_catalog, a_discriminator, an_observation

EASY_FIRST = (0.4, 0.0, 0.0, 0.0, 0.0, 0.6, 0.0, 0.0, 0.0, 0.0)


def a_measured_catalog(**changes: object) -> Catalog:
    """Two bands; t = .5 keeps all easy images and no hard one."""
    bands = CascadeBands(
        thresholds=(0.0, 0.5, 1.0),
        deferred=((0.0, 0.0, 1.0), (0.0, 1.0, 1.0)),
        kept=((0.9, 0.9, 0.9), (0.4, 0.5, 0.4)),
        again={
            0: ((0.95, 0.95, 0.95), (0.8, 0.8, 0.8)),
            4: ((0.9, 0.9, 0.9), (0.6, 0.6, 0.6)),
            9: ((0.9, 0.9, 0.8), (0.5, 0.5, 0.5)),
        },
    )
    measured = Measured(
        bounds=(0.0, 0.5, 1.0),
        quality={"light": (0.9, 0.4), "heavy": (0.95, None), "heavy~k4": (0.7, 0.6)},
        cascades={a_catalog().pair().key: bands},
    )
    return a_catalog(**({"measured": measured} | changes))


def test_a_catalog_that_knows_no_bands_has_one_of_all_prompts() -> None:
    assert bounds_of(a_catalog()) == (0, 1)
    assert band_shares(a_catalog(), an_observation()) == (1,)
    assert level_quality(a_catalog(), "light", 0) == 0.8


def test_bands_weigh_what_the_hardness_histogram_says() -> None:
    catalog = a_measured_catalog()
    assert band_shares(catalog, an_observation(hardness=EASY_FIRST)) == pytest.approx((0.4, 0.6))
    assert band_shares(catalog, an_observation()) == pytest.approx((0.5, 0.5))


def test_where_hardness_was_not_seen_it_is_as_that_of_the_profile_s_prompts() -> None:
    measured = a_measured_catalog().measured
    assert measured is not None
    catalog = a_measured_catalog(measured=dataclasses.replace(measured, prompts=(30, 10)))
    assert band_shares(catalog) == pytest.approx((0.75, 0.25))
    assert band_shares(catalog, an_observation(hardness=EASY_FIRST)) == pytest.approx((0.4, 0.6))


def test_shares_of_an_interval_divide_a_bin_evenly() -> None:
    even, uneven = Histogram((0.0, 0.5, 1.0), (0.5, 0.5)), Histogram((0.0, 0.25, 1.0), (0.2, 0.8))
    assert shares_within(even, (0.0, 1.0), 0.7, 1.0) == pytest.approx((0.3,))
    assert shares_within(uneven, (0.0, 0.5, 1.0), 0.125, 0.625) == pytest.approx((0.1 + 0.8 / 3, 0.8 / 6))
    assert shares_within(uneven, (0.0, 1.0), 1.0, 1.0) == (0,)


def test_a_bin_that_spans_a_bound_is_divided_evenly() -> None:
    bounds = Measured(bounds=(0.0, 0.05, 1.0), quality={})
    shares = band_shares(a_catalog(measured=bounds), an_observation(hardness=EASY_FIRST))
    assert shares == pytest.approx((0.2, 0.8))


def test_a_band_without_a_figure_has_the_level_s_mean() -> None:
    catalog = a_measured_catalog()
    assert level_quality(catalog, "heavy", 0) == 0.95
    assert level_quality(catalog, "heavy", 1) == 1.0


def test_a_reuse_level_has_a_quality_of_its_own() -> None:
    assert level_quality(a_measured_catalog(), "heavy~k4", 1) == 0.6
    kept = a_catalog(reuse={"heavy": (Start(5, 0.8, quality=0.75),)})
    assert level_quality(kept, "heavy~k5", 0) == 0.75
    assert level_quality(kept, "heavy~k9", 0) is None


def test_a_cascade_s_answers_are_worth_what_is_kept_and_what_is_generated_again() -> None:
    table = cascade_table(a_measured_catalog(), a_catalog().pair())
    assert table.thresholds == (0, 0.5, 1)
    assert table.quality[0] == pytest.approx((0.9, 0.9, 0.95))
    assert table.quality[1] == pytest.approx((0.4, 0.8, 0.8))


def test_a_refine_step_counts_as_the_next_later_one_that_was_measured() -> None:
    catalog, pair = a_measured_catalog(), a_catalog().pair()
    assert cascade_table(catalog, pair._replace(refine_from_step=4)).again[0] == pytest.approx((0.9, 0.9, 0.9))
    assert cascade_table(catalog, pair._replace(refine_from_step=5)).again[1] == pytest.approx((0.5, 0.5, 0.5))
    assert cascade_table(catalog, pair._replace(refine_from_step=10)).again[1] == (None, None, None)


def test_where_nothing_is_known_apart_the_levels_means_count() -> None:
    table = cascade_table(a_catalog(), a_catalog().pair())
    at = table.thresholds.index(0.5)
    assert (table.deferred[0][at], table.kept[0][at], table.again[0][at]) == (0.5, None, None)
    assert table.quality[0][at] == pytest.approx(0.9)


def test_a_published_curve_is_used_and_never_mixed_linearly() -> None:
    key = a_catalog().pair().key
    curve = (SharePoint(0.0, 0.8), SharePoint(0.5, 1.2), SharePoint(1.0, 1.0))
    catalog = a_catalog(scale="pickscore", curves={key: CascadeCurves(judged=curve)})
    rows = {row.threshold: row for row in curve_rows(catalog, catalog.pair())}
    assert rows[0.5].quality == pytest.approx(1.2)
    assert rows[0.5].deferred == rows[0.5].heavy == 0.5


def test_a_coarse_curve_is_filled_in_and_a_fine_one_is_left_as_measured() -> None:
    assert len(curve_rows(a_catalog(), a_catalog().pair())) == 21
    fine = a_discriminator(deferral=tuple(DeferralPoint(t / 100, t / 100) for t in range(0, 101, 4)))
    assert len(curve_rows(a_catalog(discriminators={"look": fine}), a_catalog().pair())) == 26


def test_rows_of_the_whole_weigh_the_bands_by_the_hardness_seen() -> None:
    catalog = a_measured_catalog()
    rows = curve_rows(catalog, catalog.pair(), an_observation(hardness=EASY_FIRST))
    assert [row.threshold for row in rows] == [0, 0.5, 1]
    assert rows[1].deferred == pytest.approx(0.6)
    assert rows[1].quality == pytest.approx(0.4 * 0.9 + 0.6 * 0.8)


def test_what_traffic_shows_replaces_the_profile_s_deferral_where_it_showed_enough() -> None:
    catalog = a_measured_catalog()
    seen = observed_deferral("light", "look", [(0.1, 0.3)] * 200 + [(0.9, 0.3)] * 5, bounds_of(catalog))
    table = cascade_table(catalog, catalog.pair(), an_observation(deferral=(seen,)))
    assert table.deferred[0][1] == 1.0
    assert table.deferred[1] == (0.0, 1.0, 1.0)


def test_what_another_discriminator_showed_counts_for_nothing() -> None:
    other = ObservedDeferral("light", "other", (0.0, 1.0), ((DeferralPoint(0.5, 0.9),),), images=500)
    plain = cascade_table(a_catalog(), a_catalog().pair())
    assert cascade_table(a_catalog(), a_catalog().pair(), an_observation(deferral=(other,))) == plain
