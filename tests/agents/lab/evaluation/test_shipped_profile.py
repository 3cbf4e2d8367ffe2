"""The profile that ships: readable by the planner, and of the catalog's levels."""

import importlib.resources
import itertools
import pathlib

import numpy as np
import pytest

from planner.catalog.profile import Profile
from planner.catalog.prompt_table import prompt_table
from streams import catalogs
from streams.parsing.profile import parse

FOLDER = pathlib.Path(str(importlib.resources.files("infra"))) / "profiles"


def shipped() -> Profile:
    file = FOLDER / "tiny.json"
    if not file.exists():
        pytest.skip("infra/profiles/tiny.json is not there: run `pochade profile --catalog tiny`")
    return parse(file.read_text(), file.name)


def test_the_shipped_profile_is_of_the_catalogs_levels_and_cascades() -> None:
    profile, catalog = shipped(), catalogs.load("tiny")
    assert set(profile.levels) == set(catalog.variants)
    assert [(c.light, c.heavy) for c in profile.cascades] == [(pair.light, pair.heavy) for pair in catalog.cascades]
    assert set(profile.levels[catalog.pair().heavy].latency_ms) >= {1, 2, 4, 8}


def test_the_heavy_level_costs_more_and_is_better_and_its_deferral_curve_rises() -> None:
    profile, pair = shipped(), catalogs.load("tiny").pair()
    light, heavy = profile.levels[pair.light], profile.levels[pair.heavy]
    assert heavy.latency_ms[1] >= 5 * light.latency_ms[1]
    assert light.quality is not None
    assert heavy.quality is not None
    assert heavy.quality > light.quality
    curve = profile.cascades[0].deferral
    assert len(curve) == 21
    assert all(a.deferred <= b.deferred for a, b in itertools.pairwise(curve))


def test_the_shipped_table_agrees_with_the_profile() -> None:
    profile = shipped()
    with np.load(FOLDER / "tiny-quality.npz") as arrays:
        table = prompt_table(dict(arrays), "tiny-quality.npz")
    assert len(table.prompts) == profile.prompts
    for name, level in profile.levels.items():
        if level.quality is not None:
            assert np.nanmean(table.of(name)) == pytest.approx(level.quality, abs=0.002)
