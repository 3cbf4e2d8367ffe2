"""A plan's residency: hot, warm and cold components on the workers of a variant, and what outlasts a planner."""

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from planner.catalog.components import Component
from planner.catalog.model import Catalog
from planner.control import residency
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.renewal.carry_over import carry_over
from planner.control.renewal.same_plan import decide_alike
from planner.control.residency import PLACE_MS, REFRESH_MS, SLOTS, place_components, with_residency
from planner.control.validity import check
from planner.observation.components import AT_MS, ComponentLog, ObservedComponents
from planner.observation.observation import Observation
from planner.observation.workers import ReceivedHeartbeat
from schemas.errors import InvalidPlan
from schemas.messages import GenerateOptions, Plan, ResidencyPlan, Route, WorkerComponents
from tests.builders import a_catalog, a_heartbeat, a_plan, a_variant, a_worker

HOUR_MS = 3_600_000
NOW_MS = 1000 * HOUR_MS + HOUR_MS // 2  # amid an hour
ROOM = {"volume": 100_000, "host": 20_000, "device": 5_000}


def a_library(bases: int = 12, adapters: int = 8, **changes: object) -> Catalog:
    """A variant `styles` with bases of 1,000 bytes and adapters of 100 that fit them all; 200 ms an image."""
    names = tuple(f"b{n:02}" for n in range(bases)), tuple(f"a{n:02}" for n in range(adapters))
    times = {"remote": 100.0, "volume": 30.0, "host": 5.0}
    components = [Component(kind="base", name=n, source="s", bytes=1000, load_ms=times) for n in names[0]]
    components += [Component(kind="adapter", name=n, source="s", bytes=100, load_ms=times) for n in names[1]]
    styles = a_variant(
        name="styles", on_request=True, bases=names[0], adapters=names[1], components=tuple(components), quality=None,
        latency_ms={1: 200.0}, load_ms=100.0, **changes,
    )  # fmt: skip
    return a_catalog(on_request={"styles": styles})


LIBRARY = a_library()
WORKERS = tuple(f"w-{n}" for n in range(8))
ALLOCATION = {**dict.fromkeys(WORKERS, "styles"), "w-light": "light"}


def asked(*counted: tuple[int, str, tuple[str, ...]], at_ms: int = NOW_MS, user: str = "") -> ComponentLog:
    """Requests so often for a base with adapters."""
    return and_asked(ComponentLog(LIBRARY), *counted, at_ms=at_ms, user=user)


def and_asked(
    log: ComponentLog, *counted: tuple[int, str, tuple[str, ...]], at_ms: int = NOW_MS, user: str = ""
) -> ComponentLog:
    for times, base, adapters in counted:
        for _ in range(times):
            log.on_request(GenerateOptions(model=base, adapters=adapters), user, at_ms)
    return log


def observed(
    log: ComponentLog, workers: Iterable[str] = WORKERS, now_ms: int = NOW_MS, plan: Plan | None = None,
    **held: dict[str, tuple[str, ...]],
) -> ObservedComponents:  # fmt: skip
    reports = {w: WorkerComponents(held=held.get(w.replace("-", "_"), {}), budget_bytes=ROOM) for w in workers}
    beats = {w: ReceivedHeartbeat(a_heartbeat(worker_id=w, components=r), now_ms) for w, r in reports.items()}
    seen = log.observed(beats, beats, plan, now_ms)
    assert seen is not None
    return seen


def placed(
    seen: ObservedComponents,
    before: ResidencyPlan | None = None,
    now_ms: int = NOW_MS,
    workers: Iterable[str] = WORKERS,
) -> ResidencyPlan:
    return place_components(dict.fromkeys(workers, "styles"), seen, before, LIBRARY, now_ms)


def holders(found: ResidencyPlan, id_: str, tier: str = "device") -> set[str]:
    return {worker for worker, held in found.workers.items() if held.get(id_) == tier}


SKEWED = ((60, "b00", ("a00", "a01")), (20, "b00", ("a02",)), (5, "b01", ()), (2, "b02", ()), (1, "b03", ("a03",)))


def test_the_hot_base_is_on_three_devices_with_what_comes_with_it_and_no_level_gets_components() -> None:
    found = place_components(ALLOCATION, observed(asked(*SKEWED)), None, LIBRARY, NOW_MS)
    homes = holders(found, "base:b00")
    assert len(homes) == 3
    assert homes <= holders(found, "adapter:a00") & holders(found, "adapter:a01")
    assert "w-light" not in found.workers
    assert holders(found, "base:b03") == set()


def test_what_comes_with_a_base_seldom_is_not_loaded_with_it() -> None:
    """Counts of 10, 3, 1 at theta .2 leave the first two: Eq. 5."""
    log = asked((10, "b00", ("a00",)), (3, "b00", ("a01",)), (1, "b00", ("a02",)))
    full = {w.replace("-", "_"): {"device": ("base:b00",)} for w in WORKERS}
    found = placed(observed(log, **full))
    assert holders(found, "base:b00") <= holders(found, "adapter:a00") & holders(found, "adapter:a01")
    assert not holders(found, "adapter:a02")


def test_a_new_worker_has_its_components_placed_by_the_plan_that_gives_it_the_variant() -> None:
    seen = observed(asked(*SKEWED), workers=("w-0",))
    found = placed(seen, workers=("w-0", "w-new"))
    assert found.workers["w-new"]["base:b00"] == "device"
    assert found.workers["w-new"]["adapter:a00"] in {"device", "host"}


def test_more_load_means_more_replicas_up_to_five_and_none_is_given_up_for_a_little_less() -> None:
    few = placed(observed(asked((100, "b00", ()))))  # 100 in the minute watched: a third of a worker
    assert len(holders(few, "base:b00")) == 3
    many = placed(observed(asked((1000, "b00", ()))))  # 3.3 workers
    assert len(holders(many, "base:b00")) == 5
    later = NOW_MS + PLACE_MS
    fewer = placed(observed(asked((890, "b00", ()))), many, later)  # 2.97: four would do by now
    assert len(holders(fewer, "base:b00")) == 5
    assert len(holders(placed(observed(asked((700, "b00", ()))), many, later), "base:b00")) == 4


def test_a_worker_that_leaves_moves_the_hot_components_that_it_had_and_no_other() -> None:
    log = asked(*SKEWED)
    before = placed(observed(log))
    gone = min(holders(before, "base:b00"))
    left = [w for w in WORKERS if w != gone]
    after = placed(observed(log, left), before, workers=left)
    assert holders(before, "base:b00") - {gone} < holders(after, "base:b00")
    assert len(holders(after, "base:b00")) == 3


def test_frequent_combinations_are_held_fused_where_their_base_is() -> None:
    found = placed(observed(asked(*SKEWED)))
    fused = "fused:b00+a00@1+a01@1"
    assert holders(found, fused) | holders(found, fused, "host") == holders(found, "base:b00")
    assert not any("a03" in id_ and id_.startswith("fused") for held in found.workers.values() for id_ in held)


def test_warm_components_are_loaded_ahead_once_the_bandit_has_seen_their_hour() -> None:
    log = asked(*SKEWED)
    first = placed(observed(log))
    assert not holders(first, "base:b01", "host")
    later = NOW_MS + HOUR_MS
    and_asked(log, *SKEWED, at_ms=later)
    second = placed(observed(log, now_ms=later), first, later)
    assert len(holders(second, "base:b01", "host")) == 1
    noted = json.loads(second.memory)["notes"]["styles"]
    assert "base:b01" in noted["prefetched"]
    assert sum(noted["bandit"]["visits"].values()) == 1


def test_cold_components_stay_on_volumes_that_hold_them_and_are_placed_nowhere_else() -> None:
    found = placed(observed(asked(*SKEWED), w_5={"volume": ("base:b03", "base:b07")}))
    assert found.workers["w-5"]["base:b03"] == "volume"
    assert "base:b07" not in found.workers["w-5"], "nobody asked for it"
    assert holders(found, "base:b03", "volume") == {"w-5"}


def test_what_a_user_tries_variants_of_stays_where_it_lies_while_the_window_is_open() -> None:
    log = asked((60, "b03", ("a03",)), user="ann", at_ms=NOW_MS - 1000)
    and_asked(log, (200, "b00", ("a00",)))
    held = {"w_6": {"device": ("base:b03",), "host": ("adapter:a03",)}}
    found = placed(observed(log, **held))
    assert found.workers["w-6"]["base:b03"] == "device"
    assert found.workers["w-6"]["adapter:a03"] == "host"
    over = NOW_MS + 700_000
    assert "base:b03" not in placed(observed(log, now_ms=over, **held), None, over).workers["w-6"]


def test_nothing_is_placed_where_no_worker_tells_its_room_or_nothing_was_asked_for() -> None:
    assert placed(observed(asked(*SKEWED), workers=())).workers == {}
    assert placed(observed(ComponentLog(LIBRARY))).workers == {}


def test_an_equal_placement_is_the_residency_before_until_its_memory_is_old() -> None:
    log = asked(*SKEWED)
    first = placed(observed(log))
    soon = NOW_MS + REFRESH_MS - 1
    assert placed(observed(log, now_ms=soon), first, soon) is first
    late = placed(observed(log, now_ms=soon + 1), first, soon + 1)
    assert (late.workers, json.loads(late.memory)[AT_MS]) == (first.workers, soon + 1)


def test_on_the_same_workers_it_changes_once_in_a_while_and_on_others_at_once() -> None:
    log = asked(*SKEWED)
    first = placed(observed(log))
    and_asked(log, (900, "b05", ()))
    soon, later = NOW_MS + PLACE_MS - 1, NOW_MS + PLACE_MS
    assert placed(observed(log, now_ms=soon), first, soon) is first
    assert holders(placed(observed(log, now_ms=later), first, later), "base:b05")
    fewer = WORKERS[1:]
    assert holders(placed(observed(log, fewer, now_ms=soon), first, soon, fewer), "base:b05")
    changed = placed(observed(log, now_ms=later), first, later)
    and_asked(log, (9000, "b06", ()))
    assert placed(observed(log, now_ms=later + 1), changed, later + 1) is changed
    assert json.loads(changed.memory)[AT_MS] == NOW_MS, "its counts are those of the first"


def test_a_restarted_planner_places_as_the_one_before_and_goes_on_counting() -> None:
    first = placed(observed(asked(*SKEWED)))
    plan = a_plan(allocation=ALLOCATION, residency=first)
    again = ComponentLog(LIBRARY)
    assert placed(observed(again, plan=plan), first).workers == first.workers
    later = NOW_MS + PLACE_MS
    and_asked(again, (500, "b01", ()), at_ms=later)
    after = placed(observed(again, now_ms=later), first, later)
    assert holders(after, "base:b01"), "what is asked for now counts beside what was remembered"


@pytest.mark.parametrize("memory", ['{"at_ms": "x"}', '{"at_ms": 1, "notes": {"styles": 3}}', "{}", '{"notes": []}'])
def test_a_memory_of_another_release_begins_anew(memory: str) -> None:
    before = ResidencyPlan(workers={}, memory=memory)
    assert placed(observed(asked(*SKEWED)), before).workers == placed(observed(asked(*SKEWED))).workers


def test_the_memory_has_a_limit_however_many_components_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residency, "MAX_REMEMBERED", 3)
    memory = json.loads(placed(observed(asked(*SKEWED))).memory)
    assert sorted(memory["demand"]["styles"]["requests"]) == ["adapter:a00", "adapter:a01", "base:b00"]


def proposing(**changes: object) -> PlanProposal:
    values: dict[str, object] = {
        "routes": (Route(levels={"light": 1.0}),), "allocation": ALLOCATION, "batch": {}, "reason": "test",
        "places_components": True,
    }  # fmt: skip
    return PlanProposal(**(values | changes))  # type: ignore[arg-type]


def seeing(in_force: Plan | None = None) -> Observation:
    fleet = tuple(a_worker(w, v) for w, v in ALLOCATION.items())
    return Observation(
        now_ms=NOW_MS, demand_rps=1.0, workers=fleet, components=observed(asked(*SKEWED)), in_force=in_force
    )


def test_a_proposal_that_asks_for_it_gets_a_residency_and_its_plan_is_whole_and_stays() -> None:
    assert with_residency(proposing(places_components=False), seeing(), LIBRARY).residency is None
    proposal = with_residency(proposing(), seeing(), LIBRARY)
    plan = publish(proposal, None, "p", NOW_MS)
    check(plan, LIBRARY)
    assert plan.residency is not None
    assert plan.residency.workers.keys() == set(WORKERS)
    again = with_residency(proposing(), seeing(plan), LIBRARY)
    assert decide_alike(publish(again, None, "p", NOW_MS), plan)
    assert not decide_alike(publish(replace(again, residency=None), None, "p", NOW_MS), plan)


def test_there_is_no_residency_before_anything_was_asked_of_components() -> None:
    quiet = replace(seeing(), components=observed(ComponentLog(LIBRARY)))
    assert with_residency(proposing(), quiet, LIBRARY).residency is None
    in_force = a_plan(allocation=ALLOCATION, residency=ResidencyPlan(workers={}))
    assert with_residency(proposing(), replace(quiet, in_force=in_force), LIBRARY).residency is not None


def test_who_goes_back_to_a_plan_has_its_residency_for_the_workers_that_are_left() -> None:
    plan = publish(with_residency(proposing(), seeing(), LIBRARY), None, "p", NOW_MS)
    assert plan.residency is not None
    left = tuple(a_worker(w, v, allocated=v) for w, v in ALLOCATION.items() if w != "w-0")
    carried = carry_over(plan, left, LIBRARY, "again")
    assert carried.places_components
    assert carried.residency is not None
    assert carried.residency.workers == {w: held for w, held in plan.residency.workers.items() if w != "w-0"}
    assert carried.residency.memory == plan.residency.memory
    check(publish(carried, plan, "p", NOW_MS), LIBRARY)
    assert not carry_over(a_plan(), left, LIBRARY, "again").places_components


@pytest.mark.parametrize(
    ("workers", "memory", "told"),
    [
        ({"w-9": {"base:b00": "device"}}, "{}", "residency is of workers that the plan has no variant for: .*w-9"),
        ({"w-light": {"base:b00": "device"}}, "{}", "unknown component of light 'base:b00'"),
        ({"w-0": {"base:b99": "device"}}, "{}", "unknown component of styles 'base:b99'"),
        ({"w-0": {"fused:b00+a99@1": "device"}}, "{}", "unknown component of styles 'adapter:a99'"),
        ({"w-0": {"fused:b00+a00": "device"}}, "{}", "must be fused:BASE"),
        ({"w-0": {"base:b00": "remote"}}, "{}", "unknown tier 'remote'"),
        ({}, "[]", "memory must be a JSON object"),
    ],
)
def test_a_residency_of_unknown_workers_components_or_tiers_is_refused(
    workers: dict[str, dict[str, str]], memory: str, told: str
) -> None:
    plan = a_plan(allocation=ALLOCATION, residency=ResidencyPlan(workers=workers, memory=memory))
    with pytest.raises(InvalidPlan, match=told):
        check(plan, LIBRARY)


def test_a_day_has_as_many_slots_as_hours() -> None:
    assert SLOTS == 24
