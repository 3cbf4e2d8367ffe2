"""Ids name a kind; a fused id names its parts and weights in one order; load times fall towards the device."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.components.component import (
    Component,
    InvalidComponent,
    Kind,
    Tier,
    base_of,
    component_id,
    fused_id,
    kind_of,
    weights_of,
)
from planner.components.demand.combinations import combination, parts_of, static_combinations
from tests.planner.components.build import a_component, some

WEIGHTS = st.dictionaries(
    st.from_regex(r"adapter:[a-z0-9_.-]{1,8}", fullmatch=True),
    st.floats(-2, 2).map(lambda w: float(f"{w:g}")),
    min_size=1,
)


def test_a_fused_id_has_its_adapters_in_order_of_their_names_with_their_weights() -> None:
    assert fused_id("base:poster", {"adapter:candy": 0.8}) == "fused:poster+candy@0.8"
    one = fused_id("base:poster", {"adapter:b": 1.0, "adapter:a": 0.5})
    assert one == fused_id("base:poster", {"adapter:a": 0.5, "adapter:b": 1.0}) == "fused:poster+a@0.5+b@1"


@given(WEIGHTS)
def test_a_fused_id_gives_back_its_parts(weights: dict[str, float]) -> None:
    fused = fused_id("base:poster", weights)
    assert kind_of(fused) is Kind.FUSED
    assert base_of(fused) == "base:poster"
    assert weights_of(fused) == weights
    assert parts_of(fused) == ("base:poster", *sorted(weights))


@pytest.mark.parametrize("wrong", ["poster", "model:poster", "base:", ""])
def test_an_id_without_a_known_kind_is_refused_with_the_kinds_that_there_are(wrong: str) -> None:
    with pytest.raises(InvalidComponent, match="adapter, base, control, fused"):
        kind_of(wrong)


@pytest.mark.parametrize("name", ["a+b", "a@1", "a:b", "a b", ""])
def test_a_name_that_would_break_a_fused_id_is_refused(name: str) -> None:
    with pytest.raises(InvalidComponent):
        component_id(Kind.ADAPTER, name)


def test_only_a_base_with_adapters_can_be_fused() -> None:
    for base, weights in [("adapter:a", {"adapter:b": 1.0}), ("base:a", {}), ("base:a", {"control:b": 1.0})]:
        with pytest.raises(InvalidComponent):
            fused_id(base, weights)


@pytest.mark.parametrize("load_ms", [{Tier.HOST: 9.0, Tier.REMOTE: 3.0}, {Tier.HOST: -1.0}, {Tier.HOST: math.nan}])
def test_load_times_that_fall_with_distance_or_are_none_are_refused(load_ms: dict[Tier, float]) -> None:
    with pytest.raises(InvalidComponent, match="load_ms"):
        Component(id="base:a", bytes=1, load_ms=load_ms)


def test_a_tier_without_a_measurement_costs_what_the_next_farther_one_does() -> None:
    remote_only = Component(id="base:a", bytes=1, load_ms={Tier.REMOTE: 7.0})
    assert [remote_only.load_from(tier) for tier in Tier] == [7.0, 7.0, 7.0, 0.0]
    fused_here = Component(id="fused:a+b@1", bytes=1, load_ms={Tier.HOST: 2.0})
    assert fused_here.load_from(Tier.HOST) == 2.0
    with pytest.raises(InvalidComponent, match="profile"):
        fused_here.load_from(Tier.REMOTE)


def test_the_most_frequent_combinations_stay_fused_while_they_fit_and_are_asked_for_again() -> None:
    components = some("base:a") | {"base:big": a_component("base:big", size=100)}
    asked = {"fused:a+x@1": 9.0, "fused:big+x@1": 8.0, "fused:a+y@1": 5.0, "fused:a+z@1": 4.0, "fused:a+rare@1": 1.0}
    static = static_combinations(asked, components, room_bytes=30)
    assert [each.id for each in static] == ["fused:a+x@1", "fused:a+y@1", "fused:a+z@1"]
    assert [each.id for each in static_combinations(asked, components, 1000, limit=2)] == [
        "fused:a+x@1",
        "fused:big+x@1",
    ]
    many = {f"fused:a+x{n}@1": 100.0 - n for n in range(60)}
    assert len(static_combinations(many, components, 10_000)) == 50, "of MLoRA 6.3.1"
    assert combination("base:a", {}) is None
