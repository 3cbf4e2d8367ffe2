"""What answers are worth, on the one scale and as FID."""

import pytest

from planner.catalog.curves import CascadeCurves, SharePoint
from planner.catalog.parse import Catalog
from planner.catalog.quality import cascade_quality, fid_of, random_quality
from tests.builders import a_catalog, a_variant

JUDGED = (SharePoint(0.0, -22.0), SharePoint(0.6, -16.0), SharePoint(1.0, -18.0))
RANDOM = (SharePoint(0.0, -22.0), SharePoint(0.5, -19.5), SharePoint(1.0, -18.0))


def an_fid_catalog(**curves: tuple[SharePoint, ...]) -> Catalog:
    light, heavy = a_variant(quality=-22.0), a_variant(name="heavy", steps=25, latency_ms={1: 200.0}, quality=-18.0)
    key = a_catalog().pair().key
    return a_catalog(scale="fid", variants={"light": light, "heavy": heavy}, curves={key: CascadeCurves(**curves)})


def test_fid_is_the_negated_quality_and_only_where_that_is_the_scale() -> None:
    assert fid_of(an_fid_catalog(), -17.3) == 17.3
    assert fid_of(an_fid_catalog(), None) is None
    assert fid_of(a_catalog(), 0.9) is None


def test_a_measured_curve_counts_and_not_the_mean_of_the_levels() -> None:
    catalog = an_fid_catalog(judged=JUDGED)
    assert cascade_quality(catalog, catalog.pair(), 0.6) == -16


def test_without_a_curve_a_cascade_is_worth_the_mean_of_its_levels() -> None:
    assert cascade_quality(a_catalog(), a_catalog().pair(), 0.25) == pytest.approx(0.75 * 0.8 + 0.25)


def test_a_random_split_has_its_own_curve_else_the_mean() -> None:
    assert random_quality(an_fid_catalog(judged=JUDGED, random=RANDOM), {"light": 0.5, "heavy": 0.5}) == -19.5
    assert random_quality(an_fid_catalog(judged=JUDGED), {"light": 0.5, "heavy": 0.5}) == -20
    assert random_quality(an_fid_catalog(random=RANDOM), {"light": 1.0, "heavy": 0.0}) == -22


def test_a_level_that_nobody_judged_makes_the_whole_unknown_only_where_it_answers() -> None:
    catalog = a_catalog(variants=a_catalog().variants | {"light": a_variant(quality=None)})
    assert cascade_quality(catalog, catalog.pair(), 0.5) is None
    assert random_quality(catalog, {"heavy": 1.0, "light": 0.0}) == 1
