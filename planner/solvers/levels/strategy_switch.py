"""Decides when a fleet leaves approximate caching for smaller models, and comes back: stages, one step per plan.

    stage       requests go to              it ends when                                  and then comes
    REUSE       reuse levels                looking images up costs too much            LEAVING
    LEAVING     variants that are ready     every worker serves what it shall             MODELS
                                            looking images up is healthy for a while    RETURNING
    MODELS      variants                    looking images up is healthy for a while    RETURNING
    RETURNING   variants that are ready     every worker serves the large model           REUSE
                                            looking images up costs too much            LEAVING

The strategies are never mixed. LEAVING generates in full on the large model at once (K = 0) and moves workers to
smaller ones, RETURNING moves them back, both in waves. Source: ARGUS 4.6 and Fig. 20b. We differ: thresholds and times,
which it does not give; waves, because a worker here cannot generate with one model while it loads another (SOURCES.md
6.5).
"""

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from planner.observation.workers import SERVING, WorkerView

REUSE, LEAVING, MODELS, RETURNING = "reuse", "leaving", "models", "returning"
STAGES = (REUSE, LEAVING, MODELS, RETURNING)
AWAY = frozenset({LEAVING, MODELS})  # stages that only good retrievals end


class Retrieval(NamedTuple):
    """The cost of looking up a past image, and the time that it saves."""

    costs_ms: float | None  # typical time of one; infinity: no answer; None: none was tried
    saves_ms: float  # run time that starting from one saves, mean over the reuse levels


class Rule(NamedTuple):
    """The thresholds of the switch. Costs are shares of the time that a retrieval saves."""

    too_much: float = 0.5  # above: leave
    healthy: float = 0.25  # at most this: come back; between the two nothing changes
    leave_after_ms: int = 0
    return_after_ms: int = 15_000  # three periods of the planner. Ours, against flapping


class State(NamedTuple):
    """The state of the switch; `since_ms`: from when on retrievals have spoken against the stage; -1: they do not."""

    stage: str = REUSE
    since_ms: int = -1


def recalled(memory: Mapping[str, Any]) -> State:
    """The state in a plan's memory; the first one where there is none or it is not ours."""
    stage, since_ms = memory.get("stage"), memory.get("since_ms")
    return State(str(stage), since_ms) if stage in STAGES and isinstance(since_ms, int) else State()


def remembered(state: State) -> dict[str, Any]:
    """The state as JSON values."""
    return {"stage": state.stage, "since_ms": state.since_ms}


def step(state: State, retrieval: Retrieval, now_ms: int, rule: Rule) -> State:
    """The next state as retrievals speak for or against the stage. A clock that jumps back starts their time anew."""
    since_ms = _against_since(state, retrieval, now_ms, rule)
    is_away = state.stage in AWAY
    patience_ms = rule.return_after_ms if is_away else rule.leave_after_ms
    if since_ms < 0 or now_ms - since_ms < patience_ms:
        return State(state.stage, since_ms)
    return State(RETURNING if is_away else LEAVING)


def after_switch(state: State, target: Mapping[str, str], workers: Sequence[WorkerView]) -> State:
    """Return the next state once every worker serves its `target` of the stage, else the state unchanged."""
    is_there = all(is_serving(w) and target.get(w.worker_id, w.home) == w.home for w in workers)
    following = {LEAVING: MODELS, RETURNING: REUSE}
    return State(following[state.stage], state.since_ms) if is_there and state.stage in following else state


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
    costs_ms, saves_ms = retrieval
    if costs_ms is None or math.isnan(costs_ms):  # nothing was tried: nothing new is known
        return state.since_ms
    limit_ms = saves_ms * (rule.healthy if state.stage in AWAY else rule.too_much)
    is_against = costs_ms <= limit_ms if state.stage in AWAY else costs_ms > limit_ms
    if not is_against:
        return -1
    return state.since_ms if 0 <= state.since_ms <= now_ms else now_ms
