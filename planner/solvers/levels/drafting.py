"""Plans a fleet on several approximation levels by the demand: for `argus` and its prompt-blind `pac`.

Source: ARGUS 4.2 (Eq. 1), 4.3 (PASM), 4.6 (switch of strategy). Reuse is the strategy it begins with, and returns to.
If reuse was not measured, or the parameter `reuse` is 0, the strategy is always `models`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.catalog.quality import levels_of
from planner.control.allocation import assign
from planner.control.proposal import BATCH, Parameter, PlanProposal, validate_parameters
from planner.control.wording.format import counted
from planner.observation.observation import Observation
from planner.reuse.planning import TRIED, any_neighbour, guarded_plan, losses_of, repeats_less, reuse_plan, with_lookups
from planner.solvers.levels import strategy_switch
from planner.solvers.levels.level_mix import (
    Mix,
    Offer,
    describe_mix,
    expected_of,
    fill,
    is_judged,
    keep_current,
    maximize_quality,
    mixed_offers,
    offers_of,
    reuse_offers,
    routes_of,
)
from schemas.messages import ReusePlan

PARAMETERS = {
    "overprovision": Parameter(1.05, 0.01, 100),  # of the demand; ARGUS gives none, this is Proteus's beta
    "batch": BATCH,  # ARGUS 4.5 generates one by one
    "reuse": Parameter(1, 0, 1, is_whole=True),  # 0: never from past images
    "guarded": Parameter(0, 0, 1, is_whole=True),  # 1: floors, guard and check, of which ARGUS has none
    "switch": Parameter(1, 0, 1, is_whole=True),  # 0: never leave reuse, as the black line of ARGUS's Fig. 20b
    "hold": Parameter(0, 0, 1),  # how much less quality, of best less worst level, is better than moving workers
    "return_s": Parameter(15, 0, 86_400),  # how long retrievals must be healthy before reuse is taken up again
}

MARGIN: Final = 1.5  # of the demand, while the fleet is under way. Source: ARGUS 4.6
NO_PROFILE = "nothing is reused, as the catalog has no profile of reuse"
NO_GUARD = "nothing is reused, as the profile of reuse has no floors and guard, or no level that they were tested on"


class Task(NamedTuple):
    """The parts that a proposal is made of."""

    seen: Observation
    catalog: Catalog
    demand_rps: float  # over-provisioned
    batch: int
    hold: float
    is_blind: bool  # routes do not look at the prompt
    reuse: ReusePlan | None = None  # also while the fleet is away, so that workers go on to test lookups


def draft(
    observation: Observation,
    catalog: Catalog,
    memory: Mapping[str, Any],
    parameters: Mapping[str, float],
    *,
    is_blind: bool,
) -> PlanProposal:
    """Solve Eq. 1 under the strategy that the switch rule has chosen. Memory: the switch's state."""
    settings = validate_parameters(parameters, PARAMETERS)
    batch = int(settings["batch"])
    demand_rps = settings["overprovision"] * observation.planning_rps
    task = Task(observation, catalog, demand_rps, batch, settings["hold"], is_blind)
    if not settings["reuse"]:
        return _on_models(task, "")
    group, why_not = _reuse_of(observation, catalog, is_guarded=settings["guarded"] > 0)
    if group is None:
        return _on_models(task, f"; {why_not}")
    task, reuse = task._replace(reuse=group), reuse_offers(catalog, batch, group.hits, losses_of(catalog, group))
    state = strategy_switch.recalled(memory)
    retrieval = strategy_switch.retrieval_of(observation.reuse, _saved_ms(reuse))
    rule = strategy_switch.Rule(return_after_ms=int(1000 * settings["return_s"]))
    if settings["switch"]:
        retrieval = retrieval._replace(carries=_carries(task, reuse, is_away=state.stage in strategy_switch.AWAY))
        state = strategy_switch.step(state, retrieval, observation.now_ms, rule)
    if state.stage == strategy_switch.REUSE:
        return _on_reuse(task, reuse, state)
    if state.stage == strategy_switch.MODELS:
        note = f"; without reuse: {strategy_switch.describe(retrieval)}"
        away = _on_models(task, note, strategy_switch.remembered(state))
        return _tried(away, group, catalog) if strategy_switch.is_answered(retrieval, rule) else away
    if state.stage == strategy_switch.LEAVING:
        why = strategy_switch.describe(retrieval)
        return _leaving(task, reuse, state, why)
    return _returning(task, reuse, state)


def _reuse_of(seen: Observation, catalog: Catalog, *, is_guarded: bool) -> tuple[ReusePlan | None, str]:
    """Return what the plan says of reuse; (None, why) where it cannot be planned.

    As published the nearest neighbour is used, whatever it shows, up to the K of the level, and all images are stored.
    """
    profile, levels = catalog.reuse_profile, [level for level in levels_of(catalog, "reuse") if level.reuse_step]
    if profile is None or not levels:
        return None, NO_PROFILE
    hits = seen.reuse.hits if seen.reuse else {}
    if not is_guarded:
        most = max(level.reuse_step / catalog.level(level.variant).steps for level in levels)
        return reuse_plan(catalog, profile, any_neighbour(most), hits), ""
    guarded = guarded_plan(catalog, profile, hits)
    return guarded, "" if guarded else NO_GUARD


def _on_models(task: Task, note: str, memory: dict[str, Any] | None = None) -> PlanProposal:
    offers = offers_of(task.catalog, dict.fromkeys(task.catalog.variants, task.batch))
    mix = maximize_quality(offers, len(task.seen.workers), task.demand_rps)
    qualities = [offer.quality for offer in offers]
    less = task.hold * (max(qualities) - min(qualities))
    mix = keep_current(mix, Counter(w.home for w in task.seen.workers), offers, task.demand_rps, less)
    return _drafted(task, "models", offers, mix, assign(mix.counts, task.seen.workers), note, memory or {})


def _tried(away: PlanProposal, group: ReusePlan, catalog: Catalog) -> PlanProposal:
    """Let a few requests of a guarded plan be looked up where prompts repeat less than profiled, to see a change."""
    profile = catalog.reuse_profile
    expected = None if profile is None or group.guard is None else guarded_plan(catalog, profile, {})
    if expected is None or not repeats_less(group, expected):
        return away
    (level,) = group.hits
    routes = with_lookups(away.routes, level, TRIED)
    note = f"; {TRIED:.0%} of the requests for {variant_of(level)} are looked up, to see whether prompts repeat"
    return replace(away, routes=routes, reason=away.reason + note) if routes != away.routes else away


def _on_reuse(task: Task, reuse: Sequence[Offer], state: strategy_switch.State) -> PlanProposal:
    mix = fill({reuse[0].variant: len(task.seen.workers)}, reuse, task.demand_rps)
    allocation = assign(mix.counts, task.seen.workers)
    return _drafted(task, "reuse", reuse, mix, allocation, "", strategy_switch.remembered(state))


def _carries(task: Task, reuse: Sequence[Offer], *, is_away: bool) -> bool:
    """Return whether the fleet could reuse at the forecast demand, or at MARGIN times it to come back.

    Always without a guard: a level then saves all of its K whatever is near, and the deepest one carries the most.
    """
    if task.reuse is None or task.reuse.guard is None:
        return True
    demand_rps = task.seen.planning_rps * (MARGIN if is_away else 1.0)
    return fill({reuse[0].variant: len(task.seen.workers)}, reuse, demand_rps).carried >= 1


def _leaving(task: Task, reuse: Sequence[Offer], state: strategy_switch.State, why: str) -> PlanProposal:
    """A wave of workers on their way to smaller models, and routes to those that generate and stay. `why`: in words.

    In full, as lookups fail or cost too much; with the reuse levels where the demand alone is the reason.
    """
    is_for_demand = not _carries(task, reuse, is_away=False)
    task, workers = task._replace(demand_rps=task.demand_rps * MARGIN), task.seen.workers
    offers = offers_of(task.catalog, dict.fromkeys(task.catalog.variants, task.batch))
    target = assign(maximize_quality(offers, len(workers), task.demand_rps).counts, workers)
    after = strategy_switch.after_switch(state, target, workers)
    return _under_way(task, _mixed(task) if is_for_demand else offers, after, target, f"leaving reuse: {why}")


def _returning(task: Task, reuse: Sequence[Offer], state: strategy_switch.State) -> PlanProposal:
    """A wave of workers on their way to the model that is reused; those that generate with it reuse already.

    The plan that sees the last one there is the first of the strategy `reuse`.
    """
    workers = task.seen.workers
    target = assign({reuse[0].variant: len(workers)}, workers)
    after = strategy_switch.after_switch(state, target, workers)
    if after.stage == strategy_switch.REUSE:
        return _on_reuse(task, reuse, after)
    task = task._replace(demand_rps=task.demand_rps * MARGIN)
    return _under_way(task, _mixed(task), after, target, "returning to reuse")


def _mixed(task: Task) -> tuple[Offer, ...]:
    """Every variant, and reuse levels as often as lookups are answered: some breakers may still be open."""
    assert task.reuse is not None, "a fleet without a reuse group has nowhere to return to"
    seen = task.seen.reuse
    answered = 1 - max(seen.failing, seen.unanswered) if seen else 1.0
    hits = {level: answered * rate for level, rate in task.reuse.hits.items()}
    return mixed_offers(task.catalog, task.batch, hits, losses_of(task.catalog, task.reuse))


def _under_way(
    task: Task, offers: Sequence[Offer], after: strategy_switch.State, target: Mapping[str, str], course: str
) -> PlanProposal:
    """The next wave towards `target`, and routes to those that generate and stay."""
    workers = task.seen.workers
    allocation = strategy_switch.wave(target, workers, task.catalog.variants)
    there = strategy_switch.ready(allocation, workers) or Counter(allocation.values())
    to_go = _on_their_way(target, task.seen)
    # The next wave is no change that must be worth its cost: the memory shows that the switch goes on.
    memory = strategy_switch.remembered(after) | {"to_go": to_go}
    mix, note = fill(there, offers, task.demand_rps), f"; {course}, {counted(to_go, 'worker')} to go"
    return _drafted(task, "models", offers, mix, allocation, note, memory)


def _drafted(
    task: Task,
    strategy: str,
    offers: Sequence[Offer],
    mix: Mix,
    allocation: dict[str, str],
    note: str,
    memory: dict[str, Any],
) -> PlanProposal:
    seen, catalog = task.seen, task.catalog
    classes = None if task.is_blind else seen.classes.get(strategy, {})
    hits = task.reuse.hits if task.reuse else {}
    routes, failed = routes_of(mix, offers, catalog, strategy, classes, hits)
    is_unsaid = is_judged(catalog) or not catalog.has_quality  # what holds of all plans is said by `with_evidence`
    unjudged = "" if is_unsaid else "; not all qualities are measured, so slower counts as better"
    return PlanProposal(
        strategy=strategy,
        routes=routes,
        allocation=allocation,
        batch=dict.fromkeys((offer.variant for offer in offers), task.batch),
        expected=expected_of(mix, offers, catalog, seen.planning_rps),
        reason="; ".join(filter(None, [describe_mix(mix, offers, task.demand_rps), failed])) + note + unjudged,
        memory=memory,
        reuse=task.reuse,
    )


def _saved_ms(reuse: Sequence[Offer]) -> float:
    """Mean run time that the reuse levels are expected to save against generating in full, misses included."""
    full_ms, others = 1000 / reuse[0].rps, reuse[1:]
    return sum(full_ms - 1000 / offer.rps for offer in others) / len(others)


def _on_their_way(target: Mapping[str, str], seen: Observation) -> int:
    return sum(not strategy_switch.is_serving(w) or target.get(w.worker_id, w.home) != w.home for w in seen.workers)
