"""Reuse levels beside models: which a joint plan may use, and whether lookups can be counted on just now.

A level is offered where the profile shows gain: within floors and guard it saves steps, misses included, and loses no
more quality than the catalog's indifference. While prompts repeat so seldom that lookups cost more than their hits save
none is; a tenth of the requests is looked up then, so that a change is seen. Whether a level that is offered pays
is the optimum's to find. Ours: ARGUS 4.1 never mixes its strategies, as its classifier would need a class for each pair
of both; nothing is classified here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.catalog.quality import Level
from planner.observation.observation import Observation
from planner.reuse.planning import TRIED, guarded_plan, losses_of, repeats_less, with_lookups
from planner.solvers.levels import strategy_switch
from planner.solvers.levels.level_mix import expected_levels
from schemas.messages import Cascade, ReusePlan, Route

MEMORY: Final = "reuse"  # key of a plan's memory
MIN_SAVED_SHARE: Final = 0.02  # of a run, misses included: the cost of lookups if no prompt repeats
RULE: Final = strategy_switch.Rule(too_much=1.0, healthy=0.75)  # no worker moves for it: its savings decide
AT_ONCE: Final[Mapping[str, str]] = {  # no worker loads anything, so there are no stages between
    strategy_switch.LEAVING: strategy_switch.MODELS, strategy_switch.RETURNING: strategy_switch.REUSE,
}  # fmt: skip


class ReuseChoice(NamedTuple):
    """A joint plan's options of reuse."""

    plan: ReusePlan | None = None  # also while nothing is offered for want of answers, so that lookups are tested
    levels: tuple[Level, ...] = ()  # offered: means over hits and misses
    is_tried: bool = False  # where the plan uses none, planning.TRIED of the requests are looked up all the same
    why_not: str = ""  # why none is offered; "": some are, the catalog has no profile of reuse, or nothing is looked up
    memory: Mapping[str, Any] = {}  # of the plan


def reuse_of(seen: Observation, catalog: Catalog, memory: Mapping[str, Any]) -> ReuseChoice:
    """Return the levels to offer, and what the plan says of reuse; `memory`: of the plan before."""
    profile = catalog.reuse_profile
    if profile is None:
        return ReuseChoice()
    plan = guarded_plan(catalog, profile, seen.reuse.hits if seen.reuse else {})
    if plan is None:
        return ReuseChoice(why_not="the profile of reuse has no floors and guard, or no level that they were tested on")
    expected = guarded_plan(catalog, profile, {})
    if expected is None or not _gaining(catalog, expected)[1]:
        return ReuseChoice(why_not=f"no level saves {MIN_SAVED_SHARE:.0%} of the steps without a loss of quality")
    if seen.reuse is None:  # such as where no vector store is named: every job would run in full
        return ReuseChoice(plan, memory=_carry_over(memory))
    saves_ms, gaining = _gaining(catalog, plan)
    state = strategy_switch.recalled(memory.get(MEMORY, {}))
    found = strategy_switch.retrieval_of(seen.reuse, saves_ms)._replace(carries=bool(gaining))
    state = strategy_switch.step(state, found, seen.now_ms, RULE)
    state = state._replace(stage=AT_ONCE.get(state.stage, state.stage))
    kept = {MEMORY: strategy_switch.remembered(state)}
    is_answered = strategy_switch.is_answered(found, RULE)
    is_tried = is_answered and repeats_less(plan, expected)
    if state.stage != strategy_switch.MODELS:
        return ReuseChoice(plan, gaining, is_tried, memory=kept)
    return ReuseChoice(plan, (), is_tried, _why_not(found, is_answered=is_answered), kept)


def _why_not(found: strategy_switch.Retrieval, *, is_answered: bool) -> str:
    """Say in words why no reuse level is offered that the profile shows gain of."""
    if not is_answered or found.costs_ms is None:
        return "lookups get no answer in time"
    if found.carries and found.costs_ms <= RULE.healthy * found.saves_ms:
        return f"lookups have paid for less than {RULE.return_after_ms / 1000:g} s"
    return "lookups cost more than hits save"


def routes_with(choice: ReuseChoice, routes: Sequence[Route], cascades: Sequence[Cascade]) -> tuple[Route, ...]:
    """Return a plan's routes; where they use no reuse level that is offered, those alone look up that are tried.

    A variant whose images are judged is not tried, as what begins from a stored latent is another level.
    """
    offered = {level.name for level in choice.levels}
    judged = {cascade.level for cascade in cascades}
    is_used = any(not offered.isdisjoint(route.levels) for route in routes)
    for level in () if is_used or choice.plan is None else choice.plan.hits:
        is_tried = choice.is_tried and variant_of(level) not in judged
        routes = with_lookups(routes, level, TRIED if is_tried else 0.0)
    return tuple(routes)


def _carry_over(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the plan before remembered of reuse, unchanged."""
    return {MEMORY: memory[MEMORY]} if MEMORY in memory else {}


def _gaining(catalog: Catalog, plan: ReusePlan) -> tuple[float, tuple[Level, ...]]:
    """Return the mean ms that a job of a plan's reuse levels saves, misses included, and those levels that gain."""
    full, *later = expected_levels(catalog, plan.hits, losses_of(catalog, plan))
    saves_ms = sum(full.run_ms - level.run_ms for level in later) / len(later)
    return saves_ms, tuple(level for level in later if _gains(full, level, catalog))


def _gains(full: Level, level: Level, catalog: Catalog) -> bool:
    if full.quality is None or level.quality is None:
        return False
    saves = full.run_ms - level.run_ms >= MIN_SAVED_SHARE * full.run_ms
    return saves and full.quality - level.quality <= catalog.indifference + 1e-9
