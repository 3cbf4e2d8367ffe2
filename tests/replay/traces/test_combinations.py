"""Made requests for combinations of components that seldom come again, and the skew of any trace's components."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from click.testing import CliRunner

from planner.catalog.components import Component
from replay.traces import Trace, read
from replay.traces.combinations import base_weights, combined
from replay.traces.rates import EVEN
from replay.traces.shapes import COMBINATIONS, Shape, shaped
from replay.traces.skew import Skew, gini, skew_of
from replay.traces.trace import Overrides, of_arrivals
from schemas.messages import GenerateOptions
from streams.catalogs import measured
from streams.cli import main
from tests.replay.simulation.runs import asking


def made(count: int, seed: int = 1) -> Trace:
    return combined(of_arrivals(np.arange(count, dtype=np.float64), "made", "made"), seed)


@pytest.fixture(scope="module")
def skew() -> Skew:
    return skew_of(made(20_000))


def test_made_requests_are_as_skewed_as_the_study_reports(skew: Skew) -> None:
    assert gini(base_weights()) == pytest.approx(0.876, abs=0.005)
    assert skew.first == pytest.approx(0.288, abs=0.02)
    assert skew.first_five == pytest.approx(0.704, abs=0.02)
    assert skew.popular_adapters == pytest.approx(0.235, abs=0.05)
    assert skew.without_adapters == pytest.approx(0.788, abs=0.02)
    assert 3 <= skew.most_adapters <= 6


def test_nine_of_ten_made_combinations_come_fewer_than_five_times(skew: Skew) -> None:
    assert skew.combinations > 2000
    assert skew.rare == pytest.approx(0.893, abs=0.02)


def test_a_made_request_depends_on_seed_and_number_alone() -> None:
    one, other = [wish.options for wish in made(500).wishes], [wish.options for wish in made(500, seed=2).wishes]
    again = made(500)
    assert one == [wish.options for wish in again.wishes]
    assert one != other
    longer = made(700)
    assert [longer.row(n).wish for n in range(500)] == [again.row(n).wish for n in range(500)]


def test_a_user_who_asks_again_asks_for_the_same_within_twenty_requests() -> None:
    trace = made(3000)
    seen: dict[str, int] = {}
    gaps, same = [], []
    for number, row in enumerate(trace.rows()):
        if row.wish.tenant in seen:
            gaps.append(number - seen[row.wish.tenant])
            same.append(trace.row(seen[row.wish.tenant]).wish == row.wish)
        seen[row.wish.tenant] = number
    assert all(same)
    assert max(gaps) <= 20
    assert len(gaps) == pytest.approx(300, abs=60)


def test_the_catalog_of_the_public_trace_knows_every_component_of_the_shape(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sparse.jsonl"
    options = ["--shape", "combinations", "--rate", "2", "--for", "100s", "-o", str(path)]
    done = CliRunner().invoke(main, ["replay", "make", *options])
    assert done.exit_code == 0, done.output
    written = read(path)
    variant = measured("genai2026").level("image")
    known = {each.name for each in variant.components if isinstance(each, Component)}
    asked = {
        name
        for row in written.rows()
        for name in (row.wish.options.model, *row.wish.options.adapters, *row.wish.options.controls)
    }
    assert asked <= known
    assert len(asked) > 20
    plain = shaped(Shape(name=COMBINATIONS, rates_rps=(2,), seconds=100), EVEN, 0)
    assert len(plain) == 200


def of_bases(*names: str, adapters: Sequence[tuple[str, ...]] = ()) -> Skew:
    several = adapters or [()] * len(names)
    wishes = [
        Overrides(options=GenerateOptions(model=name, adapters=own)) for name, own in zip(names, several, strict=True)
    ]
    return skew_of(asking(np.arange(len(names)) * 1.0, wishes))


def test_skew_is_none_where_all_are_asked_for_alike_and_great_where_one_has_all() -> None:
    assert gini([5, 5, 5, 5]) == pytest.approx(0)
    assert gini([0, 0, 0, 100]) == pytest.approx(0.75)
    assert gini([]) == 0
    even = of_bases(*"abcdefghij")
    assert (even.gini, even.first, even.first_five) == (pytest.approx(0), 0.1, 0.5)
    assert (even.without_adapters, even.most_adapters, even.popular_adapters) == (1, 0, 0)


def test_combinations_are_told_apart_by_their_adapters_whatever_their_order() -> None:
    skew = of_bases(*"aaaaaab", adapters=[("x", "y"), ("y", "x"), ("x", "y"), ("x", "y"), ("y", "x"), (), ()])
    assert skew.combinations == 3
    assert skew.rare == pytest.approx(2 / 3)  # five times is not rare
    assert skew.most_adapters == 2
    assert skew.without_adapters == pytest.approx(2 / 7)


def test_a_trace_that_asks_for_nothing_has_no_skew() -> None:
    skew = skew_of(of_arrivals([0.0, 1.0], "bare", "bare"))
    assert (skew.gini, skew.first, skew.without_adapters, skew.combinations) == (0, 0, 1, 1)
