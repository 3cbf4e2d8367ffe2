"""Requests with components go to what honours them whole, and nothing else falls back to it."""

import math

import pytest

from planner.catalog.components import Selection
from planner.catalog.model import Catalog
from planner.serving.decisions import UNHONOURED, Rejection
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import turned_away
from planner.serving.routing.cascades import may_escalate
from planner.serving.routing.composing import fit_of
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic
from schemas.messages import GenerateOptions, Route, Status
from tests.builders import NOW_MS, a_catalog, a_classified, a_plan, a_request, a_variant, composed_variant, unmeasured
from tests.planner.serving.workers import FixedLoads

URI = "memory:00/input.0123456789abcdef-0123456789abcdef.png"


class Waits(dict[str, float]):
    def wait_ms(self, variant: str) -> float:
        return self.get(variant, math.inf)

    def ready_ms(self, variant: str, selection: Selection) -> float:
        del selection
        return self.wait_ms(variant)

    def slowness(self, variant: str) -> float:
        del variant
        return 1.0

    def serving_of(self, variant: str) -> int:
        return int(variant in self)

    def serving(self) -> int:
        return len(self)


ALL = Waits(light=0.0, heavy=0.0, styles=0.0)


def a_composing_catalog(**changes: object) -> Catalog:
    return a_catalog(on_request={"styles": composed_variant()}, **changes)


def routed(
    options: GenerateOptions, loads: Waits = ALL, catalog: Catalog | None = None, **request: object
) -> Placement | Rejection:
    logic = RoutingLogic(catalog or a_composing_catalog(), NO_LIMITS)
    decision = logic.route(a_classified(a_request(options=options, **request)), a_plan(), loads, NOW_MS)
    assert isinstance(decision, Placement | Rejection)
    return decision


@pytest.mark.parametrize(
    "options",
    [
        GenerateOptions(model="poster"),
        GenerateOptions(model="styles"),
        GenerateOptions(adapters=("candy",), adapter_weights=(0.5,)),
        GenerateOptions(controls=("outline",), control_images=(URI,)),
        GenerateOptions(image=URI),
    ],
)
def test_a_request_goes_where_its_components_are_honoured(options: GenerateOptions) -> None:
    placed = routed(options)
    assert isinstance(placed, Placement)
    assert (placed.variant, placed.fallback, placed.overridden) == ("styles", "", ())
    assert fit_of(options, "auto", a_composing_catalog()).needs() == ("styles",)
    assert not may_escalate(a_request(options=options), a_composing_catalog())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (GenerateOptions(adapters=("neon",)), "styles has no adapter 'neon': its adapters are candy, frost"),
        (GenerateOptions(model="light", adapters=("candy",)), "it has no adapters; styles can: name it"),
        (GenerateOptions(model="chalk", adapters=("candy",)), "adapter candy is for poster, not for chalk"),
        (GenerateOptions(model="postr"), "did you mean 'poster'"),
        (GenerateOptions(image=URI, mask=URI), "styles begins with no mask; ask for what a level has"),
        (GenerateOptions(model="light", image=URI), "light begins with no image; styles can: name it, or no model"),
    ],
)
def test_what_nothing_honours_is_rejected_though_it_is_not_strict(options: GenerateOptions, reason: str) -> None:
    turned = routed(options)
    assert isinstance(turned, Rejection)
    assert (turned.status, turned.code) == (Status.REJECTED, UNHONOURED)
    assert reason in turned.reason


@pytest.mark.parametrize("quality", ["auto", "low", "high"])
@pytest.mark.parametrize("options", [GenerateOptions(model="poster"), GenerateOptions(adapters=("candy",))])
def test_without_a_worker_it_waits_for_one_and_no_level_stands_in(options: GenerateOptions, quality: str) -> None:
    loads = Waits(light=0.0, heavy=0.0)
    placed = routed(options, loads, quality=quality, deadline_ms=NOW_MS + 60_000)
    assert isinstance(placed, Placement)
    assert (placed.variant, placed.overridden) == ("styles", ())


def test_the_best_level_is_waited_for_where_no_quality_is_measured_and_else_the_nearest_one_stands_in() -> None:
    plan = a_plan(routes=(Route(levels={"light": 1.0}),), allocation={"w-1": "light"}, cascades=())
    loads = Waits(light=0.0)
    placed = {}
    for catalog in (a_catalog(), unmeasured(a_catalog())):
        decided = RoutingLogic(catalog, NO_LIMITS).route(a_classified(a_request(quality="high")), plan, loads, NOW_MS)
        assert isinstance(decided, Placement)
        placed[catalog.has_quality] = decided.variant, decided.overridden
    assert placed == {True: ("light", ("quality: high -> light",)), False: ("heavy", ())}


@pytest.mark.parametrize(
    ("model", "quality", "overridden"),
    [
        ("light", "high", ("quality: high -> light",)),
        ("heavy", "medium", ("quality: medium -> heavy",)),
        ("styles", "low", ("quality: low -> styles",)),
        ("light", "low", ()),
        ("heavy", "high", ()),
        ("heavy", "auto", ()),
        ("poster", "high", ()),  # a base leaves the choice of a variant
    ],
)
def test_a_model_goes_before_a_quality_that_asks_for_another_which_it_says_or_refuses(
    model: str, quality: str, overridden: tuple[str, ...]
) -> None:
    placed = routed(GenerateOptions(model=model), quality=quality)
    assert isinstance(placed, Placement)
    assert placed.overridden == overridden
    assert fit_of(GenerateOptions(model=model), quality, a_composing_catalog()).needs() == (placed.variant,)
    strict = routed(GenerateOptions(model=model, strict=True), quality=quality)
    if overridden:
        assert isinstance(strict, Rejection)
        assert (strict.code, f"does not honour {overridden[0]}" in strict.reason) == (UNHONOURED, True)
        ended = turned_away(strict, a_classified(), by="router", policy="test", now_ms=NOW_MS)
        assert result_of(ended).param == "quality"
    else:
        assert isinstance(strict, Placement)


def test_a_level_whose_base_no_worker_holds_gives_way_to_a_cheaper_one_that_is_in_time() -> None:
    parts = composed_variant().components
    dear = a_variant(name="heavy", bases=("poster",), components=parts, latency_ms={1: 200.0})
    catalog = a_catalog(variants={"light": a_variant(latency_ms={1: 50.0}), "heavy": dear})
    plan = a_plan(routes=(Route(levels={"heavy": 1.0}),))

    def level(load_ms: float) -> str:
        loads = FixedLoads({"light": 0.0, "heavy": 0.0}, loads_ms={"heavy": load_ms})
        request = a_classified(a_request(deadline_ms=NOW_MS + 1000))
        placed = RoutingLogic(catalog, NO_LIMITS).route(request, plan, loads, NOW_MS)
        assert isinstance(placed, Placement)
        return placed.level

    assert (level(750.0), level(850.0)) == ("heavy", "light")


def test_no_other_request_falls_back_to_it() -> None:
    for options in (GenerateOptions(), GenerateOptions(model="heavy"), GenerateOptions(steps=3)):
        placed = routed(options, Waits(styles=0.0))
        assert isinstance(placed, Placement)
        assert placed.variant in ("light", "heavy")


def test_levels_that_honour_it_are_drawn_by_the_plan_without_the_others() -> None:
    parts = composed_variant().components
    able = {
        name: a_variant(name=name, adapters=("candy",), components=parts, latency_ms={1: ms})
        for name, ms in (("heavy", 200.0), ("huge", 400.0))
    }
    catalog = a_catalog(variants={"light": a_variant(), **able})
    logic = RoutingLogic(catalog, NO_LIMITS)
    plan = a_plan(routes=(Route(levels={"light": 0.5, "heavy": 0.3, "huge": 0.2}),))
    loads, drawn = Waits(light=0.0, heavy=0.0, huge=0.0), {"light": 0, "heavy": 0, "huge": 0}
    for nth in range(400):
        request = a_request(request_id=f"r-{nth}", options=GenerateOptions(adapters=("candy",)))
        placed = logic.route(a_classified(request), plan, loads, NOW_MS)
        assert isinstance(placed, Placement)
        drawn[placed.variant] += 1
    assert drawn["light"] == 0
    assert drawn["heavy"] / 400 == pytest.approx(0.6, abs=0.08)


def test_a_quality_that_is_not_known_asks_for_nothing_where_a_record_was_not_checked() -> None:
    for word in ("", "ultra"):
        assert fit_of(GenerateOptions(), word, a_composing_catalog()).level == ""
        assert may_escalate(a_request(quality=word), a_composing_catalog())
