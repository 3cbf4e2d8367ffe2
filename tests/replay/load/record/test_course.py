import dataclasses

import numpy as np

from replay.load.record.course import ran_of
from replay.load.record.history import History
from replay.load.record.request_records import OPEN, request_records
from replay.simulation.results.figures import figures_of
from replay.simulation.run import Ran
from replay.simulation.setup import Setup
from replay.traces.trace import Overrides, Trace
from schemas.messages import Status
from tests.builders import NOW_MS, a_catalog, a_heartbeat, owned
from tests.replay.load.runs import a_history, a_trace, answered, judging_plan, painted_again
from tests.replay.runs import a_result

TRACE = a_trace([0.0, 1000.0, 2000.0, 3000.0])
CREATED = {number: NOW_MS + 1000 * number for number in range(4)}
IDS = ["a", "b", "c", "d"]


def course(history: History, trace: Trace = TRACE) -> Ran:
    setup = Setup(catalog=a_catalog(), policy="test", workers=2, slo_ms=200.0)
    return ran_of(history, request_records(history, IDS), setup, trace)


def test_a_live_run_is_counted_as_a_simulated_one() -> None:
    results = {
        0: answered("a"),
        1: painted_again("b", latency_ms=300),
        2: a_result(request_id="c", status=Status.EXPIRED),
    }
    figures = figures_of(course(a_history(results, CREATED, (judging_plan(),))))
    counted = ("requests", "completed", "violations", "late", "expired", "open", "escalated", "by_level")
    assert [figures[key] for key in counted] == [4, 2, 3, 1, 1, 1, 1, {"heavy": 1, "light": 1}]
    assert figures["heavy_share"] == 0.5
    assert abs(figures["latency_s"]["p99"] - 0.3) < 0.001


def test_a_live_draft_that_had_to_do_counts_as_rejected() -> None:
    late = answered("a", confidence=0.3)
    figures = figures_of(course(a_history({0: late, 1: answered("b")}, CREATED, (judging_plan(),))))
    assert figures["rejected"] == 1


def test_workers_count_from_their_heartbeats() -> None:
    beats = (
        (NOW_MS - 500, a_heartbeat(partitions=(owned(0, remaining_ms=600),))),
        (NOW_MS, a_heartbeat(worker_id="w-2", variant="heavy")),
        (NOW_MS + 1500, a_heartbeat(worker_id="w-2", variant="light")),
        (NOW_MS + 2000, a_heartbeat(worker_id="w-2", state="stopped")),
    )
    ran = course(a_history({3: answered("d", latency_ms=100)}, CREATED, (judging_plan(),), beats))
    assert ran.lives == ((0.0, 3100.0), (0.0, 2000.0))
    assert ran.switches == 1
    assert ran.timeline.queued_ms[0] > 0


def test_what_was_seen_of_a_request_is_kept_with_who_judged_it() -> None:
    seen = request_records(a_history({0: answered("a"), 1: painted_again("b")}, CREATED, (judging_plan(),)), IDS)
    assert seen[0].scores == [["light", "look", 0.82]]
    assert (seen[1].level, seen[1].scores) == ("heavy", [["light", "look", 0.31]])
    assert [each.status for each in seen[2:]] == [OPEN, OPEN]


def asking(*wishes: Overrides) -> Trace:
    """The trace whose requests have these wishes in turn."""
    rows = np.arange(4, dtype=np.int32) % len(wishes)
    return dataclasses.replace(TRACE, wishes=wishes, wish=rows, slack_ms=np.array([np.nan, np.nan, 500.0, np.nan]))


def test_tiers_are_distinguished_in_the_keys_of_a_simulated_run_and_own_deadlines_count() -> None:
    results = {
        0: answered("a", latency_ms=40),
        1: answered("b", latency_ms=300),
        2: painted_again("c", latency_ms=300),  # it has 500 ms
        3: a_result(request_id="d", status=Status.REJECTED),
    }
    history = a_history(results, CREATED, (judging_plan(),))
    reported = figures_of(course(history, asking(Overrides(tier="interactive"), Overrides(tier="batch"))))
    assert list(reported["by_tier"]) == ["interactive", "batch"]
    assert reported["by_tier"]["interactive"]["requests"] == reported["by_tier"]["interactive"]["completed"] == 2
    assert reported["by_tier"]["interactive"]["late"] == 0
    batch = reported["by_tier"]["batch"]
    assert (batch["completed"], batch["late"], batch["shed"], batch["violations"]) == (1, 1, 1, 2)
    assert "by_tier" not in figures_of(course(history))


def test_what_a_quota_refused_is_reported_by_tenant() -> None:
    refused = dataclasses.replace(a_result(request_id="b", status=Status.REJECTED), code="quota")
    shed = dataclasses.replace(a_result(request_id="d", status=Status.REJECTED), code="shed")
    history = a_history({0: answered("a"), 1: refused, 3: shed}, CREATED, (judging_plan(),))
    reported = figures_of(course(history, asking(Overrides(tenant="acme"), Overrides(tenant="other"))))["by_tenant"]
    assert {name: (row["shed"], row["over_quota"]) for name, row in reported.items()} == {
        "acme": (0, 0),
        "other": (2, 1),
    }
