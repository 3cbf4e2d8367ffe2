"""The model that plans are valued by, held against short simulations of the same plans."""

import dataclasses
from functools import lru_cache

import numpy as np
import pytest

from planner.catalog.entries import run_ms
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation, Queue
from planner.observation.run_times import ObservedRunTime, as_served
from planner.observation.workers import WorkerView
from planner.policies import POLICIES
from planner.solvers.joint import losses, value
from planner.solvers.joint.losses import NOT_FIRST, Edge, Limits, limits_of
from planner.solvers.joint.value import Model, Outlook, PlanValue, Prices
from replay.simulation.results.figures import Figures, figures_of
from replay.simulation.run import Simulation
from replay.simulation.setup import Setup
from replay.traces.rates import POISSON, within
from schemas.messages import Cascade, Route
from streams.catalogs import measured

SECONDS = 180
FIXED = "random-split"  # the name that a fixed plan stands under
CLOSE, OVERLOADED = 0.04, 0.12  # of the requests late: below a load of 1, and above it, where the time of a run counts
QUALITY = 0.05  # of the unit

CASES = [
    ("diffserve-sdxlltn", 15.0, 10.0, 3.0),
    ("diffserve-sdxlltn", 15.0, 10.0, 8.0),
    ("diffserve-sdturbo", 5.0, 5.0, 20.0),
    ("diffserve-sdturbo", 5.0, 5.0, 60.0),
    ("hadis-l40s", 60.0, 7.0, 20.0),
]
RULES = {"clipper-light": {}, "clipper-heavy": {}, "proteus": {}, "diffserve": {"overprovision": 1.2}, "hadis": {}}


def seen(rps: float, slo_s: float, homes: dict[str, str]) -> Observation:
    workers = tuple(WorkerView(worker, home, "ready", 0, 0.0) for worker, home in sorted(homes.items()))
    return Observation(now_ms=0, demand_rps=rps, slo_ms=1000 * slo_s, workers=workers)


def sixteen(name: str, slo_s: float) -> Setup:
    """Sixteen workers on a catalog, by the policy whose plan is fixed."""
    return Setup(catalog=measured(name), policy=FIXED, workers=16, slo_ms=1000 * slo_s, seed=1)


def at_start(setup: Setup, rps: float) -> Observation:
    """What a planner sees before any worker serves."""
    return seen(rps, setup.slo_ms / 1000, dict.fromkeys(setup.worker_ids(), ""))


@lru_cache(maxsize=64)
def both(rule: str, name: str, slo_s: float, unit: float, rps: float) -> tuple[PlanValue, Figures]:
    """A rule's plan as the model and as a simulation of constant demand has it."""
    setup = sixteen(name, slo_s)
    plan = POLICIES[rule](at_start(setup, rps), setup.catalog, {}, RULES[rule])
    return valued_and_simulated(plan, setup, unit, rps)


def valued_and_simulated(plan: PlanProposal, setup: Setup, unit: float, rps: float) -> tuple[PlanValue, Figures]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(POLICIES, FIXED, lambda *_: plan)
        patch.setattr(value, "AFTER_S", (SECONDS / 6, SECONDS / 2, SECONDS * 5 / 6))
        patch.setattr(losses, "AFTER_S", (SECONDS / 6, SECONDS / 2, SECONDS * 5 / 6))
        prices = Prices(unit, hold_s=SECONDS, debt=0.0)
        found = Model(
            setup.catalog, at_start(setup, rps), Outlook(rps), prices, setup.slo_ms / 1000, backlog_s=48.0
        ).evaluate(plan)
        arrivals = within(np.full(SECONDS, rps), 1.0, POISSON, 3)
        return found, figures_of(Simulation(setup, arrivals).run())


@pytest.mark.parametrize(("name", "slo_s", "unit", "rps"), CASES)
@pytest.mark.parametrize("rule", RULES)
def test_lateness_and_quality_are_as_simulated(rule: str, name: str, slo_s: float, unit: float, rps: float) -> None:
    found, simulated = both(rule, name, slo_s, unit, rps)
    assert found.late == pytest.approx(simulated["violation_rate"], abs=CLOSE if found.utilization < 1 else OVERLOADED)
    assert found.quality == pytest.approx(simulated["quality"], abs=QUALITY * unit if found.utilization < 1 else unit)


@pytest.mark.parametrize(("name", "slo_s", "unit", "rps"), CASES)
def test_plans_that_differ_clearly_keep_their_order(name: str, slo_s: float, unit: float, rps: float) -> None:
    pairs = [both(rule, name, slo_s, unit, rps) for rule in RULES]
    value = [found.total for found, _ in pairs]
    simulated = [float(f["quality"]) / unit - 5 * float(f["violation_rate"]) for _, f in pairs]
    for one in range(len(pairs)):
        for other in range(one):
            if abs(simulated[one] - simulated[other]) > 0.25:
                assert (value[one] > value[other]) == (simulated[one] > simulated[other])


@pytest.mark.parametrize(
    ("rps", "workers", "shares", "batches"),
    [
        (1.0, (0, 12, 1, 3), (0.0, 0.39, 0.15, 0.46), (1, 1, 2, 1)),
        (2.0, (2, 9, 0, 5), (0.26, 0.29, 0.0, 0.45), (2, 2, 1, 2)),
        (2.0, (12, 3, 1, 0), (0.68, 0.04, 0.28, 0.0), (2, 2, 1, 1)),
        (4.0, (2, 3, 4, 7), (0.14, 0.47, 0.15, 0.24), (2, 2, 2, 2)),
        (9.0, (10, 2, 1, 3), (0.0, 0.14, 0.45, 0.41), (2, 1, 1, 2)),
        (9.0, (5, 4, 4, 3), (0.27, 0.06, 0.27, 0.4), (1, 2, 1, 1)),
    ],
)
def test_a_plan_of_several_levels_is_as_simulated_whatever_they_carry(
    rps: float, workers: tuple[int, ...], shares: tuple[float, ...], batches: tuple[int, ...]
) -> None:
    """Plans drawn by chance: levels with too few workers send on to the next, and that to the one after."""
    levels = ("sdxl-lightning", "sd35-turbo", "sd35-medium", "sd35-large")
    names = [level for level, count in zip(levels, workers, strict=True) for _ in range(count)]
    setup = sixteen("hadis-l40s", 60.0)
    routed = _routed(dict(zip(levels, shares, strict=True)), dict(zip(setup.worker_ids(), names, strict=True)))
    plan = dataclasses.replace(routed, batch=dict(zip(levels, batches, strict=True)))
    found, simulated = valued_and_simulated(plan, setup, 10.0, rps)
    assert found.late == pytest.approx(simulated["violation_rate"], abs=0.05)
    assert found.quality == pytest.approx(simulated["quality_run"], abs=0.75)  # FID; 5 until 2026-11-27


@pytest.mark.parametrize("slowness", [1.0, 1.2])
def test_a_busy_heavy_generates_as_many_drafts_again_as_simulated(slowness: float) -> None:
    """At 1.2 two calls in a row take longer than drafts have, so that hardly any call is for two images."""
    catalog = as_served(measured("diffserve-sdturbo"), (ObservedRunTime("sd15", slowness, 99),))
    setup = dataclasses.replace(sixteen("diffserve-sdturbo", 5.0), catalog=catalog)
    names = ["sd-turbo"] * 3 + ["sd15"] * 13
    plan = dataclasses.replace(
        _routed({"sd-turbo": 1.0}, dict(zip(setup.worker_ids(), names, strict=True))),
        cascades=(Cascade(level="sd-turbo", discriminator="efficientnet", threshold=0.028, next_level="sd15"),),
        batch={"sd-turbo": 16, "sd15": 2},
    )  # fmt: skip
    found, simulated = valued_and_simulated(plan, setup, 5.0, 38.0)
    assert simulated["utilization"] > 0.8
    assert found.best_share == pytest.approx(float(simulated["heavy_share"]), abs=0.02)


def test_an_overloaded_queue_turns_away_what_is_too_much_once_it_is_full() -> None:
    (early, _), (late, _) = Edge(1.25, 0.1, 5.0, 0.0, 1.0).after((5.0, 100.0))
    assert early < 0.01
    assert late == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("load", [0.5, 1.5])
def test_a_queue_longer_than_allowed_turns_everybody_away_only_until_it_is_not(load: float) -> None:
    (before, _), (after, _) = Edge(load, 0.1, 5.0, 8.0, 1.0).after((2.0, 30.0))
    assert before == load
    assert after == pytest.approx(max(0.0, load - 1), abs=0.02)


def test_drafts_that_find_no_room_take_none_from_requests_without_a_draft() -> None:
    """A level whose drafts come too late for it still serves as many others as its workers carry."""
    full, none = Limits(40.0), Limits(0.0)
    queue = losses.Queue(
        work=2.0, first_work=1.6, image_s=1.0, call_s=1.0, whole_s=1.0, one_s=1.0, first=full, again=none,
        variability=0.6, is_one=True,
    )  # fmt: skip
    [(first, again, _)] = queue.lost(10.0, 4, 0.0, (300.0,))
    assert again == 1.0
    assert first == pytest.approx(1 - 4 / 16, abs=0.02), "4 workers of the 16 that they need"
    [(alone, _, _)] = queue._replace(first_work=0.2, work=0.6).lost(10.0, 4, 0.0, (300.0,))
    assert alone < 0.01, "these have room, whatever drafts there are"


@pytest.mark.parametrize("longer", ["first", "again"])
def test_who_may_wait_longer_is_turned_away_less_and_all_workers_have_work(longer: str) -> None:
    """8 workers' work for 4: what both lose together is what they are too much, however near their limits are."""
    queue = losses.Queue(
        work=0.8, first_work=0.4, image_s=1.0, call_s=1.0, whole_s=1.0, one_s=1.0, first=Limits(20.0),
        again=Limits(20.0), variability=0.6, is_one=True,
    )  # fmt: skip
    shares = {}
    for by in (0.0, 0.1, 30.0):
        [(first, again, _)] = queue._replace(**{longer: Limits(20.0 + by)}).lost(10.0, 4, 0.0, (1000.0,))
        assert first + again == pytest.approx(2 * 0.5, abs=0.05)
        shares[by] = first if longer == "first" else again
    assert shares[0.0] == pytest.approx(0.5, abs=0.02)
    assert shares[0.0] >= shares[0.1] > shares[30.0]
    assert shares[30.0] < 0.1


def test_an_overloaded_fleet_stays_on_its_quickest_variant_however_much_waits() -> None:
    catalog = measured("diffserve-sdxlltn")
    sight = seen(54.0, 15.0, {f"w{i:02}": "sdxl-lightning" for i in range(16)})
    full = dataclasses.replace(sight, queues=(Queue("sdxl-lightning", 600.0, 54.0),))
    plan = POLICIES["joint"](full, catalog, {}, {})
    assert set(plan.allocation.values()) == {"sdxl-lightning"}


@pytest.mark.parametrize(
    ("name", "slo_s", "workers", "rps"),
    [
        ("hadis-l40s", 60.0, 8, 65.0),
        ("hadis-l40s", 60.0, 8, 5000.0),
        ("diffserve-sdturbo", 5.0, 16, 4000.0),
        ("tiny", 2.0, 1, 2000.0),
    ],
)
def test_a_fleet_goes_to_its_quickest_variant_however_much_more_is_asked_than_it_can_serve(
    name: str, slo_s: float, workers: int, rps: float
) -> None:
    catalog = measured(name)
    plan = POLICIES["joint"](seen(rps, slo_s, {f"w{i:02}": "" for i in range(workers)}), catalog, {}, {})
    assert set(plan.allocation.values()) == {catalog.cheapest().name}


def test_in_a_sudden_overload_about_as_many_are_in_time_as_on_the_quickest_variant_alone() -> None:
    arrivals = within(np.repeat([10.0, 80.0], (20, 60)), 1.0, POISSON, 5)
    late = {
        policy: figures_of(
            Simulation(
                Setup(catalog=measured("hadis-l40s"), policy=policy, workers=8, slo_ms=60_000, period_ms=5000, seed=1),
                arrivals,
            ).run()
        )["violation_rate"]
        for policy in ("joint", "clipper-light")
    }
    assert late["clipper-light"] > 0.5
    assert late["joint"] < late["clipper-light"] + 0.05


def test_drafts_that_begin_at_a_later_step_wait_for_calls_as_short_as_theirs() -> None:
    catalog, sight = measured("tiny"), seen(50.0, 2.0, dict.fromkeys(("a", "b", "c", "d"), ""))
    plan = POLICIES["hadis"](sight, catalog, {}, {})
    [cascade] = plan.cascades
    assert cascade.refine_from_step > 0
    assert plan.batch["heavy"] == 8
    assert Model(catalog, sight, Outlook(50.0), Prices(0.4), 2.0).evaluate(plan).late < 1e-3  # whole images: .014


@pytest.mark.parametrize(("batch", "late"), [(4, 0.0), (8, 0.25), (16, 9 / 16)])
def test_a_long_call_makes_those_late_who_were_let_in_for_a_short_one(batch: int, late: float) -> None:
    times_s = {1: 0.55, 4: 1.85, 8: 3.58, 16: 7.1}
    found = limits_of(15.0, times_s.__getitem__, batch)
    assert found.late == pytest.approx(NOT_FIRST * late)
    assert found.full > 0.5, "while few wait, nobody is late"


@pytest.mark.parametrize(("slowness", "batch"), [(1.0, 2), (1.2, 1)])
def test_no_more_share_a_call_than_two_calls_in_a_row_leave_time_for(slowness: float, batch: int) -> None:
    """sd15's: 2.16 s for two, or 2.59, where 4.65 s are left; from the second on a worker splits the calls."""
    times_s = {1: 1.78, 2: 2.16}
    assert limits_of(4.65, lambda images: slowness * times_s[images], 2).batch == batch


@pytest.mark.parametrize(("slowness", "images"), [(1.0, 2.0), (1.2, 1.146)])
def test_a_call_takes_as_long_as_the_images_that_share_it_make_it(slowness: float, images: float) -> None:
    times_s = {1: 1.78, 2: 2.16}
    found = limits_of(4.65, lambda images: slowness * times_s[images], 2)
    assert found.call_s == pytest.approx(images * found.image_s, rel=0.01)
    assert found.call_s == pytest.approx(slowness * (2.16 - (2 - images) * (2.16 - 1.78)), rel=0.01)


def test_an_overloaded_fleet_makes_calls_that_end_in_time() -> None:
    catalog = measured("diffserve-sdxlltn")
    sight = seen(40.0, 15.0, {f"w{i:02}": "sdxl-lightning" for i in range(16)})
    full = dataclasses.replace(sight, queues=(Queue("sdxl-lightning", 400.0, 40.0),))
    plan = POLICIES["joint"](full, catalog, {}, {})
    assert plan.batch["sdxl-lightning"] <= 8


def test_a_queue_that_is_there_counts() -> None:
    plan, sight, catalog = _on_heavy()
    waits = dataclasses.replace(sight, queues=(Queue("sd15", 200.0, 5.0),))
    empty, full = (Model(catalog, s, Outlook(5.0), Prices(5.0), 5.0).evaluate(plan) for s in (sight, waits))
    assert full.late > empty.late + 0.01
    assert full.total < empty.total


def test_a_change_costs_what_the_workers_on_their_way_would_have_done() -> None:
    plan, _, catalog = _on_heavy()
    homes = [dict.fromkeys(plan.allocation, home) for home in ("sd15", "sd-turbo")]
    stays, comes = (
        Model(catalog, seen(5.0, 5.0, home), Outlook(5.0), Prices(5.0), 5.0).evaluate(plan) for home in homes
    )
    assert comes.late > stays.late
    assert comes.quality == pytest.approx(stays.quality)


def test_workers_that_leave_a_queue_make_those_late_who_were_let_in() -> None:
    """40 jobs of 13 s before 12 workers are in time under an SLO of 60 s; before the 6 that stay they are not."""
    catalog = measured("hadis-l40s")
    homes = {f"w{i:02}": "sd35-medium" if i < 12 else "sd35-turbo" for i in range(16)}
    sight = dataclasses.replace(seen(0.4, 60.0, homes), queues=(Queue("sd35-medium", 40.0, 0.4),))
    plan = _routed({"sd35-medium": 1.0}, homes)
    leaves = dataclasses.replace(plan, allocation=homes | {f"w{i:02}": "sd35-turbo" for i in range(6)})
    unused = _routed({"sd35-turbo": 1.0}, leaves.allocation)
    late = [Model(catalog, sight, Outlook(0.4), Prices(5.0), 60.0).evaluate(p).late for p in (plan, leaves, unused)]
    assert late[0] < 0.01
    assert late[1] > 0.1
    assert late[2] > 0.1, "nor are they where the plan sends no others"


def test_a_worker_that_comes_delays_what_waits_by_a_call_alone() -> None:
    """It has no queue of its own: 35 jobs of 1.3 s before one worker are in time, whoever joins that."""
    catalog = measured("hadis-l40s")
    homes = {f"w{i:02}": "sd35-turbo" if i < 1 else "sd35-medium" for i in range(16)}
    sight = dataclasses.replace(seen(0.7, 60.0, homes), queues=(Queue("sd35-turbo", 35.0, 0.7),))
    comes = _routed({"sd35-turbo": 1.0}, homes | {"w01": "sd35-turbo"})
    assert Model(catalog, sight, Outlook(0.7), Prices(5.0), 60.0).evaluate(comes).late < 0.01


def test_until_a_level_is_loaded_its_requests_are_generated_where_somebody_is() -> None:
    """The router sends them to a dearer level, if nobody serves a cheaper one; whom that cannot take waits for those on
    their way where this is in time, or is late."""
    catalog = measured("hadis-l40s")
    homes = {f"w{i:02}": "sd35-medium" for i in range(16)}
    plan = _routed({"sd35-turbo": 1.0}, homes | {f"w{i:02}": "sd35-turbo" for i in range(8)})
    calm, rush, hurry = (
        Model(catalog, seen(rps, slo_s, homes), Outlook(rps), Prices(5.0), slo_s)
        for rps, slo_s in ((0.5, 60.0), (6.0, 60.0), (6.0, 15.0))
    )
    there = Model(catalog, seen(0.5, 60.0, plan.allocation), Outlook(0.5), Prices(5.0), 60.0).evaluate(plan)
    assert calm.evaluate(plan).late < 0.01
    assert calm.evaluate(plan).quality > there.quality + 0.2
    assert rush.evaluate(plan).late < 0.01
    assert hurry.evaluate(plan).late > 0.1, "loading takes as long as they have"


def _routed(levels: dict[str, float], allocation: dict[str, str]) -> PlanProposal:
    route = Route(hardness_from=0.0, hardness_to=1.0, levels=levels)
    return PlanProposal(routes=(route,), allocation=dict(allocation), batch={}, reason="")


@pytest.mark.parametrize(
    ("at", "state", "wanted", "comes_s"),
    [
        ("sd35-turbo", "painting", "", 9.06 + 1.3 / 2),
        ("sd35-turbo", "loading", "", 9.06 + 29.35 / 2),
        ("sd35-turbo", "painting", "sd35-medium", 9.06 + 1.3 / 2),
        ("sd35-medium", "painting", "sd35-turbo", 0.0),
        ("sd35-medium", "loading", "", 9.06 / 2),
    ],
)
def test_a_worker_is_where_it_serves_or_loads_and_not_where_a_plan_wants_it(
    at: str, state: str, wanted: str, comes_s: float
) -> None:
    homes = {f"w{i:02}": "sd35-medium" for i in range(16)}
    workers = tuple(WorkerView(worker, at, state, 0, 0.0, wanted) for worker in homes)
    sight = Observation(now_ms=0, demand_rps=0.4, slo_ms=60_000.0, workers=workers)
    model = Model(measured("hadis-l40s"), sight, Outlook(0.4), Prices(5.0), 60.0)
    workers = model._fleet(_routed({"sd35-medium": 1.0}, homes))["sd35-medium"]
    assert workers.comes_s == pytest.approx(comes_s)
    assert workers.now == (16 if comes_s == 0 else 0)


@pytest.mark.parametrize(
    ("remaining_ms", "stay", "drains_s"), [(4000.0, 0, 4.0), (300_000.0, 0, 2 * 29.35), (300_000.0, 1, 1.3 / 2)]
)
def test_the_last_worker_of_a_level_is_missed_elsewhere_until_it_has_drained_it(
    remaining_ms: float, stay: int, drains_s: float
) -> None:
    """`stay`: workers that the plan in force keeps there."""
    leaving = WorkerView("w-1", "sd35-turbo", "draining", 0, remaining_ms, "sd35-medium")
    kept = tuple(WorkerView(f"s-{n}", "sd35-turbo", "painting", 0, 0.0, "sd35-turbo") for n in range(stay))
    sight = Observation(now_ms=0, demand_rps=0.4, slo_ms=60_000.0, workers=(leaving, *kept))
    model = Model(measured("hadis-l40s"), sight, Outlook(0.4), Prices(5.0), 60.0)
    workers = model._fleet(_routed({"sd35-medium": 1.0}, {"w-1": "sd35-medium"}))["sd35-medium"]
    assert (workers.now, workers.comes_s) == (0, pytest.approx(9.06 + drains_s))


def test_a_level_that_keeps_hardly_any_of_its_requests_is_valued() -> None:
    _, sight, catalog = _on_heavy()
    plan = _routed({"sd-turbo": 4e-6, "sd15": 1 - 4e-6}, {f"w{i:02}": "sd15" if i else "sd-turbo" for i in range(16)})
    cascades = (Cascade(level="sd-turbo", next_level="sd15", discriminator="efficientnet", threshold=0.2),)
    with_cascade = dataclasses.replace(plan, cascades=cascades)
    found, alone = (Model(catalog, sight, Outlook(5.0), Prices(5.0), 5.0).evaluate(p) for p in (with_cascade, plan))
    assert found.quality == pytest.approx(alone.quality, abs=0.01)


def test_uncertain_demand_is_worth_less_near_what_workers_carry() -> None:
    plan, sight, catalog = _on_heavy()
    sure, unsure = (
        Model(catalog, sight, Outlook(8.0, deviation), Prices(5.0), 5.0).evaluate(plan) for deviation in (0.0, 2.0)
    )
    assert unsure.late > sure.late + 0.01


def test_a_refuge_of_one_worker_takes_in_little_of_a_jump() -> None:
    """What heavy turns away comes all at the jump, and not a little of it at any time."""
    catalog = measured("diffserve-sdxlltn")
    homes = {f"w{i:02}": "sdxl" if i < 15 else "sdxl-lightning" for i in range(16)}
    plan = _routed({"sdxl": 1.0}, homes)
    calm, jump = (
        Model(catalog, seen(1.0, 15.0, homes), Outlook(1.0, jumps=jumps), Prices(10.0), 15.0).evaluate(plan)
        for jumps in ((), ((12.0, 0.2),))
    )
    assert calm.late < 0.001
    assert jump.late > 0.05


def test_a_jump_that_comes_while_a_worker_moves_is_rare() -> None:
    """A jump comes at any time while a plan holds: moving a worker is no reason to be late with all of it."""
    catalog = measured("diffserve-sdxlltn")
    homes = {f"w{i:02}": "sdxl" if i < 12 else "sdxl-lightning" for i in range(16)}
    moved = _routed({"sdxl-lightning": 1.0}, homes | {"w11": "sdxl-lightning"})
    model = Model(catalog, seen(1.0, 15.0, homes), Outlook(1.0, jumps=((10.0, 0.2),)), Prices(10.0), 15.0)
    assert model.evaluate(moved).late < model.evaluate(_routed({"sdxl-lightning": 1.0}, homes)).late + 0.01


def test_jobs_that_wait_for_workers_on_their_way_are_late_where_these_are_sent_elsewhere() -> None:
    catalog = measured("hadis-l40s")
    workers = tuple(
        WorkerView(f"w{i:02}", "sd35-turbo" if i < 4 else "sd35-medium", "loading" if i < 4 else "ready", 0, 0.0)
        for i in range(16)
    )
    sight = Observation(now_ms=0, demand_rps=1.0, slo_ms=60_000.0, workers=workers, unserved={"sd35-turbo": 50.0})
    model = Model(catalog, sight, Outlook(1.0), Prices(7.0), 60.0)
    stay = _routed({"sd35-medium": 1.0}, {worker.worker_id: worker.variant for worker in workers})
    leave = _routed({"sd35-medium": 1.0}, {worker.worker_id: "sd35-medium" for worker in workers})
    assert model.evaluate(leave).late > model.evaluate(stay).late + 0.05


def test_jobs_that_wait_for_a_variant_of_an_earlier_catalog_count_nowhere() -> None:
    plan, sight, catalog = _on_heavy()
    model, other = (
        Model(catalog, dataclasses.replace(sight, unserved=unserved), Outlook(5.0), Prices(5.0), 5.0)
        for unserved in ({}, {"gone": 9.0})
    )
    assert model.evaluate(plan) == other.evaluate(plan)


def test_late_jobs_cost_quality_where_a_cheaper_level_has_a_worker() -> None:
    catalog = measured("hadis-l40s")
    workers = tuple(
        WorkerView(f"w{i:02}", "sd35-large" if i < 15 else "sdxl-lightning", "ready", 0, 0.0) for i in range(16)
    )
    waiting = (Queue("sd35-large", 100.0, 1.0),)
    sight = Observation(now_ms=0, demand_rps=0.3, slo_ms=60_000.0, workers=workers, queues=waiting)
    model = Model(catalog, sight, Outlook(0.3), Prices(7.0), 60.0)
    here = {worker.worker_id: worker.variant for worker in workers}
    refuge, alone = (_routed({"sd35-large": 1.0}, homes) for homes in (here, here | {"w15": "sd35-large"}))
    assert model.evaluate(alone).late > 0.5
    assert model.evaluate(refuge).late < 0.2
    assert model.evaluate(refuge).quality < model.evaluate(alone).quality - 1


@pytest.mark.parametrize("name", ["hadis-l40s", "tiny"])
def test_who_is_turned_away_twice_has_the_quality_of_who_generates_it(name: str) -> None:
    """What a level without room sends on to another without room is no answer of either."""
    catalog = measured(name)
    slow = sorted(catalog.variants.values(), key=lambda variant: -run_ms(variant, 1))
    homes = dict.fromkeys((f"w{i:02}" for i in range(16)), slow[-1].name) | {"w00": slow[0].name, "w01": slow[1].name}
    slo_s = 5 * run_ms(slow[0], 1) / 1000
    rps = 100 * 1000 / run_ms(slow[1], 1)
    plan = _routed({slow[0].name: 1.0}, homes)
    value = Model(catalog, seen(rps, slo_s, homes), Outlook(rps), Prices(5.0), slo_s).evaluate(plan)
    cheapest = Model(catalog, seen(rps, slo_s, homes), Outlook(rps), Prices(5.0), slo_s).evaluate(
        _routed({slow[-1].name: 1.0}, homes)
    )
    other = slow[1].quality or 0.0
    assert abs(value.quality - cheapest.quality) < 0.2 * abs(other - cheapest.quality)


def _on_heavy() -> tuple[PlanProposal, Observation, value.Catalog]:
    catalog = measured("diffserve-sdturbo")
    sight = seen(5.0, 5.0, {f"w{i:02}": "sd15" for i in range(16)})
    return POLICIES["clipper-heavy"](sight, catalog, {}, {}), sight, catalog


def test_requests_that_waited_beyond_the_slo_are_late_under_any_plan_and_decide_none() -> None:
    """A deployment was down: 40 s ago three requests came, and its only worker loads."""
    catalog, worker = measured("tiny"), WorkerView("w", "heavy", "loading", 0, 0.0)
    sight = dataclasses.replace(seen(0.0, 2.0, {}), workers=(worker,), unserved={"heavy": 3.0})
    long_ago, now = (
        Model(catalog, dataclasses.replace(sight, counts=counts), Outlook(1 / 60), Prices(0.5), 2.0).evaluate(
            _routed({"heavy": 1.0}, {"w": "heavy"})
        )
        for counts in ((3,) + (0,) * 40, (0,) * 39 + (3, 0))
    )
    assert long_ago.late < 0.01
    assert now.late < 1, "two of three are in time"


def test_drafts_stay_where_no_worker_can_generate_them_again_and_no_request_is_late_for_it() -> None:
    plan = dataclasses.replace(
        _routed({"light": 1.0}, {"w": "light"}),
        cascades=(Cascade(level="light", next_level="heavy", discriminator="look", threshold=0.5),),
    )
    value = Model(measured("tiny"), seen(1.0, 2.0, {"w": "light"}), Outlook(1.0), Prices(0.5), 2.0).evaluate(plan)
    assert value.utilization < 0.1
    assert value.late < 0.01
