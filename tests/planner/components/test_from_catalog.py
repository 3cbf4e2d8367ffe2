"""The components of a catalog as placement and dispatch take them, and what a request needs of them."""

import pytest

from planner.catalog.components import BASE, Component
from planner.catalog.options import resolve_options
from planner.components.component import ComponentRequest, Tier
from planner.components.from_catalog import components_of, fused, requested
from schemas.errors import PochadeError
from schemas.messages import GenerateOptions
from tests.builders import a_catalog, composed_variant, sized_variant


def test_measured_load_times_are_taken_and_missing_ones_follow_from_the_variants_by_bytes() -> None:
    found = components_of(a_catalog(on_request={"styles": sized_variant(load_ms=50.0)}), "styles")
    assert found["base:poster"].load_ms == {Tier.REMOTE: 50.0}
    assert found["adapter:candy"].load_ms == {Tier.REMOTE: 5.0}, "a tenth of the base's bytes"
    assert found["control:outline"].load_ms == {Tier.VOLUME: 30.0, Tier.REMOTE: 30.0}, "never less than from nearer"


def test_what_has_no_known_size_is_left_out_and_a_level_without_bases_has_none() -> None:
    catalog = a_catalog(on_request={"styles": composed_variant()})
    assert components_of(catalog, "styles") == {}
    assert components_of(catalog, "light") == {}


def test_a_request_needs_its_base_adapters_with_weights_and_controls() -> None:
    options = GenerateOptions(adapters=("candy",), adapter_weights=(0.8,), controls=("outline",), control_images=("u",))
    resolved = resolve_options(options, composed_variant())
    needed = requested(resolved.components)
    assert needed == ComponentRequest(
        base="base:poster", adapters={"adapter:candy": 0.8}, controls=("control:outline",)
    )
    assert requested(resolve_options(GenerateOptions(), composed_variant()).components).ids == ("base:poster",)


def test_a_fused_component_is_as_large_as_its_base_and_is_loaded_from_nowhere() -> None:
    base = components_of(a_catalog(on_request={"styles": sized_variant()}), "styles")["base:poster"]
    made = fused("fused:poster+candy@1", base)
    assert made.bytes == base.bytes
    with pytest.raises(PochadeError, match="no load time"):
        made.load_from(Tier.REMOTE)


def test_a_load_time_that_grows_with_nearness_is_refused_with_both() -> None:
    with pytest.raises(PochadeError, match="no longer from a nearer tier"):
        Component(kind=BASE, name="b", source="s", load_ms={"remote": 10.0, "host": 20.0})
