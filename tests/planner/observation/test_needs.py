"""Requests that only some variants serve, as the planner remembers them."""

from typing import Any

import pytest

from planner.catalog.model import Catalog
from planner.observation import needs as needs_module
from planner.observation.needs import WINDOW_MS, Need, Needs
from planner.serving.routing.composing import Fits
from schemas.messages import GenerateOptions
from tests.builders import NOW_MS, a_catalog, a_request, a_variant, unmeasured

CATALOG = a_catalog(
    variants={
        "light": a_variant(name="light", latency_ms={1: 20.0}, quality=0.7),
        "middle": a_variant(name="middle", latency_ms={1: 100.0}, quality=0.8, honours=("steps",), steps=4),
        "heavy": a_variant(name="heavy", latency_ms={1: 400.0}, quality=0.9, honours=("steps", "guidance"), steps=10),
    }
)


def variants_of(catalog: Catalog = CATALOG, **asked: Any) -> tuple[str, ...]:
    request = a_request(**asked)
    return Fits(catalog).of(request.options, request.quality).needs()


def begun(needs: Needs, id_: str, ago_ms: int, **asked: Any) -> None:
    request = a_request(request_id=id_, **asked)
    needs.begin(id_, request, variants_of(**asked), NOW_MS - ago_ms)


def test_what_needs_a_variant_is_what_names_it_and_strict_options_and_qualities() -> None:
    steps = GenerateOptions(steps=7)
    assert variants_of() == variants_of(options=GenerateOptions(n=4, strict=True)) == ()
    assert variants_of(options=GenerateOptions(model="middle")) == ("middle",)
    assert variants_of(options=steps) == variants_of(quality="high") == (), "they may be overridden"
    assert variants_of(options=GenerateOptions(steps=7, strict=True)) == ("middle", "heavy")
    assert variants_of(options=GenerateOptions(strict=True), quality="high") == ("heavy",)
    assert variants_of(options=GenerateOptions(steps=7, strict=True), quality="low") == ("middle",)


def test_without_measured_quality_the_word_for_the_best_level_needs_it_as_nothing_says_what_another_loses() -> None:
    unknown = unmeasured(CATALOG)
    assert variants_of(unknown, quality="high") == ("heavy",)
    assert variants_of(unknown, quality="low") == variants_of(unknown) == ()


def test_the_work_that_came_is_by_tenant_in_workers_and_what_waits_is_counted_from_the_first() -> None:
    needs, named = Needs(CATALOG), GenerateOptions(model="heavy", n=3)
    for nth, tenant in enumerate(("ann", "ann", "bob")):
        begun(needs, f"r-{nth}", 1000 * (3 - nth), options=named, tenant=tenant)
    needs.end("r-0")
    (need,) = needs.observed(NOW_MS)
    seconds = 30
    assert (need.variants, round(need.rps * seconds, 6), need.waiting) == (("heavy",), 3, 2)
    assert {tenant: round(work * seconds, 6) for tenant, work in need.work.items()} == {"ann": 2.4, "bob": 1.2}
    assert (need.oldest_ms, need.last_ms) == (NOW_MS - 2000, NOW_MS - 1000)
    assert needs.asked() == {("heavy",)}


def test_what_waits_is_seen_long_after_the_window_and_what_has_ended_is_forgotten() -> None:
    needs = Needs(CATALOG)
    begun(needs, "waits", WINDOW_MS + 5, options=GenerateOptions(model="light"))
    begun(needs, "ended", WINDOW_MS + 5, options=GenerateOptions(model="heavy"))
    needs.end("ended")
    assert needs.observed(NOW_MS) == (
        Need(("light",), 0.0, {"default": 0.0}, 1, NOW_MS - WINDOW_MS - 5, NOW_MS - WINDOW_MS - 5),
    )


def test_what_a_quota_refused_is_no_demand_and_a_repetition_counts_once() -> None:
    needs = Needs(CATALOG)
    for _ in range(3):
        begun(needs, "r", 5, options=GenerateOptions(model="light"))
    assert needs.observed(NOW_MS)[0].waiting == 1
    needs.end("r", is_demand=False)
    assert needs.observed(NOW_MS) == ()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs_module, "MAX_KNOWN", 2)
    needs = Needs(CATALOG)
    for nth in range(5):
        begun(needs, f"r-{nth}", 5, options=GenerateOptions(model="light"))
    assert needs.observed(NOW_MS)[0].waiting == 2
