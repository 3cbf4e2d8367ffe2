"""What a profile and its prompts add to a catalog."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from planner.catalog.bands import cascade_table
from planner.catalog.caching import reuse_profile_of
from planner.catalog.entries import DeferralPoint, Loading
from planner.catalog.evidence.joining import PRIOR, check_compiled, with_profile
from planner.catalog.measured import Measured, Start
from planner.catalog.model import Catalog
from planner.catalog.profile import CascadeProfile, LevelProfile, Profile
from planner.catalog.prompt_table import PromptTable
from planner.catalog.validate import InvalidCatalog
from tests.builders import a_catalog, a_variant
from tests.planner.catalog.test_caching import a_measurement

EASY, HARD = 40, 20  # prompts


def a_level(quality_by_band: tuple[float | None, ...]) -> LevelProfile:
    return LevelProfile(
        latency_ms={1: 1.0}, spread_ms={}, clock="cpu", load_ms=1.0, cold_load_ms=1.0, memory_bytes=0, cuda_bytes=0,
        quality_by_band=quality_by_band,
    )  # fmt: skip


def test_run_times_vary_as_the_quartiles_say_and_not_where_nobody_measured_them() -> None:
    profile = a_profile()
    light = dataclasses.replace(profile.levels["light"], latency_ms={1: 10.0, 4: 30.0}, spread_ms={1: 1.349, 4: 6.0})
    measured = with_profile(
        a_catalog(), dataclasses.replace(profile, levels=profile.levels | {"light": light})
    ).measured
    assert measured is not None
    assert measured.run_cv == {"light": {1: pytest.approx(0.1), 4: pytest.approx(0.148, abs=0.001)}}


def a_profile(discriminator: str = "look") -> Profile:
    flat = (DeferralPoint(0.0, 0.0), DeferralPoint(0.5, 0.5), DeferralPoint(1.0, 1.0))
    cascade = CascadeProfile(
        light="light", heavy="heavy", discriminator=discriminator, deferral=flat, deferral_by_band=(flat, flat),
        paint_over=(Start(3, 0.9, quality_by_band=(0.8, None)),),
    )  # fmt: skip
    return Profile(
        catalog="test", seed=1, prompts=EASY + HARD, bands=(0.0, 0.5, 1.0),
        levels={"light": a_level((0.9, 0.4)), "heavy": a_level((1.0, 0.7)), "unheard-of": a_level((1.0, 1.0))},
        cascades=(cascade,), reuse={"heavy": (Start(4, 0.5, quality=0.5, quality_by_band=(0.6, 0.3)),)},
    )  # fmt: skip


def prompts() -> PromptTable:
    """Easy prompts look well on light; hard ones badly, and confidence tells: .9 and .2."""
    is_hard = np.arange(EASY + HARD) >= EASY
    light, heavy = np.where(is_hard, 0.2, 1.0), np.where(is_hard, 0.8, 1.0)
    return PromptTable(
        prompts=("p",) * len(is_hard), seeds=np.arange(len(is_hard)), hardness=np.where(is_hard, 0.4, 0.1),
        levels=("light", "heavy", "heavy~k4"), cost_ms=np.array([20.0, 200.0, 100.0]),
        quality=np.stack([light, heavy, np.where(is_hard, 0.7, 0.9)], axis=1),
        facts=np.zeros((len(is_hard), 3)), judged=("look: light > heavy",),
        confidence=np.where(is_hard, 0.2, 0.9)[:, None], over_rows=np.arange(EASY, EASY + HARD),
        over_k=np.array([3]), over_quality=np.full((HARD, 1), 0.7),
    )  # fmt: skip


def measured(**changes: object) -> Catalog:
    return with_profile(a_catalog(**changes), a_profile(), prompts())


def test_what_is_kept_is_better_than_all_and_what_is_generated_again_is_of_the_rejected() -> None:
    table = cascade_table(measured(), a_catalog().pair())
    at, heavy = table.thresholds.index(0.5), (EASY * 1.0 + HARD * 0.8) / (EASY + HARD)
    assert table.kept[0][0] == pytest.approx((EASY * 1.0 + HARD * 0.2) / (EASY + HARD))
    assert table.again[0][at] == pytest.approx((HARD * 0.8 + PRIOR * heavy) / (HARD + PRIOR))
    kept, again = table.kept[0][at] or 0.0, table.again[0][at] or 0.0
    assert (EASY * kept + HARD * again) / (EASY + HARD) == pytest.approx(heavy), "easy images are as good as heavy's"
    assert table.again[0][at] < table.again[0][-1]


def noisy(seed: int = 1, count: int = 400, **changes: Any) -> PromptTable:
    """Prompts on three levels: light is right on fewer of the hard ones, heavy is as good as middle but for chance."""
    dice, hardness = np.random.default_rng(seed), np.linspace(0, 0.999, count)
    confidence = np.clip(1 - hardness + dice.normal(0, 0.1, count), 0, 1)
    own = [dice.random(count) < 0.95 - 0.6 * hardness, dice.random(count) < 0.9, dice.random(count) < 0.9]
    values: dict[str, Any] = {
        "prompts": ("p",) * count, "seeds": np.arange(count), "hardness": hardness,
        "levels": ("light", "middle", "heavy"), "cost_ms": np.array([1.0, 5.0, 20.0]),
        "quality": np.stack(own, axis=1).astype(float), "facts": np.zeros((count, 3)),
        "judged": ("look: light > heavy",), "confidence": confidence[:, None], "over_rows": np.arange(count),
        "over_k": np.array([1, 2, 3]), "over_quality": (dice.random((count, 3)) < (0.9, 0.9, 0.8)).astype(float),
    }  # fmt: skip
    return PromptTable(**(values | changes))


def of_noisy(table: PromptTable) -> Catalog:
    profile = dataclasses.replace(a_profile(), bands=(0.0, 0.25, 0.5, 0.75, 1.0), reuse={}, cascades=())
    flat = tuple(DeferralPoint(t, t) for t in (0.0, 0.5, 1.0))
    cascade = CascadeProfile(
        light="light", heavy="heavy", discriminator="look", deferral=flat, deferral_by_band=(flat,) * 4
    )
    levels = {name: a_level((0.9, 0.9, 0.9, 0.9)) for name in table.levels}
    return with_profile(a_catalog(), dataclasses.replace(profile, levels=levels, cascades=(cascade,)), table)


def the_measured(table: PromptTable) -> Measured:
    found = of_noisy(table).measured
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_gain_over_the_cheapest_level_never_falls_as_hardness_rises(seed: int) -> None:
    quality = the_measured(noisy(seed)).quality
    gains = [(high or 0.0) - (low or 0.0) for low, high in zip(quality["light"], quality["middle"], strict=True)]
    assert gains == sorted(gains)


def test_a_dearer_level_that_is_not_shown_to_be_better_counts_as_the_cheaper_one() -> None:
    quality = the_measured(noisy()).quality
    assert quality["heavy"] == quality["middle"] != quality["light"]


def test_a_dearer_level_that_is_shown_to_be_better_counts_for_itself() -> None:
    table = noisy()
    better = np.where(np.arange(len(table.prompts)) % 30 > 0, 1.0, 0.0)
    quality = the_measured(dataclasses.replace(table, quality=np.c_[table.quality[:, :2], better])).quality
    assert np.mean([each or 0.0 for each in quality["heavy"]]) == pytest.approx(better.mean(), abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_keeping_an_image_never_counts_as_better_than_generating_it_again(seed: int) -> None:
    prompts = noisy(seed)
    known = the_measured(prompts).cascades[a_catalog().pair().key]
    for band in range(4):
        confidence = prompts.confidence[band * 100 : band * 100 + 100, 0]
        shares = [float((confidence < t).mean()) for t in known.thresholds[:-1]]
        sides = zip(shares, known.kept[band], known.again[0][band], strict=False)
        mixed = [(1 - share) * (above or 0.0) + share * (below or 0.0) for share, above, below in sides]
        assert max(mixed) <= (known.again[0][band][-1] or 0.0) + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_refining_counts_as_no_better_than_noise_and_a_later_step_as_no_better_than_an_earlier_one(seed: int) -> None:
    again = the_measured(noisy(seed)).cascades[a_catalog().pair().key].again
    rows = np.array([again[step] for step in (0, 1, 2, 3)], dtype=float)
    assert (np.diff(rows, axis=0) <= 1e-12).all()
    assert (rows[3] - rows[0]).mean() < -0.05, "the last step loses a tenth"


def test_a_step_that_loses_in_some_bands_alone_counts_as_losing_there() -> None:
    table = noisy(count=2000, confidence=np.random.default_rng(7).random((2000, 1)))
    heavy, is_hard = table.of("heavy"), table.hardness >= 0.5
    over = np.stack([heavy, heavy, np.where(is_hard & (np.arange(2000) % 10 == 0), 0.0, heavy)], axis=1)
    again = the_measured(dataclasses.replace(table, over_quality=over)).cascades[a_catalog().pair().key].again
    lost = [(late[-1] or 0.0) - (early[-1] or 0.0) for early, late in zip(again[1], again[3], strict=True)]
    assert lost == pytest.approx([0, 0, -0.09, -0.09], abs=0.03)


def test_a_step_that_loses_alike_in_all_bands_but_for_chance_counts_as_losing_alike() -> None:
    table = noisy(count=2000)
    dice = np.random.default_rng(5)
    over = np.where(dice.random(2000) < 0.1, 0.0, table.of("heavy"))
    again = the_measured(dataclasses.replace(table, over_quality=np.stack([over] * 3, axis=1)))
    rows = again.cascades[a_catalog().pair().key].again
    lost = [(late[-1] or 0.0) - (early[-1] or 0.0) for early, late in zip(rows[0], rows[3], strict=True)]
    assert max(lost) - min(lost) < 0.02


def test_the_number_of_prompts_stands_beside_what_they_show() -> None:
    found = the_measured(noisy())
    assert found.prompts == (100, 100, 100, 100)
    assert {pair: gain.prompts for pair, gain in found.gains.items()} == {
        ("light", "middle"): 400, ("light", "heavy"): 400, ("middle", "heavy"): 400,
    }  # fmt: skip
    cascade = found.cascades[a_catalog().pair().key]
    assert {change.prompts for change in cascade.changes.values()} == {400}
    assert cascade.losses[0] == found.gains["light", "heavy"], "at a threshold of 0 everything is kept"
    assert cascade.losses[-1].mean == 0, "at 1 nothing is"


def test_a_band_without_a_prompt_is_unknown_and_planned_with_its_profile_s_means() -> None:
    table = cascade_table(measured(), a_catalog().pair())
    assert set(table.kept[1]) == set(table.again[1]) == {None}
    assert table.quality[1][0] == pytest.approx(0.4)
    assert table.quality[1][-1] == pytest.approx(0.7)


def test_refining_is_compared_prompt_by_prompt() -> None:
    blank, over = (cascade_table(measured(), a_catalog().pair()._replace(refine_from_step=k)) for k in (0, 3))
    assert over.again[0][-1] == pytest.approx((blank.again[0][-1] or 0) - 0.1)


def test_without_prompts_the_profile_s_bands_are_all_there_is() -> None:
    catalog = with_profile(a_catalog(), a_profile())
    table = cascade_table(catalog, a_catalog().pair())
    assert table.deferred[0][table.thresholds.index(0.5)] == 0.5
    assert table.quality[0][table.thresholds.index(0.5)] == pytest.approx(0.95)
    assert catalog.measured is not None
    assert catalog.measured.classes == {}


def test_a_class_is_the_fastest_good_level_of_each_prompt() -> None:
    catalog = measured()
    assert catalog.measured is not None
    classes = catalog.measured.classes["models"]
    assert classes["light"] == pytest.approx({"light": 1.0, "heavy": 1.0})
    assert classes["heavy"] == pytest.approx({"light": 0.2, "heavy": 0.8})
    assert set(catalog.measured.classes["reuse"]) == {"heavy~k4", "heavy"}  # hard: .7 is less than .9 of .8


def test_levels_and_cascades_that_the_catalog_does_not_have_count_for_nothing() -> None:
    other = with_profile(a_catalog(), a_profile("other"), prompts())
    assert other.measured is not None
    assert other.measured.cascades == {}


def test_reuse_is_the_profile_s_where_the_catalog_states_none() -> None:
    assert [start.k for start in measured().reuse["heavy"]] == [4]
    assert measured(reuse={"heavy": (Start(9, 0.7),)}).reuse["heavy"][0].k == 9


def test_reuse_is_planned_by_caching_of_the_best_level_at_as_many_steps_as_when_it_was_measured() -> None:
    steps = a_catalog().level("heavy").steps

    def planned(**caching: Any) -> Any:
        return with_profile(a_catalog(), dataclasses.replace(a_profile(), caching=caching)).reuse_profile

    assert planned(heavy=a_measurement(steps=steps)).floors == reuse_profile_of("heavy", a_measurement()).floors
    assert planned(heavy=a_measurement(steps=steps + 1)) is None
    assert planned(light=a_measurement(steps=a_catalog().level("light").steps)) is None
    assert planned() is None


def test_predicted_classes_are_counted_by_band_and_a_band_without_prompts_has_those_of_all() -> None:
    table, profile = prompts(), dataclasses.replace(a_profile(), bands=(0.0, 0.2, 0.5, 1.0), cascades=())
    labels = np.array([["light"]] * 30 + [["heavy"]] * (EASY + HARD - 30))
    known = with_profile(a_catalog(), profile, dataclasses.replace(table, strategies=("models",), classes=labels))
    assert known.measured is not None
    easy, hard, none = known.measured.predicted["models"]
    assert easy == {"light": 30 / EASY, "heavy": (EASY - 30) / EASY}
    assert hard == {"heavy": 1.0}
    assert none == {"light": 0.5, "heavy": 0.5}


def compiled_light(**changes: Any) -> Catalog:
    light = a_variant(engine="diffusers", model="models/light", loading=Loading(compile=True))
    return a_catalog(variants=dict(a_catalog().variants, light=light), **changes)


def with_light_measured(*, compiled: bool) -> Profile:
    light = dataclasses.replace(a_profile().levels["light"], compiled=compiled)
    return dataclasses.replace(a_profile(), levels=a_profile().levels | {"light": light})


def test_a_compiled_variant_is_planned_by_the_profile_of_its_compiled_code_alone() -> None:
    assert with_profile(compiled_light(), with_light_measured(compiled=True)).measured is not None
    for profile, measured in ((None, "not measured"), (with_light_measured(compiled=False), "eager")):
        with pytest.raises(InvalidCatalog, match=f"'light' must be compiled: got '{measured}'; .*pochade profile"):
            check_compiled(compiled_light(), profile)


def test_a_variant_that_is_compiled_no_more_is_measured_again() -> None:
    with pytest.raises(InvalidCatalog, match="profile of variant 'light' must be eager: got 'compiled'"):
        with_profile(a_catalog(), with_light_measured(compiled=True))


def test_a_compiled_variant_on_request_needs_its_profile_too() -> None:
    styles = a_variant(name="styles", engine="diffusers", model="models/poster", loading=Loading(compile=True))
    with pytest.raises(InvalidCatalog, match="'styles' must be compiled: got 'not measured'"):
        with_profile(a_catalog(on_request={"styles": styles}), a_profile())


def test_only_an_engine_that_loads_a_model_compiles_one() -> None:
    with pytest.raises(InvalidCatalog, match=r"loading.compile.*false for engine profile"):
        a_variant(loading=Loading(compile=True))
