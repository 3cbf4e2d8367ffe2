"""The affinity model: its means are ARGUS's, and classes decide what a fast level loses."""

import itertools
from statistics import mean

import pytest

from planner.catalog.bands import bounds_of, level_quality
from planner.catalog.quality import degradations, levels_of
from planner.policies import named
from replay.bench.papers.affinity import CACHED, SMALLER, Affinity, with_affinity
from streams import catalogs
from tests.builders import an_observation

ARGUS = catalogs.measured("argus-a100")


def over_random_levels(strategy: str, affinity: Affinity) -> float:
    levels = levels_of(ARGUS, strategy)
    return mean(20.9 - affinity.lost(own, level) for own, level in itertools.product(levels, levels))


def test_the_fit_gives_the_published_means_of_random_prompts() -> None:
    """Source: ARGUS Fig. 9 (Small 17.4), 5.5 (18.2 over models, 17.6 over steps skipped), Fig. 10 (20.9)."""
    fitted = with_affinity(ARGUS)
    assert fitted.level("small-sd").quality == pytest.approx(17.4, abs=0.01)
    assert fitted.level("sdxl").quality == pytest.approx(20.9)
    assert over_random_levels("models", SMALLER) == pytest.approx(18.2, abs=0.01)
    assert over_random_levels("reuse", CACHED) == pytest.approx(17.6, abs=0.01)


def test_a_prompt_loses_nothing_on_its_own_level_and_more_the_faster_the_other_is() -> None:
    fitted = with_affinity(ARGUS)
    for strategy in ("models", "reuse"):
        for own, row in degradations(fitted, strategy).items():
            names = [level.name for level in levels_of(fitted, strategy)]
            losses = [row[name] for name in names]
            assert losses[: names.index(own) + 1] == [0.0] * (names.index(own) + 1)
            assert losses == sorted(losses)


def test_easy_prompts_are_as_good_on_the_fastest_level_and_hard_ones_are_not() -> None:
    fitted = with_affinity(ARGUS)
    last = len(bounds_of(fitted)) - 2
    for level in ("tiny-sd", "sdxl~k25"):
        assert level_quality(fitted, level, 0) == pytest.approx(20.9)
        hardest = level_quality(fitted, level, last)
        assert hardest is not None
        assert hardest < 10
    assert [cut.level for cut in fitted.class_cuts["reuse"]][::5] == ["sdxl~k25", "sdxl"]


def test_argus_sends_easy_prompts_to_the_levels_that_are_as_good_for_them() -> None:
    shares = dict.fromkeys(("tiny-sd", "small-sd", "sd15", "sdxl"), 0.25)
    seen = an_observation(8, demand_rps=2.5, classes={"models": shares})
    routes = {route.label: route.levels for route in named("argus")(seen, with_affinity(ARGUS), {}, {}).routes}
    assert routes["tiny-sd"].get("small-sd", 0) > routes["sdxl"].get("small-sd", 0)
