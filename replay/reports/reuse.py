"""Reuse in a run: hits, saved steps, misses by reason, and when the planner changed its strategy.

Read from results and plans alone: a switch that no plan shows did not happen.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from planner.reuse.neighbour import Miss
from replay.local.freezing import Frozen
from schemas.messages import Plan, Result, StageReuse
from streams.operator.explain import steps_of

REUSE = "reuse"  # the strategy of a plan that begins images from stored latents


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The course of a run that reuses images."""

    plans: tuple[Plan, ...]  # by version
    frozen: Frozen
    began_ms: float  # epoch, of the first submission
    ended_ms: float  # epoch, of the last result


def reuse_of(result: Result) -> StageReuse | None:
    """Return the reuse of the last stage that skipped steps, else of the last stage; None if no plan asked for any."""
    stages = [stage.reuse for stage in reversed(steps_of(result)) if stage.reuse is not None]
    return next((reuse for reuse in stages if reuse.step), stages[0] if stages else None)


def summarize(results: Iterable[Result]) -> dict[str, Any] | None:
    """Return hits, steps and misses over all stages; None where no plan asked for reuse."""
    stages = [stage.reuse for result in results for stage in steps_of(result) if stage.reuse is not None]
    if not stages:
        return None
    hits = [stage for stage in stages if stage.step]
    saved, steps = sum(stage.step for stage in stages), sum(stage.steps for stage in stages)
    return {
        "jobs": len(stages),
        "hits": len(hits),
        "saved_steps": saved,
        "steps": steps,
        "saved_share": round(saved / steps, 4) if steps else 0.0,
        "misses": dict(Counter(stage.miss or "unknown" for stage in stages if not stage.step).most_common()),
        "similarity_p50": _median([stage.similarity for stage in hits if stage.similarity is not None]),
    }


def _median(values: Sequence[float]) -> float | None:
    return round(sorted(values)[len(values) // 2], 4) if values else None


def switches(plans: Sequence[Plan]) -> list[tuple[Plan, Plan]]:
    """Return the plans before and after each change of strategy."""
    return [(before, after) for before, after in pairwise(plans) if before.strategy != after.strategy]


def in_force(plans: Sequence[Plan], at_ms: float) -> Plan | None:
    """Return the last plan made before a moment (epoch ms), else the first; None where there is none."""
    return next((plan for plan in reversed(plans) if plan.created_ms <= at_ms), plans[0] if plans else None)


def describe_switch(before: Plan, after: Plan) -> str:
    """Say in one line what changed and why, in the plan's own words."""
    return f"plan {after.version} switches the strategy from {before.strategy} to {after.strategy}: {after.reason}"


def timeline(course: Course) -> list[dict[str, Any]]:
    """Return the moments of a run in order, each with seconds since the first submission and what happened."""
    first = in_force(course.plans, course.began_ms)
    moments = [(course.began_ms, f"plan {first.version}, strategy {first.strategy}: {first.reason}")] if first else []
    changes = switches(course.plans)
    moments += [(float(after.created_ms), describe_switch(before, after)) for before, after in changes]
    began_ms, ended_ms = course.frozen
    if not math.isnan(began_ms):
        moments.append((began_ms, "the vector store is frozen (SIGSTOP): it answers no call"))
    if not math.isnan(ended_ms):
        moments.append((ended_ms, "the vector store goes on (SIGCONT)"))
    return [{"at_s": round((at - course.began_ms) / 1000, 1), "what": what} for at, what in sorted(moments)]


def spans(course: Course) -> list[dict[str, Any]]:
    """Return how long each strategy and the freeze held, in seconds since the first submission, within the run."""
    changes = [(course.began_ms, course.plans[0].strategy)] if course.plans else []
    changes += [(float(after.created_ms), after.strategy) for _, after in switches(course.plans)]
    ends = [*(at for at, _ in changes), course.ended_ms][1:]
    held = [(strategy, at, end) for (at, strategy), end in zip(changes, ends, strict=True)]
    began_ms, ended_ms = course.frozen
    if not math.isnan(began_ms):
        held.append(("frozen", began_ms, course.ended_ms if math.isnan(ended_ms) else ended_ms))
    inside = [
        (what, max(0.0, at - course.began_ms), min(end, course.ended_ms) - course.began_ms) for what, at, end in held
    ]
    return [
        {"what": what, "from_s": round(at / 1000, 2), "to_s": round(end / 1000, 2)}
        for what, at, end in inside
        if end > at
    ]


def verdict_of_switch(course: Course) -> str:
    """Say whether the planner left reuse while the store was frozen, and whether it came back; nothing else."""
    began_ms, ended_ms = course.frozen
    at = [(float(after.created_ms), after) for _, after in switches(course.plans)]
    if math.isnan(began_ms):
        alone = next((ms for ms, plan in at if plan.strategy != REUSE), None)
        why = (
            ""
            if alone is None
            else f": the planner left reuse by itself, at {_seconds(max(0.0, alone - course.began_ms))}"
        )
        return f"the vector store was not frozen{why}"
    left = next((ms for ms, plan in at if ms >= began_ms and plan.strategy != REUSE), None)
    if left is None:
        return "the planner did not leave reuse while the vector store was frozen"
    said = f"left reuse {_seconds(left - began_ms)} after the vector store froze"
    back = next((ms for ms, plan in at if ms >= left and plan.strategy == REUSE), None)
    if back is None:
        return f"{said}; it did not come back before the end"
    since = back - (began_ms if math.isnan(ended_ms) else ended_ms)
    return f"{said}, back {_seconds(since)} after it went on"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.0f} s"


def rows(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the lines of the report about reuse; {} where no plan asked for any."""
    found = report.get("reuse")
    if not found:
        return {}
    named = {str(Miss.ROUTE): "as planned"}
    misses = ", ".join(f"{count} {named.get(why, why)}" for why, count in found["misses"].items()) or "none"
    saved = f"{found['saved_steps']} of {found['steps']} steps ({100 * found['saved_share']:.0f} %)"
    return {
        "reused": f"{found['hits']} of {found['jobs']} images, which saved {saved}",
        "not reused": misses,
        "switch": report["switch"],
    }
