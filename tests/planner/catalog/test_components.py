"""Components: what a request names is honoured whole or not at all, and what there is is said."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.components import NOTHING, Component, Offer, Weighted, select, unhonoured
from planner.catalog.model import Catalog
from planner.catalog.options import job_ms, resolve_options
from planner.catalog.validate import InvalidCatalog
from schemas.errors import Unknown
from schemas.messages import GenerateOptions
from streams.parsing.catalog import parse
from tests.builders import a_variant, composed_variant
from tests.paths import CATALOGS

STYLES = composed_variant()
OFFER = STYLES.offer
URI = "memory:00/input.0123456789abcdef-0123456789abcdef.png"


def asked(**options: object) -> GenerateOptions:
    if "controls" in options:
        options["control_images"] = (URI,)
    return GenerateOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "why", "param"),
    [
        ({"adapters": ("neon",)}, "styles has no adapter 'neon': its adapters are candy, frost", "adapters"),
        ({"adapters": ("candy:0.8",)}, "are candy, frost; a weight goes into adapter_weights", "adapters"),
        ({"adapters": ("cady",)}, "its adapters are candy, frost; did you mean 'candy'", "adapters"),
        ({"controls": ("depth",)}, "styles has no control 'depth': its controls are outline", "controls"),
        ({"adapters": ("candy",), "model": "chalk"}, "adapter candy is for poster, not for chalk", "adapters"),
        ({"adapters": ("candy", "frost")}, "no base of styles fits all of adapter:candy and adapter:frost", "adapters"),
        ({"image": URI, "mask": URI}, "styles begins with no mask", "mask"),
    ],
)
def test_what_a_variant_cannot_generate_with_is_said_with_what_there_is(
    options: dict[str, object], why: str, param: str
) -> None:
    fault = unhonoured(asked(**options), OFFER)
    assert fault is not None
    assert (why in fault.reason, fault.param) == (True, param)
    assert resolve_options(asked(**options), STYLES).components == NOTHING


def test_the_base_is_the_one_named_else_the_first_that_everything_named_fits() -> None:
    assert select(asked(), OFFER).base == "poster"
    assert select(asked(model="chalk"), OFFER).base == "chalk"
    assert select(asked(adapters=("frost",)), OFFER).base == "chalk"
    assert select(asked(adapters=("candy",), controls=("outline",)), OFFER).base == "poster"


def test_adapters_in_another_order_are_the_same_combination() -> None:
    one = select(asked(adapters=("b", "a"), adapter_weights=(0.5, 1.0)), OFFER)
    other = select(asked(adapters=("a", "b"), adapter_weights=(1.0, 0.5)), OFFER)
    assert one == other
    assert one.adapters == (Weighted("a", 1.0), Weighted("b", 0.5))


def test_a_selection_names_its_parts_and_what_they_are_fused_to() -> None:
    chosen = select(asked(adapters=("candy",), adapter_weights=(0.8,), controls=("outline",)), OFFER)
    assert chosen.ids == ("base:poster", "adapter:candy@0.8", "control:outline@1")
    assert chosen.fused_id == "fused:poster+candy@0.8"
    assert select(asked(), OFFER).fused_id == "base:poster"


class CountedComponents(tuple[Component, ...]):
    """Components that count how often all of them are gone through."""

    scans = 0

    def __iter__(self) -> Iterator[Component]:
        self.scans += 1
        return super().__iter__()


def test_the_components_of_a_catalog_are_gone_through_once_and_not_for_each_request() -> None:
    listed = CountedComponents(STYLES.components)
    offer = Offer("styles", STYLES.bases, listed, STYLES.honours)
    ways = [asked(adapters=("candy",), controls=("outline",)), asked(adapters=("neon",)), asked(model="chalk")]

    def ask() -> int:
        for way in ways:
            if not unhonoured(way, offer):
                select(way, offer)
        return listed.scans

    assert ask() == ask() <= 2


NAMES = st.lists(st.sampled_from(["candy", "frost", "outline", "neon"]), max_size=4).map(tuple)


@given(adapters=NAMES, controls=NAMES)
def test_a_request_names_its_components_once_each_in_the_order_of_the_catalog(
    adapters: tuple[str, ...], controls: tuple[str, ...]
) -> None:
    wanted = {("adapter", name) for name in adapters} | {("control", name) for name in controls}
    named = OFFER.named(GenerateOptions(adapters=adapters, controls=controls))
    assert named == [each for each in STYLES.components if (each.kind, each.name) in wanted]


def test_a_job_takes_the_time_that_its_components_and_its_strength_take() -> None:
    plain = job_ms(STYLES, asked())
    assert job_ms(STYLES, asked(controls=("outline",))) == pytest.approx(1.5 * plain)
    assert job_ms(STYLES, asked(image=URI, strength=0.5)) == pytest.approx(plain / 2)


def test_honoured_components_are_not_among_what_is_overridden() -> None:
    how = resolve_options(asked(model="chalk", adapters=("frost",), image=URI, steps=99), STYLES)
    assert how.overridden == ("steps: 99 -> 2",)
    assert resolve_options(asked(adapters=("frost",)), a_variant()).overridden == ("adapters: frost -> none",)


def tiny() -> Catalog:
    return parse((CATALOGS / "tiny.toml").read_text(), "tiny")


def test_the_tiny_family_honours_its_components_in_a_variant_that_is_no_level() -> None:
    catalog = tiny()
    styles = catalog.on_request["styles"]
    assert "styles" not in catalog.variants
    assert catalog.level("styles") is styles
    assert catalog.bases == {name: ["styles"] for name in ("poster", "chalk", "woodcut")}
    assert {each.name for each in styles.components} == {*styles.bases, *styles.adapters, *styles.controls}
    assert all(each.sha256 and each.bytes for each in styles.components)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('adapters = ["pastel",', 'adapters = ["pastle",', "unknown adapter of variant 'styles' 'pastle'"),
        ('bases = ["poster"]', 'bases = ["poter"]', "unknown base of adapter:pastel 'poter'"),
        ("[bases.poster]", '[bases.poster]\nkind = "x"', "kind must be left out"),
        ("on_request = true", "on_request = true\ncomponents = []", "components must be left out"),
        ("[bases.poster]", '[bases.poster]\nsha256 = "12"', "is not TOML"),
    ],
)
def test_a_catalog_that_names_what_it_lacks_is_refused(old: str, new: str, message: str) -> None:
    text = (CATALOGS / "tiny.toml").read_text()
    with pytest.raises((InvalidCatalog, Unknown), match=message):
        parse(text.replace(old, new, 1), "tiny")


@pytest.mark.parametrize(
    "changed", [{"name": "a+b"}, {"sha256": "12"}, {"run_factor": 0.0}, {"load_ms": {"moon": 1.0}}]
)
def test_a_component_with_impossible_values_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises((InvalidCatalog, Unknown)):
        Component(**{"kind": "adapter", "name": "a", "source": "models/a", **changed})  # type: ignore[arg-type]
