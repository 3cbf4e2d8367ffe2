"""When a worker tests retrievals in the background: behind an open breaker, and while no job asks for any.

Source: ARGUS 4.6, which "constantly also runs test retrieval requests in the background" while it serves smaller
models. Without these nobody would notice that a store which was slow, and never failed, is quick again.
"""

from planner.reuse.breaker import Breaker
from schemas.messages import Plan

REUSE = "reuse"  # the strategy under which jobs ask for lookups


def is_idle(plan: Plan) -> bool:
    """Whether a plan asks for reuse, but sends no job to be begun from a stored latent, as the fleet is away."""
    return plan.reuse is not None and plan.strategy != REUSE and not _has_reuse_level(plan)


def probe_due(breaker: Breaker, looked_ms: float, now_ms: float, *, is_idle: bool) -> bool:
    """Whether a background probe is due. `looked_ms`: when the worker looked anything up or probed the last time."""
    if breaker.is_open:
        return breaker.wants_probe(now_ms)
    return is_idle and not 0.0 <= now_ms - looked_ms < breaker.rule.probe_ms


def _has_reuse_level(plan: Plan) -> bool:
    return any("~" in level for route in plan.routes for level, share in route.levels.items() if share > 0)
