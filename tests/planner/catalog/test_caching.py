"""Measurements of caching: floors by route, and none where nobody measured any."""

from dataclasses import replace
from typing import Any

import pytest

from planner.catalog.caching import (
    BegunFrom,
    Bounded,
    CachingMeasurement,
    Leak,
    RouteSavings,
    SimilarityBand,
    check_caching,
    reuse_profile_of,
)
from planner.catalog.reuse import Neighbours, ReuseProfile
from planner.catalog.validate import InvalidCatalog
from planner.reuse.terms import Difference, Floor, GuardShares

NONE = Bounded(0.0, -0.004, 0.004)


def a_route(share: float, *floors: Floor, saved: float = 0.1) -> RouteSavings:
    return RouteSavings(
        share=share, floors=floors, hit_rate=0.3, exact_rate=0.1, saved_share=saved, saved_exact_share=0.05,
        change=NONE, facts_change=NONE,
    )  # fmt: skip


def a_measurement(**changes: Any) -> CachingMeasurement:
    begun = BegunFrom(
        share=0.25, pairs=40, quality=Bounded(0.9, 0.8, 0.95), facts=Bounded(0.99, 0.98, 1.0), change=NONE,
        facts_change=NONE,
    )  # fmt: skip
    values: dict[str, Any] = {
        "key": "scorer", "dimension": 96, "seed": 1, "requests": 1200, "steps": 8, "tolerance": 0.005,
        "exact_share": 0.12, "guard": GuardShares(equal=0.75, style=0.75, differs={Difference.COLOUR: 0.125}),
        "routes": (a_route(0.25, Floor(0.9, 0.25)), a_route(0.75, Floor(0.95, 0.5), Floor(0.99, 0.75), saved=0.2)),
        "unrelated": (begun,), "differences": {"colour": (begun,)}, "verdicts": {"equal": 0.3},
        "leak": (Leak("nearest", "any", 0.25, 40, Bounded(0.1, 0.05, 0.2)),),
    }  # fmt: skip
    return CachingMeasurement(**values | changes)


def test_policies_plan_with_the_floors_of_the_route_that_saves_most() -> None:
    rows = (Neighbours(0.9, 0.3, {"equal": 1.0}),)
    planned = reuse_profile_of("heavy", a_measurement(neighbours=rows))
    assert [(floor.similarity, floor.share) for floor in planned.floors] == [(0.95, 0.5), (0.99, 0.75)]
    assert planned.guard is not None
    assert planned.guard.differs == {"colour": 0.125}
    assert planned.neighbours == rows


def test_a_hit_loses_what_its_route_loses_over_all_requests_by_the_share_of_hits() -> None:
    route = replace(a_route(0.5), change=Bounded(-0.003, -0.005, 0.0), hit_rate=0.3)
    assert reuse_profile_of("heavy", a_measurement(routes=(route,))).losses == {"heavy~k4": pytest.approx(0.01)}


def test_a_hit_changes_quality_as_its_verdict_and_share_did_and_as_unrelated_neighbours_where_not_measured() -> None:
    def begun(share: float, pairs: int, change: float) -> BegunFrom:
        some = Bounded(0.9, 0.8, 0.95)
        return BegunFrom(
            share=share, pairs=pairs, quality=some, facts=some, change=Bounded(change, -1.0, 1.0), facts_change=NONE
        )

    bands = tuple(
        SimilarityBand(low=low, high=low + 0.1, passed=passed, begun=(begun(0.5, pairs, change),))
        for low, passed, pairs, change in ((0.8, True, 10, -0.03), (0.9, True, 30, 0.01), (0.9, False, 90, -0.5))
    )
    planned = reuse_profile_of(
        "heavy",
        a_measurement(
            similarity=bands, unrelated=(begun(0.5, 40, -0.8),), differences={"colour": (begun(0.5, 20, -0.2),)}
        ),
    )
    at_half = {verdict: planned.change(verdict, 0.5) for verdict in ("equal", "style", "colour", "count", "unsure")}
    assert at_half == {
        "equal": pytest.approx(0.0), "style": pytest.approx(0.0), "colour": -0.2, "count": -0.8, "unsure": -0.8,
    }  # fmt: skip
    assert planned.change("colour", 0.25) == pytest.approx(-0.1), "half of the way"
    assert ReuseProfile().change("equal", 0.5) is None, "not measured"


def test_where_no_floor_was_shown_to_hold_policies_have_none() -> None:
    assert reuse_profile_of("heavy", a_measurement(routes=(a_route(0.5, saved=0.0),))).floors == ()


def test_the_best_route_is_the_one_that_saves_most_and_none_that_saves_nothing() -> None:
    best = a_measurement().best
    assert best is not None
    assert best.share == 0.75
    assert a_measurement(routes=(a_route(0.5, saved=0.0),)).best is None


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"version": 1}, "heavy: version must be 2: got 1; measure again with `pochade profile --reuse`"),
        ({"key": ""}, "heavy: key must be named"),
        ({"steps": 1}, "heavy: steps must be >= 2: got 1"),
        ({"tolerance": -0.1}, "heavy: tolerance must be >= 0"),
        ({"exact_share": 1.2}, r"heavy: exact_share must be in \[0, 1\]"),
        ({"differences": {"hue": ()}}, "heavy: differences must be a kind of difference: got 'hue'"),
        ({"routes": (a_route(0.5), a_route(0.25))}, "heavy: routes must be of rising shares"),
        ({"routes": (a_route(0.25, Floor(0.9, 0.5)),)}, r"heavy: routes\[0\].floors must be <= 0.25: got 0.5"),
        ({"routes": (replace(a_route(0.5), hit_rate=1.5),)}, r"heavy: routes\[0\].hit_rate must be in \[0, 1\]"),
    ],
)
def test_impossible_measurements_are_refused(changes: dict[str, Any], reported: str) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        check_caching(a_measurement(**changes), "heavy")
