"""Quality by heavy share, and the measured settings of a pair."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.curves import CascadeCurves, PairRow, SharePoint, at, front
from planner.catalog.validate import InvalidCatalog
from tests.builders import a_catalog

U = (SharePoint(0.0, -22.0), SharePoint(0.6, -16.0), SharePoint(1.0, -18.0))


@pytest.mark.parametrize(("heavy", "quality"), [(0, -22), (0.3, -19), (0.6, -16), (0.8, -17), (1, -18)])
def test_a_curve_is_linear_between_its_points(heavy: float, quality: float) -> None:
    assert at(U, heavy) == pytest.approx(quality)


def test_a_curve_is_flat_beyond_what_was_measured() -> None:
    assert at(U[1:], 0.2) == -16
    assert at(U[:2], 0.9) == -16


def a_row(**changes: object) -> PairRow:
    values: dict[str, object] = {
        "light": "light", "heavy": "heavy", "router_ratio": 0.2, "disc_ratio": 0.5, "latency_ms": 700.0,
        "quality": -20.0,
    }  # fmt: skip
    return PairRow(**(values | changes))  # type: ignore[arg-type]


def test_light_is_charged_only_for_what_reaches_it_and_heavy_for_both_ways_there() -> None:
    assert a_row().light_share == pytest.approx(0.8)
    assert a_row().heavy_share == pytest.approx(0.2 + 0.8 * 0.5)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=15))
def test_no_row_of_the_front_is_beaten_and_every_other_row_is(figures: list[tuple[int, int]]) -> None:
    rows = [a_row(latency_ms=float(ms), quality=float(quality)) for ms, quality in figures]
    kept = front(rows)
    for row in kept:
        assert not any(r.latency_ms <= row.latency_ms and r.quality > row.quality for r in rows)
    for row in rows:
        assert any(k.latency_ms <= row.latency_ms and k.quality >= row.quality for k in kept)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"router_ratio": 1.2}, r"router_ratio must be in \[0, 1\]: got 1.2"),
        ({"disc_ratio": math.nan}, "disc_ratio"),
        ({"threshold": -0.1}, "threshold"),
        ({"latency_ms": -1.0}, "latency_ms must be >= 0"),
        ({"quality": math.inf}, "quality must be finite"),
    ],
)
def test_an_impossible_row_is_refused(changes: dict[str, float], reported: str) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        a_catalog(pair_rows=(a_row(**changes),))


def test_a_curve_whose_shares_do_not_rise_is_refused() -> None:
    key = a_catalog().pair().key
    with pytest.raises(InvalidCatalog, match="rising"):
        a_catalog(curves={key: CascadeCurves(judged=(SharePoint(0.5, 1.0), SharePoint(0.5, 2.0)))})
    with pytest.raises(InvalidCatalog, match="a share and a finite number"):
        a_catalog(curves={key: CascadeCurves(random=(SharePoint(0.5, math.nan),))})
