"""Load times of components: measured from each tier, rising with its distance, and written beside the comments."""

import dataclasses

import pytest
import tomlkit

from agents.profiling import components
from agents.profiling.catalog import with_load_times
from agents.profiling.components import measure_loads
from schemas.errors import PochadeError
from streams import catalogs

pytestmark = pytest.mark.torch


def test_a_component_takes_longer_from_a_farther_tier_and_an_adapter_less_than_its_base() -> None:
    variant = catalogs.load("tiny").level("styles")
    few = tuple(each for each in variant.components if each.id in ("base:poster", "adapter:mint"))
    variant = dataclasses.replace(variant, components=few, bases=("poster",), adapters=("mint",), controls=())
    found = measure_loads(variant, repeats=2)
    assert list(found) == ["base:poster", "adapter:mint"]
    for times in found.values():
        assert 0 < times["host"] <= times["volume"] <= times["remote"]
    assert found["adapter:mint"]["host"] < found["base:poster"]["host"]


def test_a_component_that_lies_in_no_folder_is_told() -> None:
    variant = catalogs.load("tiny").level("styles")
    hub = dataclasses.replace(variant.components[0], source="owner/name")
    with pytest.raises(components.EngineFailed, match="base:poster must lie in a folder to be timed: got 'owner/name'"):
        measure_loads(dataclasses.replace(variant, components=(hub,)))


def test_times_are_written_into_the_tables_and_comments_stay() -> None:
    text = '# mine\n[bases.poster]\nsource = "here"  # there\n'
    written = with_load_times(text, {"base:poster": {"host": 1.23456, "volume": 2.0, "remote": 12.3456}})
    assert written.startswith(text)
    assert tomlkit.parse(written)["bases"]["poster"]["load_ms"] == {"remote": 12.3, "volume": 2.0, "host": 1.23}  # type: ignore[index]
    with pytest.raises(PochadeError, match=r"no \[adapters.mint\]"):
        with_load_times(text, {"adapter:mint": {"host": 1.0}})


def test_the_shipped_family_has_measured_times_of_every_component() -> None:
    for each in catalogs.load("tiny").level("styles").components:
        assert 0 < each.load_ms["host"] <= each.load_ms["volume"] <= each.load_ms["remote"]
