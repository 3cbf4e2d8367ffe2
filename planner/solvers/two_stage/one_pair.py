"""A cascade of one pair as a draft: routes by hardness, a threshold, workers and batches. Not a policy by itself."""

from collections.abc import Mapping
from typing import Any

from planner.control.allocation import assign
from planner.control.proposal import Draft
from planner.observation.observation import Observation
from planner.solvers.levels.shares import constant
from planner.solvers.two_stage.solve import PairPlan
from schemas.messages import Cascade, Expected, Route


def draft(
    plan: PairPlan, seen: Observation, reason: str, memory: Mapping[str, Any] | None = None, is_random: bool = False
) -> Draft:
    """The draft of a plan. `is_random`: who is painted by heavy is drawn, whatever the prompt and the picture."""
    pair, answer, row = plan.pair, plan.answer, plan.answer.row
    cascade = Cascade(
        level=pair.light,
        next_level=pair.heavy,
        discriminator=pair.discriminator,
        threshold=row.threshold if answer.workers[1] else 0.0,
        paint_over_step=pair.paint_over_step,
    )
    planned = seen.planning_rps / plan.problem.demand_rps if plan.problem.demand_rps > 0 else 0.0
    return Draft(
        routes=constant({pair.light: 1 - row.heavy, pair.heavy: row.heavy}) if is_random else _routes(plan),
        cascades=() if is_random else (cascade,),
        allocation=assign({pair.light: answer.workers[0], pair.heavy: answer.workers[1]}, seen.workers),
        batch={pair.light: answer.batches[0], pair.heavy: answer.batches[1]},
        expected=Expected(
            demand_rps=seen.planning_rps,
            utilization=planned * max(answer.loads),
            heavy_share=row.heavy,
            quality=row.quality,
        ),
        reason=reason,
        memory=dict(memory or {}),
        is_feasible=plan.is_feasible,
    )


def _routes(plan: PairPlan) -> tuple[Route, ...]:
    """Hard prompts straight to heavy; all to light where nobody serves heavy or none is that hard."""
    light, heavy, hardness = {plan.pair.light: 1.0}, {plan.pair.heavy: 1.0}, plan.answer.row.hardness
    if hardness >= 1 or not plan.answer.workers[1]:
        return (Route(levels=light),)
    if hardness <= 0 or not plan.answer.workers[0]:
        return (Route(levels=heavy),)
    return Route(levels=light, hardness_to=hardness), Route(levels=heavy, hardness_from=hardness)
