"""Measurements of caching: floors by route, and none where nobody measured any."""

from dataclasses import replace
from typing import Any

import pytest

from planner.catalog.caching import (
    BegunFrom,
    Bounded,
    Leak,
    CachingMeasurement,
    RouteSavings,
    check_caching,
    floors_of,
    guard_of,
)
from planner.catalog.validate import InvalidCatalog
from planner.reuse.guard import Difference, GuardShares
from planner.reuse.steps import Floor

NONE = Bounded(0.0, -0.004, 0.004)


def a_route(share: float, *floors: Floor, saved: float = 0.1) -> RouteSavings:
    return RouteSavings(
        share=share, floors=floors, hit_rate=0.3, exact_rate=0.1, saved_share=saved, saved_exact_share=0.05,
        change=NONE, facts_change=NONE,
    )  # fmt: skip


def a_reuse_profile(**changes: Any) -> CachingMeasurement:
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


def test_a_level_has_the_floors_of_the_route_that_requests_are_sent_on() -> None:
    measured = {"heavy": a_reuse_profile()}
    assert floors_of(measured, "heavy", 0.25).share(0.96) == 0.25
    assert floors_of(measured, "heavy", 0.5).share(0.96) == 0.25, "of the next lower route that was measured"
    assert floors_of(measured, "heavy", 0.75).share(0.96) == 0.5
    assert guard_of(measured, "heavy").differs[Difference.COLOUR] == 0.125


def test_where_nobody_measured_it_nothing_is_reused() -> None:
    measured = {"heavy": a_reuse_profile()}
    assert floors_of(measured, "heavy", 0.1).floors == ()
    assert floors_of(measured, "light", 0.75).floors == ()
    assert guard_of(measured, "light") == GuardShares(equal=0.0)


def test_the_best_route_is_the_one_that_saves_most_and_none_that_saves_nothing() -> None:
    best = a_reuse_profile().best
    assert best is not None
    assert best.share == 0.75
    assert a_reuse_profile(routes=(a_route(0.5, saved=0.0),)).best is None


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"version": 2}, "heavy: version must be 1: got 2; measure again with `pochade profile --reuse`"),
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
        check_caching(a_reuse_profile(**changes), "heavy")
