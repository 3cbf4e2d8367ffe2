"""Interactive requests come first: in what is shed, in what may wait, and before any flood of batch requests."""

import importlib.resources
import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from replay.simulation.results.figures import Figures, figures_of, over_seeds
from replay.simulation.run import Ran
from replay.simulation.session import report_of, simulate
from replay.simulation.setup import Timing
from replay.traces.trace import Overrides, Trace
from schemas.messages import Status
from tests.replay.simulation.runs import a_setup, arrivals, asking

HEAVY: dict[str, Any] = {"policy": "clipper-heavy", "parameters": {"batch": 1.0}}  # 5 a second and worker
HEAVY_MS = 200.0
TIERS = [Overrides(tier=tier) for tier in ("interactive", "standard", "batch")]
HOUR_MS = 3_600_000.0


def run_of(trace: Trace, **changes: Any) -> Ran:
    return simulate(a_setup(**(HEAVY | changes)), trace, 1, lambda _requests: None)[0]


def calm(rate_rps: float) -> Trace:
    """Half a minute of interactive requests."""
    return asking(arrivals(rate_rps, int(30 * rate_rps)), TIERS[:1])


def flooded(rate_rps: float) -> Trace:
    """The same, and ten times as many batch requests, which have an hour."""
    own, flood = arrivals(rate_rps, int(30 * rate_rps)), arrivals(10 * rate_rps, int(300 * rate_rps), seed=2)
    at_ms = np.concatenate([own, flood])
    order = np.argsort(at_ms, kind="stable")
    trace = asking(at_ms[order], [TIERS[0], TIERS[2]])
    is_flood = order >= len(own)
    trace.wish[:], trace.slack_ms[:] = is_flood, np.where(is_flood, HOUR_MS, np.nan)
    return trace


def test_where_workers_pull_a_full_standard_queue_makes_interactive_requests_wait_for_one_call_only() -> None:
    """5 % interactive beside 115 % of what 8 workers generate; all have 2 s. Source: OctoAI, pull-based routing."""
    own, others = arrivals(2, 40), arrivals(46, 920, seed=2)
    at_ms = np.concatenate([own, others])
    order = np.argsort(at_ms, kind="stable")
    trace = asking(at_ms[order], TIERS[:2])
    trace.wish[:] = order >= len(own)
    run = run_of(trace, policy="octoai", parameters={}, workers=8, slo_ms=2000.0)
    interactive, standard = run.tally.tiers["interactive"], run.tally.tiers["standard"]
    assert interactive.ends == {Status.COMPLETED: 40}
    latest_ms = interactive.latencies.quantile(0.99)
    assert latest_ms is not None
    assert latest_ms <= 1.5 * HEAVY_MS
    assert standard.ends[Status.EXPIRED] > 0.03 * len(others)


def test_where_a_plan_holds_a_full_standard_queue_lets_interactive_requests_share_the_next_short_call() -> None:
    """5 % interactive beside more than 8 workers generate; calls of four take 400 ms, of two 240."""
    own, others = arrivals(4.6, 92, seed=101), arrivals(92, 1840, seed=102)
    at_ms = np.concatenate([own, others])
    order = np.argsort(at_ms, kind="stable")
    trace = asking(at_ms[order], TIERS[:2])
    trace.wish[:] = order >= len(own)
    run = run_of(trace, policy="joint", parameters={}, workers=8, slo_ms=2000.0, drops=False, seed=1)
    medians = [run.tally.tiers[tier].latencies.quantile(0.5) or 0 for tier in ("interactive", "standard")]
    assert medians[0] < 2 * HEAVY_MS < 4 * HEAVY_MS < medians[1]


def p95_ms(run: Ran) -> float:
    found = run.tally.tiers["interactive"].latencies.quantile(0.95)
    assert found is not None
    return found


def test_interactive_requests_are_kept_whole_while_others_are_shed() -> None:
    run = run_of(asking(arrivals(60, 3600), TIERS), sheds=True, workers=6)  # 30 a second can be generated
    interactive, standard, batch = (run.tally.tiers[wish.tier] for wish in TIERS)
    assert interactive.ends[Status.REJECTED] == 0
    assert interactive.violations < 0.02 * interactive.requests
    assert 0.2 < standard.ends[Status.REJECTED] / standard.requests < 0.9
    assert batch.ends[Status.COMPLETED] < 0.2 * batch.requests


def test_batch_requests_of_a_plan_that_sheds_them_are_turned_away_and_no_others() -> None:
    """What passed the batch gate while there was room is shed when there is none; the tiers above it are not."""
    tally = run_of(asking(arrivals(38, 2400), TIERS), sheds=True, workers=6).tally
    assert tally.tiers["batch"].ends[Status.REJECTED] > 50
    assert tally.tiers["interactive"].ends[Status.REJECTED] == 0
    assert tally.tiers["standard"].ends[Status.REJECTED] == 0


@pytest.mark.parametrize("rate_rps", [4.0, 24.0])  # of the 40 that can be generated
def test_a_tenfold_flood_of_batch_requests_costs_interactive_ones_half_of_their_time_at_most(rate_rps: float) -> None:
    before, flood = (run_of(trace, workers=8) for trace in (calm(rate_rps), flooded(rate_rps)))
    assert flood.tally.tiers["batch"].requests == 10 * flood.tally.tiers["interactive"].requests
    assert p95_ms(flood) <= min(1.5 * p95_ms(before), p95_ms(before) + HEAVY_MS)
    assert flood.tally.tiers["interactive"].violations == 0


def test_batch_requests_use_what_is_left_and_are_all_answered_in_the_end() -> None:
    run = run_of(flooded(4), workers=8)
    assert run.tally.tiers["batch"].ends == {Status.COMPLETED: 1200}
    assert run.busy_ms / run.up_ms > 0.6


def test_a_batch_request_whose_deadline_passes_at_the_batch_gate_has_expired() -> None:
    trace = flooded(4)
    trace.slack_ms[:] = 5000.0
    tally = run_of(trace, workers=2).tally
    assert tally.open == 0
    assert tally.tiers["batch"].ends[Status.EXPIRED] > 500


def test_only_interactive_requests_use_the_headroom_of_the_backlog() -> None:
    timing = Timing(most_backlog_ms=1000, interactive_backlog_ms=3000)
    tally = run_of(asking(arrivals(60, 1200), TIERS[:2]), drops=False, timing=timing).tally
    waited = {tier: each.latencies.quantile(1.0) or 0 for tier, each in tally.tiers.items()}
    assert waited["standard"] < 1000 + 2 * HEAVY_MS + 100 < waited["interactive"]


def test_figures_are_reported_by_tier_where_there_is_more_than_one() -> None:
    runs = [figures_of(run_of(asking(arrivals(20, 300), TIERS[:tiers]))) for tiers in (1, 2)]
    assert "by_tier" not in runs[0]
    reported: Figures = runs[1]["by_tier"]
    assert list(reported) == ["interactive", "standard"]
    assert reported["interactive"]["requests"] + reported["standard"]["requests"] == 300
    assert reported["interactive"].keys() == {
        "requests", "completed", "violations", "violation_rate", "late", "shed", "unhonoured", "expired", "latency_s"
    }  # fmt: skip
    assert over_seeds([runs[1], runs[1]])["by_tier"] == reported
    schema = json.loads(importlib.resources.files("schemas").joinpath("report.schema.json").read_text("utf-8"))
    for tier in reported.values():
        jsonschema.Draft202012Validator({"$defs": schema["$defs"], "$ref": "#/$defs/part"}).validate(tier)


@pytest.mark.parametrize(
    ("key", "name", "rare"), [("by_tier", "batch", TIERS[2]), ("by_tenant", "ann", Overrides(tenant="ann"))]
)
def test_redrawn_seeds_count_each_tier_and_tenant_of_the_recorded_trace(key: str, name: str, rare: Overrides) -> None:
    trace = asking(arrivals(5, 60), [Overrides()] * 59 + [rare])
    runs = simulate(a_setup(policy="clipper-light", redraws=True), trace, 6, lambda _requests: None)
    parts = [figures_of(run)[key] for run in runs]
    assert {part[name]["requests"] for part in parts} >= {0, 1}
    reported = report_of(trace, {"clipper-light": runs})["policies"]["clipper-light"]
    assert sum(part["requests"] for part in reported[key].values()) == pytest.approx(reported["requests"])
