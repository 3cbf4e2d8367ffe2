"""Whatever stands in a catalog, a profile or an observation is planned with, or is an error of ours that says where."""

import json
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.hardness import InvalidReference, Reference
from streams.parsing import catalog, observation, profile
from streams.shipped import INFRA
from tests.builders import an_observation
from tests.malformed import DEEP, JSON, fuzz, reported
from tests.paths import ROOT

CATALOGS = [(INFRA / "catalogs" / f"{name}.toml").read_text() for name in ("tiny", "profile", "sdxl-example")]
PROFILE = json.loads((INFRA / "profiles" / "tiny.json").read_text())
OBSERVATION = json.loads(observation.text_of(an_observation()))
REFERENCE = json.loads((ROOT / "planner/serving/hardness_reference.json").read_text())
Path = tuple[Any, ...]


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """Where something stands in tables and arrays, the first two of each."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*at, name))


def put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {**value, path[0]: put(value[path[0]], path[1:], new)}
    return [put(item, path[1:], new) if n == path[0] else item for n, item in enumerate(value)]


def odd(value: Any, most: int = 2) -> st.SearchStrategy[Any]:
    """The same with one or two things in it replaced."""
    changes = st.lists(st.tuples(st.sampled_from(sorted(places(value), key=repr)), JSON), min_size=1, max_size=most)

    def changed(found: list[tuple[Path, Any]]) -> Any:
        new = value
        for path, item in found:
            try:
                new = put(new, path, item)
            except (KeyError, TypeError, IndexError):
                continue  # what it was in has been replaced
        return new

    return changes.map(changed)


def is_told(parse: Callable[[], object]) -> bool:
    """Read, or refused in words."""
    return bool(str(reported(parse)))


@fuzz(70)
@given(odd(PROFILE))
def test_any_values_in_a_profile(value: Any) -> None:
    assert is_told(lambda: profile.parse(json.dumps(value), "given"))


@fuzz(70)
@given(odd(OBSERVATION))
def test_any_values_in_an_observation(value: Any) -> None:
    assert is_told(lambda: observation.parse(json.dumps(value), "given"))


@fuzz(60)
@given(odd(REFERENCE))
def test_any_values_in_a_reference(value: Any) -> None:
    assert isinstance(reported(lambda: Reference.parse(json.dumps(value))), (Reference, InvalidReference))


VALUES = st.sampled_from(("1", "-1", "0", "nan", "inf", "1e400", "true", "''", "'light'", "[]", "{}", "[[1]]", "[{}]",
                          "{a = 1}", "{'²' = 1}", "2026-01-01", "9" * 5000, "[" * 5000, "'''\n"))  # fmt: skip


@fuzz(70)
@given(st.sampled_from(CATALOGS), st.lists(st.tuples(st.integers(0, 500), VALUES), min_size=1, max_size=2))
def test_any_values_in_a_catalog(text: str, changes: list[tuple[int, str]]) -> None:
    lines = text.splitlines()
    for at, value in changes:
        at %= len(lines)
        lines[at] = f"{lines[at].split('=')[0]}= {value}" if "=" in lines[at] else value
    assert is_told(lambda: catalog.parse("\n".join(lines), "given"))


@fuzz(60)
@given(st.text(max_size=80))
@pytest.mark.parametrize("parse", [catalog.parse, profile.parse, observation.parse])
def test_any_text(parse: Callable[[str, str], object], text: str) -> None:
    assert is_told(lambda: parse(text, "given"))


@pytest.mark.parametrize("parse", [catalog.parse, profile.parse, observation.parse])
def test_what_is_nested_without_end_is_told(parse: Callable[[str, str], object]) -> None:
    for text in (DEEP, f"a = {DEEP}", '{"a":' * 50_000):
        assert is_told(lambda text=text: parse(text, "given"))  # type: ignore[misc]


def test_the_shipped_ones_are_read() -> None:
    assert tomllib.loads(CATALOGS[0])
    assert profile.parse(json.dumps(PROFILE), "tiny").levels
