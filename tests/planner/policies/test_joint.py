import dataclasses
from collections.abc import Sequence
from typing import Any

import highspy
import numpy as np
import pytest

from planner.catalog.components import Component
from planner.catalog.entries import DeferralPoint, run_ms
from planner.catalog.evidence.joining import with_profile
from planner.catalog.measured import Measured, Shares
from planner.catalog.quality import UNMEASURED, ranked
from planner.components.component import Tier
from planner.components.from_catalog import components_of
from planner.control.plans import publish
from planner.control.proposal import PlanProposal, validate_parameters
from planner.control.propose import Rules, propose
from planner.control.validity import check
from planner.observation.components import ObservedComponents, ObservedDemand
from planner.observation.deferral import ObservedDeferral
from planner.observation.observation import Observation, Queue
from planner.observation.run_times import ObservedRunTime
from planner.observation.workers import WorkerView
from planner.policies import POLICIES, joint
from planner.solvers.joint.demand import outlook_of
from planner.solvers.joint.loading import cold_load_ms
from planner.solvers.joint.program.build import problem_of
from schemas.messages import Expected, WorkerComponents
from streams import catalogs
from streams.parsing.catalog import parse
from tests.builders import a_catalog, a_discriminator, a_variant, unmeasured
from tests.paths import ROOT
from tests.planner.solvers.joint.exactness import seeds

CATALOGS = {path.stem: parse(path.read_text(), path.stem) for path in (ROOT / "infra" / "catalogs").glob("*.toml")}
# The program alone, without queues or a cost of moves.
FLUID = {"percentile": 0.0, "hold_s": 1e6, "rules": 0, "improve": 0}


def seen(
    demand_rps: float, workers: int = 16, slo_s: float = 5.0, homes: Sequence[str] = (), **values: Any
) -> Observation:
    """Workers at home on the named variants in turn; without names they have none yet."""
    views = tuple(
        WorkerView(f"w{i:03d}", homes[i % len(homes)] if homes else "", "ready", 0, 0.0) for i in range(workers)
    )
    return Observation(now_ms=0, demand_rps=demand_rps, slo_ms=1000 * slo_s, workers=views, **values)


def planned(name: str, demand_rps: float, parameters: dict[str, float] | None = None, **values: Any) -> PlanProposal:
    catalog = CATALOGS[name]
    draft = joint.plan(seen(demand_rps, **values), catalog, {}, parameters or {})
    check(publish(draft, None, "joint", 0), catalog)
    return draft


def count(draft: PlanProposal, variant: str) -> int:
    return list(draft.allocation.values()).count(variant)


def promised(draft: PlanProposal) -> Expected:
    assert draft.expected is not None
    return draft.expected


def fid_of(draft: PlanProposal) -> float:
    quality = promised(draft).quality
    assert quality is not None
    return -quality


@pytest.mark.parametrize("name", sorted(CATALOGS))
@pytest.mark.parametrize(("demand_rps", "workers"), [(0.0, 0), (3.0, 0), (0.0, 2), (1.0, 1), (4.0, 7), (1e6, 3)])
def test_the_plan_holds_for_any_demand_and_workers(name: str, demand_rps: float, workers: int) -> None:
    draft = planned(name, demand_rps, workers=workers, slo_s=0.0)
    assert len(draft.allocation) == workers
    assert np.isfinite(promised(draft).utilization)
    used = {level for route in draft.routes for level in route.levels} | {c.next_level for c in draft.cascades}
    assert workers == 0 or used <= set(draft.allocation.values()), "only what somebody serves"


@pytest.mark.parametrize(
    ("demand_rps", "fid"), [(0.5, 19.29), (1, 20.16), (2, 21.2), (3, 22.37), (4, 22.93), (6, 23.85)]
)
def test_without_queues_it_is_at_least_as_good_as_hadis_is_published(demand_rps: float, fid: float) -> None:
    """Published: SOURCES.md 5. Better where the router's bypass pays, which HD charges for, and by mixing rows."""
    draft = planned("hadis-l40s", demand_rps, FLUID, slo_s=60.0)
    assert fid_of(draft) <= fid + 0.005


@pytest.mark.parametrize(("demand_rps", "threshold"), [(32.0, 0.115), (40.0, 0.055)])
def test_without_queues_it_is_as_diffserve_is_published_where_capacity_binds(
    demand_rps: float, threshold: float
) -> None:
    draft = planned("diffserve-sdturbo", demand_rps, FLUID)
    assert draft.cascades[0].threshold == pytest.approx(threshold)
    assert (count(draft, "sd-turbo"), count(draft, "sd15")) == (2, 14)
    assert draft.batch == {"sd-turbo": 16, "sd15": 4}


def test_past_the_best_heavy_share_it_does_not_go_where_diffserve_does() -> None:
    """At 24/s DiffServe's allocator takes t = .23, the highest; quality is best just below (SOURCES.md 4)."""
    draft = planned("diffserve-sdturbo", 8.0, FLUID)
    assert fid_of(draft) == pytest.approx(16.79, abs=0.02)
    assert promised(draft).heavy_share == pytest.approx(0.6, abs=0.02)


def test_queues_need_room_where_no_draft_is_there_to_fall_back_on() -> None:
    fluid, queued = (planned("diffserve-sdturbo", 40.0, p) for p in (FLUID, FLUID | {"percentile": 0.95}))
    strict = planned("diffserve-sdturbo", 40.0, FLUID | {"percentile": 0.999})
    assert fid_of(fluid) < fid_of(queued) <= fid_of(strict)
    assert count(queued, "sd-turbo") > count(fluid, "sd-turbo"), "late drafts are late answers"
    assert promised(queued).utilization > 0.95, "what waits too long to be generated again stays a draft"


def test_hard_prompts_get_the_better_level_where_not_all_can() -> None:
    tiny = CATALOGS["tiny"]
    quality: dict[str, Shares] = {"light": (0.9, 0.2), "middle": (0.9, 0.3), "heavy": (1.0, 1.0)}
    catalog = dataclasses.replace(tiny, cascades=(), measured=Measured(bounds=(0.0, 0.5, 1.0), quality=quality))
    times = catalog.level("heavy").latency_ms
    demand_rps, slo_s = 1.2 * 6 * max(1000 * b / ms for b, ms in times.items()), 4 * max(times.values()) / 1000
    for hard, hardness in ((0.5, ()), (0.2, (0.8,) + (0.0,) * 8 + (0.2,)), (0.0, (1.0,) + (0.0,) * 9)):
        draft = joint.plan(seen(demand_rps, workers=6, slo_s=slo_s, hardness=hardness), catalog, {}, {})
        first = {r.hardness_from: r.levels for r in draft.routes}
        assert promised(draft).heavy_share >= hard - 0.01
        if hard:
            assert first[0.5] == {"heavy": 1.0}
            assert first[0.0].get("heavy", 0.0) < 1.0


def test_a_curve_is_read_between_its_thresholds_where_the_first_defers_too_much() -> None:
    """At 146/s the seven workers left generate 5 % again; the lowest published threshold, .005, defers 14 %."""
    draft = planned("diffserve-sdturbo", 146.0)
    assert 0 < draft.cascades[0].threshold < 0.005
    assert fid_of(draft) < 22


def test_a_surge_that_the_forecast_has_not_caught_up_with_is_planned_for() -> None:
    calm, surge = (20,) * 60, (20,) * 57 + (60, 150, 150)
    before, after = (planned("diffserve-sdturbo", 20.0, forecast_rps=40.0, counts=counts) for counts in (calm, surge))
    assert count(after, "sd-turbo") >= count(before, "sd-turbo") + 4


def test_more_than_all_can_serve_is_reported_and_goes_to_the_fastest() -> None:
    draft = planned("diffserve-sdturbo", 1000.0)
    assert count(draft, "sd-turbo") == 16
    assert "% of the requests are expected to end late" in draft.reason
    assert not draft.is_feasible


def test_an_slo_that_no_level_meets_is_loosened() -> None:
    draft = planned("hadis-l40s", 1.0, slo_s=0.1)
    assert len(draft.allocation) == 16
    assert promised(draft).quality is not None
    assert "no level generates an image within the SLO of 0.1 s" in draft.reason
    assert not draft.is_feasible


def test_planning_again_moves_nobody() -> None:
    first = planned("diffserve-sdturbo", 24.0)
    catalog = CATALOGS["diffserve-sdturbo"]
    at_home = tuple(WorkerView(w, v, "ready", 0, 0.0) for w, v in sorted(first.allocation.items()))
    again = joint.plan(Observation(now_ms=0, demand_rps=24.0, slo_ms=5000, workers=at_home), catalog, {}, {})
    assert again.allocation == first.allocation


def test_a_backlog_is_worked_off() -> None:
    few = planned("diffserve-sdturbo", 24.0)
    backlog = planned("diffserve-sdturbo", 24.0, queues=(Queue("sd15", 600.0, 10.0),))
    assert promised(backlog).heavy_share < promised(few).heavy_share


def test_a_solver_that_raises_leaves_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("no solver here")

    monkeypatch.setattr(highspy.Highs, "run", broken)
    draft = planned("diffserve-sdturbo", 24.0)
    assert draft.is_feasible
    assert fid_of(draft) < 17.5, "as good as the rules find it"
    assert "the solver found nothing better" in draft.reason


def test_what_the_program_makes_without_its_own_refining_step_is_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[PlanProposal] = []

    def spied(model: object, candidates: Sequence[PlanProposal], most: int) -> Any:
        tried.extend(candidates)
        return choose(model, candidates, most)

    choose = joint._best
    monkeypatch.setattr(joint, "_best", spied)
    found = catalogs.find_profile("tiny")
    assert found is not None
    catalog = with_profile(catalogs.load("tiny"), found.profile(), found.prompts())
    joint.plan(seen(60.0, workers=4, slo_s=catalog.slo_s), catalog, {}, {})
    own, other, *_ = tried
    step = own.cascades[0].refine_from_step
    assert other.cascades
    assert step not in {cascade.refine_from_step for cascade in other.cascades}


BURST = (20,) * 30 + (128,) * 20 + (20,) * 10


def test_after_a_burst_workers_stand_ready_for_the_next() -> None:
    before = planned("diffserve-sdturbo", 20.0, counts=(20,) * 60)
    after = planned("diffserve-sdturbo", 20.0, counts=BURST)
    assert count(after, "sd-turbo") > count(before, "sd-turbo")
    assert "rises" not in before.memory


def test_it_is_ready_for_the_burst_when_that_is_out_of_sight_until_it_has_paid_or_forgets_it() -> None:
    catalog = CATALOGS["diffserve-sdturbo"]
    burst = planned("diffserve-sdturbo", 20.0, counts=BURST)
    calm = dataclasses.replace(seen(20.0, counts=(20,) * 60), now_ms=120_000)
    later = dataclasses.replace(calm, now_ms=60_000_000)
    costly = burst.memory | {"stake": [0.0, 1e-3, 0.0, 0]}
    ready, paid, forgot, never = (
        joint.plan(at, catalog, memory, parameters)
        for at, memory, parameters in (
            (calm, burst.memory, {}),
            (calm, costly, {}),
            (later, burst.memory, {}),
            (calm, burst.memory, {"remember_s": 0.0}),
        )
    )
    assert count(paid, "sd-turbo") == count(never, "sd-turbo") < count(ready, "sd-turbo")
    assert count(forgot, "sd-turbo") == count(never, "sd-turbo")
    assert ready.memory["rises"] == burst.memory["rises"]
    assert ready.memory["stake"][2] > 0, "what it costs is noted"
    assert not {"rises", "stake"} & (forgot.memory.keys() | never.memory.keys())


def test_run_times_that_are_longer_than_profiled_leave_less_to_the_heavy_level() -> None:
    slow = (ObservedRunTime("sd15", 1.4, 200),)
    profiled = planned("diffserve-sdturbo", 30.0)
    served = planned("diffserve-sdturbo", 30.0, run_times=slow)
    unheard = planned("diffserve-sdturbo", 30.0, {"profiles": 0.0}, run_times=slow)
    assert promised(served).heavy_share < promised(profiled).heavy_share - 0.05
    assert dataclasses.replace(unheard, memory=profiled.memory) == profiled


def test_deferral_as_served_decides_how_much_is_generated_again() -> None:
    curve = (DeferralPoint(0.0, 0.0), DeferralPoint(0.02, 0.9), DeferralPoint(1.0, 1.0))
    pair = CATALOGS["diffserve-sdturbo"].pair()
    seen_low = (ObservedDeferral(pair.light, pair.discriminator, (0.0, 1.0), (curve,), 4000),)
    learnt = planned("diffserve-sdturbo", 40.0, deferral=seen_low)
    unheard = planned("diffserve-sdturbo", 40.0, {"learns": 0.0}, deferral=seen_low)
    assert learnt.cascades[0].threshold < unheard.cascades[0].threshold


def test_after_busy_times_more_is_generated_again_than_is_best_in_a_pause_alone() -> None:
    """FID is of all answers together: cheap ones of a busy minute are made up for when there is time."""
    catalog = CATALOGS["diffserve-sdturbo"]
    busy = planned("diffserve-sdturbo", 90.0)
    calm = dataclasses.replace(seen(8.0, counts=(90,) * 40 + (8,) * 20), now_ms=20_000)
    alone = joint.plan(calm, catalog, busy.memory, {"together_s": 0.0})
    together = joint.plan(calm, catalog, busy.memory, {})
    assert promised(together).heavy_share > promised(alone).heavy_share + 0.05
    assert fid_of(together) > fid_of(alone), "it tells the FID of its own answers"
    assert "answers" not in planned("tiny", 8.0).memory, "facts are a mean over images"


def test_a_plan_follows_one_of_an_earlier_catalog() -> None:
    before, catalog = planned("diffserve-sdturbo", 90.0), CATALOGS["diffserve-sdxlltn"]
    assert before.memory["answers"]
    sight = dataclasses.replace(seen(8.0, slo_s=15.0), now_ms=20_000)
    assert joint.plan(sight, catalog, before.memory, {}) == joint.plan(sight, catalog, {}, {})


def test_prices_are_parameters() -> None:
    catalog, sight = CATALOGS["diffserve-sdturbo"], seen(30.0)
    prices = {"late": 7.0, "busy": 0.5, "debt": 3.0, "away": 0.25, "hold_s": 60.0, "variability": 0.7}
    settings = validate_parameters(prices, joint.PARAMETERS)
    model = joint.model_of(sight, catalog, settings, outlook_of(sight), problem_of(sight, catalog, settings))
    assert {name: getattr(model.prices, name) for name in prices} == prices


def test_in_a_pause_workers_stand_as_for_a_request_now_and_then() -> None:
    pause, seldom = planned("diffserve-sdturbo", 0.0), planned("diffserve-sdturbo", 0.01)
    assert pause.allocation == seldom.allocation
    assert pause.cascades == seldom.cascades
    assert promised(pause).demand_rps < 0.1


RULES = {name: POLICIES[name] for name in ("clipper-light", "clipper-heavy", "proteus", "diffserve", "hadis", "argus")}


@pytest.mark.parametrize("seed", seeds(6))
def test_by_its_own_model_it_is_never_worse_than_a_rule_of_the_papers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    name = list(CATALOGS)[seed % len(CATALOGS)]
    catalog = ranked(CATALOGS[name])
    variants, workers = list(catalog.variants), int(rng.integers(1, 12))
    least_s = min(run_ms(v, 1) for v in catalog.variants.values()) / 1000
    observation = seen(
        float(rng.uniform(0.02, 1.5) * workers / least_s), workers=workers, slo_s=catalog.slo_s or 5.0,
        homes=[variants[int(at)] for at in rng.integers(0, len(variants), workers)],
    )  # fmt: skip
    settings = validate_parameters({}, joint.PARAMETERS)
    model = joint.model_of(
        observation, catalog, settings, outlook_of(observation), problem_of(observation, catalog, settings)
    )
    ours = model.evaluate(joint.plan(observation, catalog, {}, {})).total
    for rule in RULES.values() if catalog.cascades else (POLICIES["proteus"], POLICIES["clipper-light"]):
        plan = rule(observation, catalog, {}, {})
        served = {level for route in plan.routes for level in route.levels} | {c.next_level for c in plan.cascades}
        if plan.strategy == "models" and served <= set(plan.allocation.values()):
            assert ours >= model.evaluate(plan).total - 1e-9


@pytest.mark.parametrize("demand_rps", [8.0, 60.0])
def test_a_variant_that_nobody_would_take_changes_no_plan(demand_rps: float) -> None:
    catalog = CATALOGS["diffserve-sdturbo"]
    worst = dataclasses.replace(catalog.level("sd15"), name="useless", quality=-300.0)
    wider = dataclasses.replace(catalog, variants=catalog.variants | {"useless": worst})
    before, after = (joint.plan(seen(demand_rps), c, {}, {}) for c in (catalog, wider))
    assert (after.routes, after.cascades, after.allocation) == (before.routes, before.cascades, before.allocation)


def test_a_fleet_with_time_to_spare_gives_up_no_quality() -> None:
    draft, best = planned("tiny", 2.0, workers=4), CATALOGS["tiny"].best().quality
    assert best is not None
    quality = promised(draft).quality
    assert quality is not None
    assert quality >= best - 1e-3


def cold_or_warm(held: tuple[str, ...], load_ms: float = 30_000.0, rps: float = 0.01) -> PlanProposal:
    """Two levels of which the better one lists a base that two workers may hold; a request for it now and then."""
    base = Component(kind="base", name="poster", source="models/poster", bytes=1000, load_ms={"remote": load_ms})
    best = a_variant(name="heavy", latency_ms={1: 200.0}, quality=0.9, bases=("poster",), components=(base,))
    light = a_variant(name="light", latency_ms={1: 50.0}, quality=0.8)
    catalog = a_catalog(variants={"light": light, "heavy": best}, discriminators={}, cascades=(), class_cuts={})
    demand = ObservedDemand(rps=rps, requests={"base:poster": (10.0, 0.0)})
    workers = {f"w{n:03d}": WorkerComponents(held={"device": held}) for n in range(2)}
    components = ObservedComponents(demand={"heavy": demand}, workers=workers)
    return joint.plan(seen(1.0, workers=2, components=components), catalog, {}, {})


def test_a_level_whose_base_no_worker_holds_is_worth_less_than_a_warm_one() -> None:
    def share(plan: PlanProposal) -> float:
        (route,) = plan.routes
        return route.levels.get("heavy", 0.0)

    assert share(cold_or_warm(("base:poster",))) > 0.99
    assert share(cold_or_warm(())) < 0.1
    assert share(cold_or_warm((), load_ms=100.0)) > 0.99, "a short load costs less than the quality"


def test_a_cold_base_that_is_asked_for_often_is_loaded_once_for_many() -> None:
    catalog = CATALOGS["genai2026"]
    hot, rare = (
        ObservedComponents(
            demand={"image": ObservedDemand(rps=1.0, requests={"base:base-000": (count, 0.0)})},
            workers={"w-0": WorkerComponents()},
        )
        for count in (1e6, 1.0)
    )
    load_ms = cold_load_ms("image", catalog, rare, 0.0, 120.0)
    assert load_ms == components_of(catalog, "image")["base:base-000"].load_from(Tier.REMOTE)
    assert cold_load_ms("image", catalog, hot, 0.0, 120.0) < load_ms / 1000
    assert cold_load_ms("image", catalog, dataclasses.replace(rare, workers={}), 0.0, 120.0) == 0.0


@pytest.mark.parametrize(("demand_rps", "heavy"), [(0.1, 1.0), (2.0, 0.6), (16.0, 0.0)])
def test_without_measured_quality_the_slower_level_serves_as_much_as_the_load_allows(
    demand_rps: float, heavy: float
) -> None:
    """Heavy was served never: all qualities counted as the same."""
    draft = propose(joint.plan, seen(demand_rps, 8, 15.0), CATALOGS["sdxl-example"], {}, {}, Rules())
    assert promised(draft).heavy_share == pytest.approx(heavy, abs=0.1)
    assert promised(draft).quality is None
    assert draft.reason.endswith(UNMEASURED)
    assert UNMEASURED in promised(draft).evidence


def test_without_measured_quality_workers_of_heavy_follow_the_share_that_a_judge_finds_too_poor() -> None:
    looks = a_discriminator(engine="learned", folder="look", threshold=0.3)
    catalog = unmeasured(a_catalog(discriminators={"look": looks}))
    draft = joint.plan(seen(8.0, 4), catalog, {}, {})
    (cascade,) = draft.cascades
    assert cascade.threshold == pytest.approx(0.3)
    assert count(draft, "heavy") >= 1
