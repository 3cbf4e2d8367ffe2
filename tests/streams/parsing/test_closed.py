"""Closed tables into values: what is refused is reported by its path, the value, the limit and what to do."""

import math
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple

import pytest

from planner.catalog.validate import InvalidCatalog
from schemas.errors import PochadeError, Unknown
from streams.parsing.closed import Source, read
from tests.malformed import DEEP


class Point(NamedTuple):
    """One point."""

    at: float
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Inner:
    """A table in a table."""

    steps: int
    refine_from_step: int = 0


@dataclass(frozen=True, kw_only=True)
class Outer:
    """A table."""

    name: str
    points: tuple[Point, ...] = ()
    by_name: dict[str, Inner] = field(default_factory=dict)
    by_batch: dict[int, float] = field(default_factory=dict)
    inner: Inner | None = None


def outer(**table: Any) -> Outer:
    return read(Outer, {"name": "a"} | table, Source("file x"))


def test_tables_are_values_and_a_named_tuple_may_be_an_array() -> None:
    found = outer(points=[[1], {"at": 2, "share": 0.5}], by_name={"b": {"steps": 3, "paint_over_step": 1}})
    assert found == Outer(name="a", points=(Point(1.0), Point(2.0, 0.5)), by_name={"b": Inner(3, 1)})
    assert outer(by_batch={"4": 1.5}).by_batch == {4: 1.5}
    assert math.isnan(outer(points=[[math.nan]]).points[0].at)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"name": 1}, "file x: name must be a text: got 1; correct it"),
        ({"name": date(2026, 1, 1)}, "file x: name must be a text: got ['2026-01-01']; correct it"),
        ({"points": 5}, "file x: points must be an array: got 5; correct it"),
        ({"points": [5]}, "file x: points[0] must be a table, or an array of its values: got 5; correct it"),
        ({"points": [[1], [2, "x"]]}, "file x: points[1].share must be a number: got 'x'; correct it"),
        ({"points": [[1, 2, 3]]}, "file x: points[0] must be at most 2 values: got [1, 2, 3]; correct it"),
        ({"points": [[]]}, "file x: points[0].at must be given: got None; add `at = ...`"),
        ({"by_name": {"b": {}}}, "file x: by_name.b.steps must be given: got None; add `steps = ...`"),
        ({"by_name": {"b": {"steps": 1.0}}}, "file x: by_name.b.steps must be a whole number: got 1.0; correct it"),
        ({"by_name": {"b": {"steps": True}}}, "file x: by_name.b.steps must be a whole number: got True; correct it"),
        ({"inner": {"steps": 1, "paint_over_step": "2"}},
         "file x: inner.paint_over_step must be a whole number: got '2'; correct it"),
        ({"inner": {"steps": 10**309}}, f"file x: inner.steps must be within 2e+308: got 1{'0' * 199}...; correct it"),
        ({"inner": []}, "file x: inner must be a table: got []; correct it"),
        ({"by_batch": {"1": "x" * 300}}, f"file x: by_batch.1 must be a number: got '{'x' * 199}...; correct it"),
    ],
)  # fmt: skip
def test_what_is_refused_is_told_by_path_value_and_limit(table: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidCatalog) as refused:
        outer(**table)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"nam": "a"}, r"unknown key of file x 'nam': .*did you mean 'name'"),
        ({"by_name": {"b": {"step": 1}}}, r"key of file x: by_name\.b 'step'.*did you mean 'steps'"),
        ({"inner": {"steps": 1, "refine_from_step": 1}}, "known are paint_over_step, steps"),
        ({"points": [{"at": 1, "shares": 2}]}, r"points\[0\] 'shares'.*did you mean 'share'"),
    ],
)
def test_an_unknown_key_names_the_nearest_before_anything_else_is_told(table: dict[str, Any], told: str) -> None:
    with pytest.raises(Unknown, match=told):
        outer(**table)


def test_a_source_says_what_to_do_and_which_error_it_is() -> None:
    class Broken(PochadeError):
        pass

    with pytest.raises(Broken, match=r"^file y: steps must be given: got None; add"):
        read(Outer, {"name": "a", "inner": {}}, Source("file y", "mend it", Broken, inlined=frozenset({"inner"})))
    with pytest.raises(Broken, match=r"; mend it$"):
        read(Outer, {"name": 1}, Source("file y", "mend it", Broken))


@pytest.mark.parametrize("text", ["[" * 300 + "]" * 300, DEEP])
def test_what_is_nested_without_end_is_told(text: str) -> None:
    deep: Any = []
    for _ in range(text.count("[")):
        deep = [deep]
    with pytest.raises(InvalidCatalog, match="file x"):
        outer(points=deep)
