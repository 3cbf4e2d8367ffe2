"""The first sentence on a deployment: the worst of its problems, and what to do."""

from typing import Any

import pytest

from planner.observation.state import Deployment, Waiting, in_words, state_of
from planner.observation.workers import ReceivedHeartbeat
from schemas.messages import ScalePlan
from tests.builders import NOW_MS, a_heartbeat, a_plan

SERVING = {"w-1": "light", "w-2": "heavy"}
WAITING = tuple(Waiting(("heavy",), NOW_MS - 180_000 + n) for n in range(40))


def beats(silent_for_ms: int = 0, **variants: Any) -> dict[str, ReceivedHeartbeat]:
    """Heartbeats of workers, by id: a variant, or more fields."""
    found = {}
    for worker_id, said in variants.items():
        fields = said if isinstance(said, dict) else {"variant": said}
        name = worker_id.replace("_", "-")
        found[name] = ReceivedHeartbeat(a_heartbeat(worker_id=name, **fields), NOW_MS - silent_for_ms)
    return found


def said(**changes: Any) -> str:
    """The first sentence on a deployment that serves, with changes."""
    serving: dict[str, Any] = {"plan": a_plan(allocation=SERVING), "heartbeats": beats(w_1="light", w_2="heavy")}
    return in_words(state_of(Deployment(now_ms=NOW_MS, silent_ms=10_000, **(serving | changes))))


def test_a_deployment_that_serves_leaves_nothing_to_do() -> None:
    assert said() == "Serving; nothing to do."
    assert said(waiting=[Waiting((), NOW_MS - 5000)], open=1) == "Serving; nothing to do."


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"plan": None, "open": 3}, "No plan is in force; 3 requests wait; start a planner: `pochade serve planner`."),
        ({"heartbeats": {}, "waiting": WAITING, "open": 40},
         "No worker serves; 40 requests wait, oldest 3 min; start one: `pochade serve worker`."),
        ({"heartbeats": beats(40_000, w_1="light", w_2="heavy"), "open": 1},
         "No worker serves: 2 workers sent no heartbeat for 40 s; 1 request waits; if the broker answers, start one: "
         "`pochade serve worker`."),
        ({"heartbeats": beats(w_1={"state": "loading"})},
         "No worker is ready yet, 1 started; wait until one has loaded its model."),
        ({"plan": a_plan(allocation={"w-1": "light"}), "heartbeats": beats(w_1="light"), "waiting": WAITING},
         "No worker serves heavy; 40 requests wait for it, oldest 3 min; start one: `pochade serve worker`."),
        ({"heartbeats": beats(w_1="light", w_2={"state": "loading"}), "waiting": WAITING, "open": 40},
         "No worker serves heavy; 40 requests wait for it, oldest 3 min; wait until w-2 has loaded it."),
        ({"failed": 12, "ended": 40},
         "Serving, but 12 of the last 40 requests failed; read why under Requests, status FAILED."),
        ({"heartbeats": beats(6_000, w_1="light", w_2="heavy"), "open": 2},
         "No worker may be serving: 2 workers sent no heartbeat for 6 s; 2 requests wait; see whether the "
         "broker answers, then the workers' logs."),
        ({"late": 31, "timed": 100, "failed": 1, "ended": 100},
         "Serving, but 31 of the last 100 requests came too late; start more workers if the load stays: "
         "`pochade serve worker`."),
        ({"late": 31, "timed": 100, "demand_rps": 0.0},
         "Serving, but 31 of the last 100 requests came too late, and none waits now; read why under Requests."),
        ({"heartbeats": beats(w_1="light", w_2={"state": "stopped"})},
         "Serving, but w-2 has stopped, which the plan gives heavy; wait for the next plan, or start another: "
         "`pochade serve worker`."),
        ({"waiting": WAITING, "open": 40},
         "Serving, but 40 requests wait, oldest 3 min; start more workers: `pochade serve worker`."),
        ({"heartbeats": beats(w_1="light", w_2={"variant": "heavy", "slowness": 2.48})},
         "Serving, but heavy on w-2 takes 2.5 times its profiled time; see what else uses its device."),
        ({"heartbeats": beats(w_1="light", w_2={"state": "sick", "detail": "CUDA error"})},
         "Serving, but w-2 reports sick: CUDA error; read its log."),
    ],
    ids=["no plan", "no worker", "all silent", "all load", "a level lacks", "a level loads", "failing", "all overdue",
         "late", "late before", "stopped", "behind", "slow", "sick"],
)  # fmt: skip
def test_the_worst_problem_is_said_first_with_what_to_do(changes: dict[str, Any], sentence: str) -> None:
    assert said(**changes) == sentence


def test_what_needs_no_operator_is_no_problem() -> None:
    batch = [each._replace(is_batch=True) for each in WAITING]
    assert said(waiting=batch, open=40) == "Serving; nothing to do."
    assert said(failed=2, ended=10) == said(failed=3, ended=100) == "Serving; nothing to do."
    assert said(late=2, timed=4) == said(late=9, timed=100) == "Serving; nothing to do."
    assert said(heartbeats=beats(6_000, w_1="light") | beats(w_2="heavy")) == "Serving; nothing to do."
    assert said(heartbeats=beats(w_1={"slowness": 1.4}, w_2="heavy")) == "Serving; nothing to do."
    stopped = beats(60_000, w_3={"state": "stopped"})
    assert said(heartbeats=beats(w_1="light", w_2="heavy") | stopped) == "Serving; nothing to do."
    to_zero = a_plan(allocation={}, scale=ScalePlan(targets={"light": 0, "heavy": 0}))
    assert said(plan=to_zero, heartbeats=stopped) == "Serving; nothing to do."


def test_problems_behind_the_first_are_kept() -> None:
    gone = beats(40_000, w_3="light")
    seen = Deployment(
        now_ms=NOW_MS, silent_ms=10_000, plan=a_plan(allocation=SERVING), waiting=WAITING, open=40, failed=12, ended=40,
        heartbeats=beats(w_1={"variant": "light", "slowness": 9.0}) | gone,
    )  # fmt: skip
    assert [each.what.partition(";")[0] for each in state_of(seen)] == [
        "No worker serves heavy", "Serving, but 12 of the last 40 requests failed",
        "w-3 has sent no heartbeat for 40 s", "light on w-1 takes 9.0 times its profiled time",
    ]  # fmt: skip
