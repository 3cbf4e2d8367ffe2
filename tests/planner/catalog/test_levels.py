"""The levels of a strategy and what prompts lose on a faster one."""

import pytest

from planner.catalog.levels import degradations, levels_of
from planner.catalog.measured import Measured
from planner.catalog.profile import Start
from schemas.errors import Unknown
from tests.builders import a_catalog, a_variant

REUSE = {"heavy": (Start(5, 0.7, quality=0.9), Start(10, 0.6, quality=None))}


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


def test_where_no_picture_is_kept_reuse_has_the_best_variant_alone() -> None:
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
