"""What answers are worth: on the one scale and as FID, chosen in one or several ways, on the levels of a strategy."""

import dataclasses

import numpy as np
import pytest

from planner.catalog.curves import CascadeCurves, PairRow, SharePoint
from planner.catalog.measured import Measured, Start
from planner.catalog.model import Catalog, Pair
from planner.catalog.quality import (
    Judged,
    cascade_quality,
    degradations,
    fid_of,
    levels_of,
    mixture_quality,
    random_quality,
    ranked,
)
from schemas.errors import Unknown
from streams.parsing.catalog import parse
from tests.builders import a_catalog, a_discriminator, a_variant, unmeasured
from tests.paths import CATALOGS

JUDGED = (SharePoint(0.0, -22.0), SharePoint(0.6, -16.0), SharePoint(1.0, -18.0))
RANDOM = (SharePoint(0.0, -22.0), SharePoint(0.5, -19.5), SharePoint(1.0, -18.0))

HADIS, DIFFSERVE = (
    parse((CATALOGS / f"{name}.toml").read_text(), name) for name in ("hadis-l40s", "diffserve-sdturbo")
)
TURBO_MEDIUM = next(p for p in HADIS.cascades if (p.light, p.heavy) == ("sd35-turbo", "sd35-medium"))
REUSE = {"heavy": (Start(5, 0.7, quality=0.9), Start(10, 0.6, quality=None))}


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


def test_the_levels_of_models_are_the_variants_the_slowest_first() -> None:
    middle = a_variant(name="middle", latency_ms={1: 90.0}, quality=None)
    catalog = a_catalog(variants=a_catalog().variants | {"middle": middle})
    assert [level.name for level in levels_of(catalog, "models")] == ["heavy", "middle", "light"]


def test_the_levels_of_reuse_are_one_variant_in_full_and_from_each_step() -> None:
    levels = levels_of(a_catalog(reuse=REUSE), "reuse")
    assert [(level.name, level.variant, level.reuse_step) for level in levels] == [
        ("heavy", "heavy", 0), ("heavy~k5", "heavy", 5), ("heavy~k10", "heavy", 10),
    ]  # fmt: skip
    assert [level.run_ms for level in levels] == pytest.approx([200, 140, 120])


def test_where_no_image_is_kept_reuse_has_the_best_variant_alone() -> None:
    assert [level.name for level in levels_of(a_catalog(), "reuse")] == ["heavy"]


def test_an_unknown_strategy_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match="models, reuse"):
        levels_of(a_catalog(), "modells")


def test_a_prompt_loses_on_faster_levels_what_its_class_was_measured_to_and_nothing_on_slower_ones() -> None:
    classes = {"models": {"heavy": {"heavy": 1.0, "light": 0.3}}}
    catalog = a_catalog(measured=Measured(bounds=(0.0, 1.0), quality={}, classes=classes))
    assert degradations(catalog, "models") == {
        "heavy": {"heavy": 0.0, "light": pytest.approx(0.7)},
        "light": {"heavy": 0.0, "light": 0.0},
    }


def test_where_classes_were_not_measured_the_means_tell_and_an_unknown_quality_loses_nothing() -> None:
    assert degradations(a_catalog(), "models")["heavy"]["light"] == pytest.approx(0.2)
    lost = degradations(a_catalog(reuse=REUSE), "reuse")
    assert lost["heavy"] == {"heavy": 0.0, "heavy~k5": pytest.approx(0.1), "heavy~k10": 0.0}


def test_a_faster_level_that_is_better_loses_nothing() -> None:
    better = a_catalog(variants=a_catalog().variants | {"light": a_variant(quality=1.5)})
    assert degradations(better, "models")["heavy"]["light"] == 0


def test_a_catalog_without_quality_has_ranks_by_run_time_and_one_with_any_stays_as_it_is() -> None:
    middle = a_variant(name="middle", latency_ms={1: 90.0})
    catalog = unmeasured(a_catalog(variants={**a_catalog().variants, "middle": middle}))
    assert {name: variant.quality for name, variant in ranked(catalog).variants.items()} == {
        "light": 0.0, "middle": 0.5, "heavy": 1.0,
    }  # fmt: skip
    assert ranked(catalog).best().name == catalog.best().name == "heavy"
    half = dataclasses.replace(catalog, variants={**catalog.variants, "middle": middle})
    assert ranked(half) is half


def test_with_ranks_a_discriminator_that_looks_is_believed_at_its_threshold_and_one_that_draws_is_not() -> None:
    looks = a_discriminator(engine="learned", folder="look", threshold=0.3)
    judged = ranked(unmeasured(a_catalog(discriminators={"look": looks})))
    drawn = ranked(unmeasured(a_catalog()))
    shares = (0.0, 0.15, 0.3, 1.0)
    assert [cascade_quality(judged, judged.pair(), share) for share in shares] == [0.0, 0.5, 1.0, 1.0]
    assert [cascade_quality(drawn, drawn.pair(), share) for share in shares] == list(shares)
