"""What answers are worth together that were chosen in several ways."""

import dataclasses

import numpy as np
import pytest

from planner.catalog.curves import PairRow
from planner.catalog.mixtures import Judged, mixture_quality
from planner.catalog.parse import Catalog, Pair, parse
from planner.catalog.quality import cascade_quality, random_quality
from tests.builders import a_catalog, a_variant
from tests.paths import CATALOGS

HADIS, DIFFSERVE = (
    parse((CATALOGS / f"{name}.toml").read_text(), name) for name in ("hadis-l40s", "diffserve-sdturbo")
)
TURBO_MEDIUM = next(p for p in HADIS.cascades if (p.light, p.heavy) == ("sd35-turbo", "sd35-medium"))


def hybrid(catalog: Catalog, pair: Pair, straight: float, deferred: float) -> float:
    again = (1 - straight) * deferred
    judged = [Judged(pair, 1 - straight - again, again)] if straight < 1 else []
    quality = mixture_quality(catalog, {pair.heavy: straight}, judged)
    assert quality is not None
    return quality


def pair_of(row: PairRow) -> Pair:
    return next(pair for pair in HADIS.cascades if (pair.light, pair.heavy) == (row.light, row.heavy))


def test_a_measured_setting_of_router_and_discriminator_is_worth_what_was_measured() -> None:
    for row in HADIS.pair_rows:
        found = hybrid(HADIS, pair_of(row), row.router_ratio, row.disc_ratio)
        assert found == pytest.approx(row.quality, abs=0.011), row  # some were published twice, rounded apart


def test_settings_that_were_not_measured_are_foretold_from_router_and_discriminator_alone() -> None:
    unmeasured = dataclasses.replace(HADIS, pair_rows=())
    both = [row for row in HADIS.pair_rows if row.router_ratio > 0 and row.disc_ratio > 0]
    misses = [hybrid(unmeasured, pair_of(row), row.router_ratio, row.disc_ratio) - row.quality for row in both]
    assert np.sqrt(np.mean(np.square(misses))) < 0.09
    assert -0.08 < np.mean(misses) < 0.02  # the catalog holds the best settings of each price, which were lucky too


def test_between_settings_quality_changes_gradually() -> None:
    qualities = [hybrid(HADIS, TURBO_MEDIUM, share, 0.2) for share in np.linspace(0, 1, 201).tolist()]
    assert np.abs(np.diff(qualities)).max() < 0.06


def test_a_cascade_alone_is_worth_what_its_curve_says() -> None:
    assert hybrid(HADIS, TURBO_MEDIUM, 0.0, 0.37) == cascade_quality(HADIS, TURBO_MEDIUM, 0.37)
    assert hybrid(DIFFSERVE, DIFFSERVE.pair(), 0.0, 0.37) == cascade_quality(DIFFSERVE, DIFFSERVE.pair(), 0.37)


def test_what_no_discriminator_chose_is_a_random_mixture_whatever_the_plan_calls_it() -> None:
    pair = TURBO_MEDIUM
    alone = random_quality(HADIS, {pair.light: 0.6, pair.heavy: 0.4})
    assert mixture_quality(HADIS, {pair.light: 0.6, pair.heavy: 0.4}, []) == alone
    assert mixture_quality(HADIS, {pair.heavy: 0.4}, [Judged(pair, 0.6, 0.0)]) == pytest.approx(alone)


def test_without_a_measured_random_split_the_parts_count_apart() -> None:
    pair = DIFFSERVE.pair()
    expected = 0.25 * -18.55 + 0.75 * (cascade_quality(DIFFSERVE, pair, 1 / 3) or 0)
    assert hybrid(DIFFSERVE, pair, 0.25, 1 / 3) == pytest.approx(expected)
    assert random_quality(DIFFSERVE, {pair.light: 0.5, pair.heavy: 0.5}) == pytest.approx((-22.77 - 18.55) / 2)


def test_a_third_level_beside_a_pair_adds_what_mixing_it_in_does() -> None:
    judged = Judged(TURBO_MEDIUM, 0.6, 0.3)
    apart = 0.9 * (cascade_quality(HADIS, TURBO_MEDIUM, 1 / 3) or 0) + 0.1 * -29.75
    found = mixture_quality(HADIS, {"sdxl-lightning": 0.1}, [judged])
    assert apart + 0.3 < (found or 0) < (cascade_quality(HADIS, TURBO_MEDIUM, 1 / 3) or 0)


def test_a_random_mixture_of_three_levels_goes_over_into_one_of_two() -> None:
    two = random_quality(HADIS, {"sdxl-lightning": 0.5, "sd35-large": 0.5})
    three = random_quality(HADIS, {"sdxl-lightning": 0.5, "sd35-large": 0.4999, "sd35-medium": 0.0001})
    assert two == pytest.approx(-21.96)
    assert three == pytest.approx(-21.96, abs=0.01)


def test_a_level_that_nobody_judged_makes_the_whole_unknown() -> None:
    catalog = a_catalog(variants=a_catalog().variants | {"light": a_variant(quality=None)})
    assert mixture_quality(catalog, {"heavy": 0.5}, [Judged(catalog.pair(), 0.5, 0.0)]) is None
    assert mixture_quality(catalog, {"heavy": 1.0}, []) == 1
