"""What the last search for a plan came to, so that a moment like it needs none: its rivals say whether the plan stays.

A search costs 60 to 70 ms of CPU, to value a plan .3 ms (README, When none is searched for).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, NamedTuple

from planner.control.allocation import assign
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.solvers.joint.improve import Valued
from planner.solvers.joint.value import Model
from schemas.messages import Cascade, Route

SEARCHED: Final = "searched"  # in a plan's memory
REST_S: Final = 60  # longest time between two searches
FEWER, MORE = 0.95, 1.15  # times the demand of the search, between which none is needed
FALLEN: Final = 0.02  # units of quality that the plan may be worth less than it was
OVERTAKEN: Final = 2e-4  # units of quality by which a rival must be better
MOST: Final = 8  # rivals that are remembered


class Searched(NamedTuple):
    """The moment of a search, and the plans that it found."""

    at_s: int
    rps: float
    unit: float  # of quality, as the program had it: `Problem.unit`
    slo_s: float
    away_s: float  # until a worker that is moved serves again, at least
    total: float = 0.0  # value of the plan that it chose
    rivals: Sequence[Sequence[Any]] = ()  # as `_decided` returns them

    def is_near(self, rps: float, now_ms: int) -> bool:
        """Whether a demand and a time are like those of the search."""
        return 0 <= now_ms // 1000 - self.at_s < REST_S and FEWER <= rps / self.rps <= MORE

    def stays(self, model: Model, plan: PlanProposal) -> Valued | None:
        """Return the plan with its value if it is still the best of those known; else None."""
        own = Valued(plan, model.evaluate(plan))
        if own.value.total < self.total - FALLEN:
            return None
        others = (model.evaluate(each).total for each in self.plans(model.seen, plan))
        return own if all(total <= own.value.total + OVERTAKEN for total in others) else None

    def plans(self, seen: Observation, like: PlanProposal) -> list[PlanProposal]:
        """Return the rivals with these workers; what else plans decide is as in `like`."""
        return [
            replace(
                like, routes=tuple(Route(**each) for each in routes), batch=batch,
                cascades=tuple(Cascade(**each) for each in cascades), allocation=assign(Counter(counts), seen.workers),
            )
            for routes, cascades, counts, batch in self.rivals
        ]  # fmt: skip


def recalled(memory: Mapping[str, Any], terms: object) -> Searched | None:
    """Return the last search; None if there was none by this release on these terms."""
    try:
        at_s, rps, unit, slo_s, away_s, total, rivals, on_terms = memory[SEARCHED]
        found = Searched(at_s, rps, unit, slo_s, away_s, total, rivals)
    except (KeyError, TypeError, ValueError):
        return None
    return found if on_terms == terms else None


def memory_of(searched: Searched, chosen: Valued, found: Iterable[Valued], terms: object) -> dict[str, Any]:
    """Return what is to be remembered of a search, in JSON's values. `found`: all plans, the chosen one among them;
    `terms`: in JSON's values, too, what else decides which plans there are.
    """
    own, rivals = _decided(chosen.plan), dict[str, list[Any]]()
    for each in sorted(found, key=lambda each: -each.value.total):
        if (decided := _decided(each.plan)) != own:
            rivals[repr(decided)] = decided
        if len(rivals) == MOST:
            break
    return {SEARCHED: [*searched[:5], chosen.value.total, list(rivals.values()), terms]}


def _decided(plan: PlanProposal) -> list[Any]:
    """Return a plan's routes, cascades, workers and batches, in JSON's values."""
    counts = dict(sorted(Counter(plan.allocation.values()).items()))
    batch = {name: plan.batch.get(name, 1) for name in counts}
    cascades = [asdict(cascade) for cascade in plan.cascades if cascade.threshold > 0]
    return [[asdict(route) for route in plan.routes], cascades, counts, batch]
