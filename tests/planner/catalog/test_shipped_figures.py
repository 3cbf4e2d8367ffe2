"""The catalogs of the papers: a few of their figures, as they are cited, and what planning makes of them."""

import pytest

from planner.catalog.bands import curve_rows
from planner.catalog.entries import deferred_share, run_ms, throughput_rps
from planner.catalog.model import Catalog
from planner.catalog.quality import cascade_quality, fid_of, levels_of, random_quality
from streams.parsing.catalog import parse
from tests.paths import CATALOGS

NAMES = ["diffserve-sdturbo", "diffserve-sdxs", "diffserve-sdxlltn", "hadis-l40s", "argus-a100"]


def shipped(name: str) -> Catalog:
    return parse((CATALOGS / f"{name}.toml").read_text(), name)


@pytest.mark.parametrize("name", NAMES)
def test_a_published_catalog_runs_without_any_model_and_names_a_class_for_each_level(name: str) -> None:
    catalog = shipped(name)
    assert {variant.engine for variant in catalog.variants.values()} == {"profile"}
    assert catalog.classes("models") == catalog.variants.keys()
    assert catalog.pair().heavy == catalog.best().name


@pytest.mark.parametrize("name", NAMES)
def test_the_ends_of_every_curve_are_the_levels_own_quality(name: str) -> None:
    catalog = shipped(name)
    for pair in catalog.cascades:  # published twice for some levels, rounded apart
        assert cascade_quality(catalog, pair, 0) == pytest.approx(catalog.level(pair.light).quality, abs=0.011)
        assert cascade_quality(catalog, pair, 1) == pytest.approx(catalog.level(pair.heavy).quality, abs=0.011)


@pytest.mark.parametrize(
    ("name", "heavy", "fid"),
    [("diffserve-sdturbo", 0.6, 16.79), ("diffserve-sdxs", 0.7, 16.97), ("diffserve-sdxlltn", 0.9, 23.14)],
)
def test_the_best_mixture_is_better_than_all_heavy(name: str, heavy: float, fid: float) -> None:
    catalog = shipped(name)
    assert fid_of(catalog, cascade_quality(catalog, catalog.pair(), heavy)) == pytest.approx(fid)
    assert fid < (fid_of(catalog, catalog.best().quality) or 0)


@pytest.mark.parametrize(
    ("demand_rps", "heavy_workers", "threshold"), [(24, 14, 0.23), (32, 14, 0.115), (40, 14, 0.055), (60, 13, 0.015)]
)
def test_the_thresholds_of_the_published_allocator_come_out(
    demand_rps: float, heavy_workers: int, threshold: float
) -> None:
    """16 workers, batches (16, 4), as in planner/policies/SOURCES.md 5."""
    catalog = shipped("diffserve-sdturbo")
    assert throughput_rps(catalog.level("sd-turbo"), 16) * (16 - heavy_workers) >= demand_rps
    room_rps = heavy_workers * throughput_rps(catalog.level("sd15"), 4)
    fitting = [row.threshold for row in curve_rows(catalog, catalog.pair()) if demand_rps * row.deferred <= room_rps]
    assert max(fitting) == pytest.approx(threshold)


def test_images_that_were_not_trained_on_are_deferred_less_at_a_high_threshold() -> None:
    catalog = shipped("diffserve-sdturbo")
    published, held_out = (catalog.discriminator(name) for name in ("efficientnet", "held-out"))
    assert deferred_share(published, 0.5) == pytest.approx(0.993, abs=0.001)
    assert deferred_share(held_out, 0.5) == pytest.approx(0.693, abs=0.01)


def test_the_third_cascade_borrows_the_second_one_s_curve() -> None:
    second, third = (shipped(name).discriminator("efficientnet") for name in ("diffserve-sdxs", "diffserve-sdxlltn"))
    assert second.deferral == third.deferral


def test_hadis_s_batches_save_a_tenth() -> None:
    medium = shipped("hadis-l40s").level("sd35-medium")
    assert (run_ms(medium, 1), run_ms(medium, 4)) == (13_000, 46_800)


def test_a_random_split_of_hadis_s_pair_has_its_own_curve() -> None:
    catalog = shipped("hadis-l40s")
    pair = catalog.pair()
    split = fid_of(catalog, random_quality(catalog, {pair.light: 0.5, pair.heavy: 0.5}))
    assert split == pytest.approx(21.25)
    assert fid_of(catalog, cascade_quality(catalog, pair, 0.5)) == pytest.approx(21.40)


def test_argus_skips_half_of_the_steps_at_most_for_half_of_the_time() -> None:
    levels = levels_of(shipped("argus-a100"), "reuse")
    assert [level.reuse_step for level in levels] == [0, 5, 10, 15, 20, 25]
    assert levels[-1].run_ms == pytest.approx(2100)
    assert [level.name for level in levels_of(shipped("argus-a100"), "models")] == [
        "sdxl", "sd15", "small-sd", "tiny-sd",
    ]  # fmt: skip
