"""Compares another plan with past results: reads both; `planner/analysis/off_policy.py` has the estimates."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from planner.analysis.off_policy import Estimate, Interval, Past, as_it_went, estimate
from schemas.errors import InvalidPlan, InvalidRecord, PochadeError
from schemas.messages import Cascade, Plan, Result, Route, Stage, Status
from schemas.wire_names import field_name
from streams.codec.avro import from_values
from streams.operator.explain import steps_of
from streams.visible import counted

NEVER_ASKED = {"invalid", "cancelled", "unhonoured", "poison"}  # codes of ends that no plan would have changed


@dataclass(frozen=True, slots=True)
class Collected:
    """The results that the estimate can use, and the number of those that it cannot."""

    past: tuple[Past, ...]
    skipped: Mapping[str, int]  # why -> results


def collect(results: Iterable[Result]) -> Collected:
    """Collect results for the estimator; the first result of a request counts."""
    past: dict[str, Past] = {}
    skipped: dict[str, int] = {}
    for result in results:
        if result.request_id in past:
            continue
        found = past_of(result)
        if isinstance(found, str):
            skipped[found] = skipped.get(found, 0) + 1
        else:
            past[result.request_id] = found
    return Collected(tuple(past.values()), skipped)


def past_of(result: Result) -> Past | str:
    """Return a result for the estimator, or the reason why it says nothing about plans."""
    if result.code in NEVER_ASKED or result.status is Status.CANCELLED:
        return "no plan would have changed its end"
    if result.hardness is None or result.latency_ms is None:
        return "never classified"
    try:
        steps = steps_of(result)
    except InvalidRecord:
        return "its path cannot be read"
    classes = {"models": result.class_models} if result.class_models else {}
    first, later = (steps[0], steps[1:]) if steps else (None, ())
    return Past(
        hardness=result.hardness,
        classes=classes,
        level=first.level if first else "",
        probability=first.probability if first else 0.0,
        confidence=first.confidence if first else None,
        last_level=steps[-1].level if steps else "",
        first_ms=result.latency_ms - sum(step.queue_ms + step.generate_ms for step in later),
        latency_ms=result.latency_ms,
        first_work_ms=_work_ms(first) if first else 0.0,
        work_ms=sum(map(_work_ms, steps)),
        is_completed=result.status is Status.COMPLETED,
    )


def _work_ms(step: Stage) -> float:
    return step.generate_ms / step.batch


def read_plan(path: Path) -> Plan:
    """A plan as `pochade plan show`, `solve` or `shadow` write it with `-o json`.

    Raises:
        PochadeError: it cannot be read, or holds no plan.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PochadeError(f"cannot read a plan from {path}: {error}") from error
    found = content.get("shadow", content) if isinstance(content, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("routes"), list):
        raise PochadeError(f"{path} holds no plan: write one with `pochade plan shadow POLICY -o json > {path}`")
    try:
        return _plan(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PochadeError(f"{path} holds no whole plan: {type(error).__name__} {error}") from error


def _plan(found: Mapping[str, Any]) -> Plan:
    known = {field_name(field.name): field.name for field in fields(Cascade)}
    cascades = [{"level": each.get("from"), "next_level": each.get("to"), **each} for each in found.get("cascades", ())]
    return Plan(
        version=int(found.get("version", 0)),
        policy=str(found.get("policy", "")),
        strategy=str(found.get("strategy", "models")),
        created_ms=0,
        reason=str(found.get("reason", "")),
        routes=tuple(from_values(Route, each) for each in found["routes"]),
        cascades=tuple(from_values(Cascade, {name: each[key] for key, name in known.items()}) for each in cascades),
    )


def answer(collected: Collected, plan: Plan, slo_ms: float, seed: int) -> dict[str, Any]:
    """Return the plan's estimate beside the measured figures, as JSON values; a figure is None if nothing has it.

    Raises:
        PochadeError: no result has what an estimate needs, or the plan has no route for a request.
    """
    if not collected.past:
        raise PochadeError("no result in this time has what an estimate needs: read a longer time with --since")
    try:
        found = estimate(collected.past, plan, slo_ms, seed)
    except InvalidPlan as error:
        raise PochadeError(f"cannot estimate plan {plan.version} of {plan.policy!r}: {error}") from error
    return {
        "policy": plan.policy,
        "plan_version": plan.version,
        "slo_s": slo_ms / 1000,
        "skipped": dict(collected.skipped),
        **_as_json(found),
        "as_it_went": _intervals(as_it_went(collected.past, slo_ms, seed)),
    }


def _as_json(found: Estimate) -> dict[str, Any]:
    requests, effective = counted(found.requests, "request"), counted(round(found.effective), "request")
    weighted = f"The estimate rests on {requests}, each weighted by how much likelier this plan is to draw its level"
    return {
        "requests": found.requests,
        "rests_on": f"{weighted}: it is as exact as {effective} that this plan had drawn.",
        "undrawn": found.undrawn,
        "effective_requests": found.effective,
        "never_drawn": found.never_drawn,
        "unknown": found.unknown,
        "doubts": list(found.doubts),
        "estimate": _intervals(found.figures),
    }


def _intervals(figures: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: None if math.isnan(interval.value) else asdict(interval) for name, interval in figures.items()}
