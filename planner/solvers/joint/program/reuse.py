"""Reuse levels beside models: which a joint plan may use, and whether lookups can be counted on just now.

A level is offered where the profile shows gain: within floors and guard it saves steps, misses included, and loses no
more quality than the catalog's indifference. Whether it pays is the optimum's to find. Ours: ARGUS 4.1 never mixes its
strategies, as its classifier would need a class for each pair of both; nothing is classified here.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from planner.catalog.model import Catalog
from planner.catalog.quality import Level
from planner.observation.observation import Observation
from planner.reuse.planning import guarded_plan, losses_of
from planner.solvers.levels import strategy_switch
from planner.solvers.levels.level_mix import expected_levels
from schemas.messages import ReusePlan

MEMORY: Final = "reuse"  # key of a plan's memory
MIN_SAVED_SHARE: Final = 0.02  # of a run, misses included: as much as asking may cost where nobody repeats
AT_ONCE: Final[Mapping[str, str]] = {  # nobody loads anything: there are no stages between
    strategy_switch.LEAVING: strategy_switch.MODELS, strategy_switch.RETURNING: strategy_switch.REUSE,
}  # fmt: skip


class ReuseChoice(NamedTuple):
    """What a joint plan may do with stored latents."""

    plan: ReusePlan | None = None  # also while nothing is offered for want of answers, so that lookups are tested
    levels: tuple[Level, ...] = ()  # offered: means over hits and misses
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
    full, *later = expected_levels(catalog, plan.hits, losses_of(catalog, plan))
    gaining = tuple(level for level in later if _gains(full, level, catalog))
    if not gaining:
        return ReuseChoice(why_not=f"no level saves {MIN_SAVED_SHARE:.0%} of the steps without a loss of quality")
    if seen.reuse is None:  # such as where no vector store is named: every job would run in full
        return ReuseChoice(plan, (), "", _carry_over(memory))
    saves_ms = sum(full.run_ms - level.run_ms for level in gaining) / len(gaining)
    state = strategy_switch.recalled(memory.get(MEMORY, {}))
    found = strategy_switch.retrieval_of(seen.reuse, saves_ms)
    state = strategy_switch.step(state, found, seen.now_ms, strategy_switch.Rule())
    state = state._replace(stage=AT_ONCE.get(state.stage, state.stage))
    kept = {MEMORY: strategy_switch.remembered(state)}
    if state.stage == strategy_switch.MODELS:
        return ReuseChoice(plan, (), "lookups get no answer or cost too much", kept)
    return ReuseChoice(plan, gaining, "", kept)


def _carry_over(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the plan before remembered of reuse, unchanged."""
    return {MEMORY: memory[MEMORY]} if MEMORY in memory else {}


def _gains(full: Level, level: Level, catalog: Catalog) -> bool:
    if full.quality is None or level.quality is None:
        return False
    saves = full.run_ms - level.run_ms >= MIN_SAVED_SHARE * full.run_ms
    return saves and full.quality - level.quality <= catalog.indifference + 1e-9
