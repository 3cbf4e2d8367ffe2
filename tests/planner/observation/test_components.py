"""What is seen of components: what requests ask for, whose requests come again, and who holds what."""

import json
from dataclasses import replace

import pytest

from planner.components.component import Tier
from planner.components.demand.popularity import Popularity
from planner.observation.components import (
    AT_MS,
    DEMAND,
    MAX_WAITING,
    ComponentLog,
    ObservedComponents,
    ObservedDemand,
)
from planner.observation.observation import InvalidObservation, Observation
from planner.observation.workers import ReceivedHeartbeat
from schemas.messages import GenerateOptions, Plan, ResidencyPlan, WorkerComponents
from streams.parsing.observation import parse, text_of
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, a_variant, composed_variant, sized_variant

CATALOG = a_catalog(on_request={"styles": sized_variant()})
CANDY = GenerateOptions(adapters=("candy",))
CHALK = GenerateOptions(model="chalk")


def seen(log: ComponentLog, at_ms: int = NOW_MS, plan: Plan | None = None) -> ObservedComponents:
    found = log.observed({}, (), plan, at_ms)
    assert found is not None
    return found


def remembered(memory: object) -> Plan:
    return a_plan(residency=ResidencyPlan(workers={}, memory=json.dumps(memory)))


def test_requests_are_counted_by_component_pair_and_combination() -> None:
    log = ComponentLog(CATALOG)
    for n in range(6):
        log.on_request(CANDY if n % 3 else CHALK, "", NOW_MS - 1000 * n)
    demand = seen(log).demand["styles"]
    assert {id_: round(count) for id_, (count, _) in demand.requests.items()} == {
        "base:poster": 4, "base:chalk": 2, "adapter:candy": 4,
    }  # fmt: skip
    assert [*demand.fused] == ["fused:poster+candy@1"]
    assert [*demand.pairs] == ["base:poster"]
    assert demand.rps == pytest.approx(6 / 60), "a log that has just begun has read the last minute"
    counted = demand.counted()
    assert counted.popularity(NOW_MS)["base:poster"] is Popularity.HOT
    assert counted.companions("base:poster", NOW_MS, 1.0, 5) == ("adapter:candy",)


def test_what_names_nothing_needs_the_default_base_of_each_level_that_lists_bases() -> None:
    levels = {"light": a_variant(), "painted": replace(sized_variant(name="painted"), on_request=False)}
    log = ComponentLog(a_catalog(variants=levels, cascades=(), class_cuts={}))
    log.on_request(GenerateOptions(), "", NOW_MS)
    assert {v: [*demand.requests] for v, demand in seen(log).demand.items()} == {"painted": ["base:poster"]}
    unlisted = ComponentLog(CATALOG)
    unlisted.on_request(GenerateOptions(), "", NOW_MS)
    assert seen(unlisted).demand == {}


def test_a_catalog_without_bases_has_nothing_to_see_and_what_nothing_honours_is_no_demand() -> None:
    assert ComponentLog(a_catalog()).observed({}, (), None, NOW_MS) is None
    log = ComponentLog(CATALOG)
    log.on_request(GenerateOptions(adapters=("no such",)), "", NOW_MS)
    assert seen(log).demand == {}


def test_a_users_next_variant_makes_its_components_likely_to_come_again() -> None:
    log = ComponentLog(CATALOG)
    for n in range(200):
        log.on_request(CANDY, f"user-{n % 4}", NOW_MS - 200_000 + 1000 * n)
    returning = seen(log).demand["styles"].returning
    assert returning["adapter:candy"] > 0.9
    assert seen(log, NOW_MS + 3_600_000).demand["styles"].returning == {}, "the users' windows are over"


def test_a_planner_that_begins_goes_on_from_the_memory_of_the_plan_and_counts_nothing_twice() -> None:
    first = ComponentLog(CATALOG)
    for n in range(10):
        first.on_request(CANDY, "", NOW_MS - 1000 * n)
    demand = seen(first).demand["styles"]
    memory = {AT_MS: NOW_MS, DEMAND: {"styles": {"requests": demand.requests, "fused": demand.fused,
                                                 "pairs": demand.pairs}}}  # fmt: skip
    second = ComponentLog(CATALOG)
    for at_ms in (NOW_MS - 500, NOW_MS + 500):
        second.on_request(CANDY, "", at_ms)
    after = seen(second, NOW_MS + 1000, remembered(memory)).demand["styles"]
    assert after.requests["base:poster"][0] == pytest.approx(11, rel=1e-3)
    assert after.pairs["base:poster"]["adapter:candy"][0] == pytest.approx(11, rel=1e-3)


@pytest.mark.parametrize("memory", [{}, {AT_MS: NOW_MS, DEMAND: {"styles": {"requests": 3}}}, {DEMAND: []}, {AT_MS: 1}])
def test_a_memory_of_another_release_is_forgotten_and_counted(memory: object) -> None:
    log = ComponentLog(CATALOG)
    log.on_request(CANDY, "", NOW_MS)
    assert seen(log, NOW_MS, remembered(memory)).demand["styles"].requests["base:poster"][0] == 1
    assert log.ignored == 1


def test_who_stands_by_remembers_no_more_than_the_newest() -> None:
    log = ComponentLog(CATALOG)
    for n in range(MAX_WAITING + 7):
        log.on_request(CANDY, "", NOW_MS + n // 1000)
    assert round(seen(log).demand["styles"].requests["base:poster"][0]) == MAX_WAITING


def test_live_workers_reports_are_the_holdings_and_impossible_ones_are_none() -> None:
    whole = WorkerComponents(held={"device": ("base:poster",), "volume": ("base:poster", "base:chalk"), "moon": ("x",)})
    broken = WorkerComponents(budget_bytes={"device": -1})
    beats = {
        name: ReceivedHeartbeat(a_heartbeat(worker_id=name, components=report), NOW_MS)
        for name, report in {"w-1": whole, "w-2": broken, "w-3": None, "gone": whole}.items()
    }
    found = ComponentLog(CATALOG).observed(beats, ("w-1", "w-2", "w-3", "w-4"), None, NOW_MS)
    assert found is not None
    assert [*found.workers] == ["w-1"]
    holdings = found.holdings()
    assert holdings.tier_of("w-1", "base:poster") is Tier.DEVICE
    assert holdings.tier_of("w-1", "base:chalk") is Tier.VOLUME
    assert holdings.tier_of("w-2", "base:chalk") is Tier.REMOTE


def test_an_observation_with_components_is_read_back_from_its_file_as_it_was() -> None:
    log = ComponentLog(CATALOG)
    log.on_request(CANDY, "ann", NOW_MS - 5)
    whole = Observation(now_ms=NOW_MS, demand_rps=1.0, components=seen(log))
    assert parse(text_of(whole), "seen.json") == whole
    wrong = ObservedComponents(demand={"styles": ObservedDemand(rps=float("nan"))})
    with pytest.raises(InvalidObservation, match="components of styles"):
        Observation(now_ms=NOW_MS, demand_rps=1.0, components=wrong)


def test_a_variant_of_bases_without_sizes_is_counted_all_the_same() -> None:
    log = ComponentLog(a_catalog(on_request={"styles": composed_variant()}))
    log.on_request(CHALK, "", NOW_MS)
    assert [*seen(log).demand["styles"].requests] == ["base:chalk"]
