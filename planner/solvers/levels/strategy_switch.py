"""Decides when a fleet leaves approximate caching for smaller models, and comes back: stages, one step per plan.

    stage       requests go to              it ends when                                  and then comes
    REUSE       reuse levels                lookups get no answer or cost too much      LEAVING
    LEAVING     variants that are ready     every worker serves what it shall             MODELS
                                            lookups are healthy for three periods       RETURNING
    MODELS      variants                    lookups are healthy for three periods       RETURNING
    RETURNING   both that are ready         every worker serves the large model           REUSE
                                            lookups get no answer or cost too much      LEAVING

LEAVING generates in full on the large model at once (K = 0) and moves workers to smaller ones. RETURNING moves them
back, and those with the large model reuse from its first plan on. Both go in waves. While workers are away they look
up in the background, so that the way back is seen. A guard lets reuse save too little for any demand: a guarded fleet
that cannot carry the demand leaves too, and returns once it could carry a margin more. Source: ARGUS 4.6 and Fig. 20b.
We differ: thresholds and times, which it does not give; waves, because a worker here cannot generate with one model
while it loads another (SOURCES.md 6.5); both strategies at once in RETURNING, which it avoids (SOURCES.md 6.11).
"""

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from planner.control.wording.format import number
from planner.observation.reuse import ObservedReuse
from planner.observation.workers import SERVING, WorkerView

REUSE, LEAVING, MODELS, RETURNING = "reuse", "leaving", "models", "returning"
STAGES = (REUSE, LEAVING, MODELS, RETURNING)
AWAY = frozenset({LEAVING, MODELS})  # stages that only good retrievals end
UNDER_WAY = frozenset({LEAVING, RETURNING})  # requests are served by the variants that are ready
MIN_LOOKUPS = (
    20  # to leave for: of fewer, such as the first ones, a few cut ones say little. A breaker looks back on 20
)
ROUNDING = 1e-9  # of a share that was divided by the lookups
OUTAGE_SHARE = 0.5  # share of the workers whose breaker is open, from which on all lookups are taken to fail


class Retrieval(NamedTuple):
    """The cost of looking up a past image, and the time that it saves."""

    costs_ms: float | None  # typical time of one; infinity: no answer; None: none was tried
    saves_ms: float  # run time that one is expected to save, misses included, mean over the reuse levels
    unanswered: float = 0.0  # share of those tried that failed or were cut by their deadline
    lookups: int = MIN_LOOKUPS  # that these figures rest on
    carries: bool = True  # whether a fleet that reuses generates as much as is asked for


class Rule(NamedTuple):
    """The thresholds of the switch. Costs are shares of the time that a retrieval is expected to save."""

    too_much: float = 0.5  # above: leave
    healthy: float = 0.25  # at most this: come back; between the two nothing changes
    unanswered: float = 0.25  # share of lookups; above: leave. A breaker opens at as many
    answered: float = 0.05  # share that may yet get no answer: come back
    few: int = 10  # lookups, of which one may get no answer by chance: the last five probes of two workers
    leave_after_ms: int = 0
    return_after_ms: int = 15_000  # three periods of the planner. Ours, against flapping
    return_plans: int = 3  # that must have seen good lookups, one after the other: planning may be oftener than that


class State(NamedTuple):
    """The state of the switch; `since_ms`: from when on retrievals have spoken against the stage; -1: they do not."""

    stage: str = REUSE
    since_ms: int = -1
    plans: int = 0  # in a row that saw good ones while away


def retrieval_of(seen: ObservedReuse | None, saves_ms: float) -> Retrieval:
    """Return the cost of lookups as the planner sees it; `saves_ms`: what one is expected to save."""
    if seen is None:
        return Retrieval(None, saves_ms)
    if seen.failing >= OUTAGE_SHARE:
        return Retrieval(math.inf, saves_ms, 1.0)
    return Retrieval(seen.p50_ms if seen.lookups else None, saves_ms, seen.unanswered, seen.lookups)


def is_answered(retrieval: Retrieval, rule: Rule) -> bool:
    """Whether stores answer."""
    costs_ms = retrieval.costs_ms
    return costs_ms is not None and math.isfinite(costs_ms) and retrieval.unanswered <= rule.unanswered


def describe(retrieval: Retrieval) -> str:
    """Return in words what speaks for or against looking up past images."""
    if not retrieval.carries:
        return "reuse would save too little for the demand"
    if retrieval.costs_ms is None or math.isnan(retrieval.costs_ms):
        return "no past image was looked up"
    if math.isinf(retrieval.costs_ms):
        return "lookups of past images get no answer"
    costs, saves = number(retrieval.costs_ms), number(retrieval.saves_ms)
    return f"a lookup costs {costs} ms, is expected to save {saves} ms, and {retrieval.unanswered:.0%} get no answer"


def recalled(memory: Mapping[str, Any]) -> State:
    """The state in a plan's memory; the first one where there is none or it is not ours."""
    stage, since_ms, plans = memory.get("stage"), memory.get("since_ms"), memory.get("plans", 0)
    if stage not in STAGES or not isinstance(since_ms, int) or not isinstance(plans, int):
        return State()
    return State(str(stage), since_ms, plans)


def remembered(state: State) -> dict[str, Any]:
    """The state as JSON values."""
    return state._asdict()


def is_under_way(memory: Mapping[str, Any]) -> bool:
    """Whether a plan's memory is that of a fleet on its way between the strategies."""
    return recalled(memory).stage in UNDER_WAY


def step(state: State, retrieval: Retrieval, now_ms: int, rule: Rule) -> State:
    """The next state as retrievals speak for or against the stage. A clock that jumps back starts their time anew."""
    since_ms = _against_since(state, retrieval, now_ms, rule)
    if since_ms < 0:
        return State(state.stage)
    if state.stage not in AWAY:
        return State(LEAVING) if now_ms - since_ms >= rule.leave_after_ms else State(state.stage, since_ms)
    plans = (state.plans if state.since_ms == since_ms else 0) + (retrieval.costs_ms is not None)
    is_over = now_ms - since_ms >= rule.return_after_ms and plans >= rule.return_plans
    return State(RETURNING) if is_over else State(state.stage, since_ms, plans)


def after_switch(state: State, target: Mapping[str, str], workers: Sequence[WorkerView]) -> State:
    """Return the next state once every worker serves its `target` of the stage, else the state unchanged."""
    is_there = all(is_serving(w) and target.get(w.worker_id, w.home) == w.home for w in workers)
    following = {LEAVING: MODELS, RETURNING: REUSE}
    return state._replace(stage=following[state.stage]) if is_there and state.stage in following else state


def wave(target: Mapping[str, str], workers: Sequence[WorkerView], variants: Container[str]) -> dict[str, str]:
    """worker_id -> variant: the target for those that are there or may go now, else where they are.

    At most half of the workers, one at least, are on their way or loading at a time; the smallest ids go first. Who
    serves none of `variants`, those there are, goes at once.
    """
    serving = {w.worker_id for w in workers if is_serving(w) and w.home in variants}
    may_go, now = max(1, len(workers) // 2) - (len(workers) - len(serving)), {}
    for worker in sorted(workers, key=lambda w: w.worker_id):
        wanted = target.get(worker.worker_id, worker.home)
        goes = wanted != worker.home and worker.worker_id in serving
        now[worker.worker_id] = worker.home if goes and may_go <= 0 else wanted
        may_go -= goes
    return now


def is_serving(worker: WorkerView) -> bool:
    """Whether it generates with the variant that it is meant to."""
    return worker.state in SERVING and worker.variant == worker.home != ""


def ready(allocation: Mapping[str, str], workers: Sequence[WorkerView]) -> dict[str, int]:
    """variant -> workers that generate with it now and stay."""
    there = [w.variant for w in workers if is_serving(w) and allocation.get(w.worker_id) == w.variant]
    return {variant: there.count(variant) for variant in sorted(set(there))}


def _against_since(state: State, retrieval: Retrieval, now_ms: int, rule: Rule) -> int:
    """Return from when on retrievals speak against the stage, without a break; -1: they do not."""
    costs_ms, saves_ms, unanswered, lookups, carries = retrieval
    is_away = state.stage in AWAY
    if not carries:
        is_against = not is_away
    elif costs_ms is None or math.isnan(costs_ms):  # nothing was tried: nothing new is known
        return state.since_ms
    elif not is_away and lookups < MIN_LOOKUPS and not math.isinf(costs_ms):
        return -1
    elif is_away:
        may_fail = max(rule.answered * lookups, 1.0 if lookups >= rule.few else 0.0)
        is_against = costs_ms <= saves_ms * rule.healthy and unanswered * lookups <= may_fail + ROUNDING
    else:
        is_against = costs_ms > saves_ms * rule.too_much or unanswered > rule.unanswered
    if not is_against:
        return -1
    return state.since_ms if 0 <= state.since_ms <= now_ms else now_ms
