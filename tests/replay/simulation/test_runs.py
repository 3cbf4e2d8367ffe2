"""What a simulated deployment does, end to end."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.policies import POLICIES
from replay.simulation.results.figures import figures_of
from replay.simulation.session import arrivals_of, report_of, simulate
from replay.simulation.setup import Timing
from schemas.messages import Status
from tests.builders import a_catalog, a_discriminator, a_variant
from tests.replay.simulation.runs import a_setup, arrivals, down, ran, timed, up

ONE = {"batch": 1.0}  # a job at a time

BY_ONE = {"batch": 1.0}
NAMES = ["clipper-light", "clipper-heavy", "random-split", "diffserve-static"]


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("rate_rps", [5.0, 60.0])
def test_every_request_ends_once(policy: str, rate_rps: float) -> None:
    tally = ran(a_setup(policy=policy), arrivals(rate_rps, 600)).tally
    assert tally.ends.total() == tally.requests == 600
    assert tally.open == 0
    assert tally.levels.total() == tally.ends[Status.COMPLETED] == tally.latencies.counts.total()


def test_the_same_seed_gives_the_same_figures_and_another_others() -> None:
    trace = timed(arrivals(30, 500))
    reported = [
        [figures_of(run) for run in simulate(a_setup(policy="diffserve-static", seed=seed), trace, 2, lambda _n: None)]
        for seed in (1, 1, 7)
    ]
    assert reported[0] == reported[1] != reported[2]
    assert reported[0][0] != reported[0][1]


def test_what_a_plan_does_not_let_in_is_shed_at_the_door() -> None:
    setup = a_setup(policy="clipper-heavy", parameters=ONE, sheds=True)
    tally = ran(setup, arrivals(60, 1800)).tally  # 4 workers generate 20 a second
    assert tally.ends[Status.REJECTED] == pytest.approx(1200, rel=0.1)
    assert tally.ends[Status.EXPIRED] < 120


def test_overload_is_dropped_at_the_slo_and_without_dropping_it_is_late() -> None:
    trace = arrivals(60, 1200)  # clipper-heavy on 4 workers generates 20 a second
    dropping = ran(a_setup(policy="clipper-heavy", parameters=ONE), trace)
    waiting = ran(a_setup(policy="clipper-heavy", parameters=ONE, drops=False), trace)
    assert dropping.tally.ends[Status.EXPIRED] == pytest.approx(800, rel=0.1)
    assert dropping.tally.late == 0
    assert waiting.tally.ends[Status.COMPLETED] == 1200
    assert waiting.tally.late > 1000
    assert waiting.tally.violations == waiting.tally.late


def test_beyond_the_backlog_that_is_admitted_requests_are_shed() -> None:
    timing = Timing(most_backlog_ms=2000)
    run = ran(a_setup(policy="clipper-heavy", parameters=ONE, drops=False, timing=timing), arrivals(60, 1200))
    assert run.tally.ends[Status.REJECTED] > 500
    worst_ms = run.tally.latencies.quantile(1.0)
    assert worst_ms is not None
    assert worst_ms < 2000 + 2 * 200 + 100


def test_nobody_is_refused_for_the_backlog_unless_the_timing_has_a_limit() -> None:
    """The papers' systems admit everything, and drop what is late."""
    run = ran(a_setup(policy="clipper-heavy", parameters=ONE, drops=False), arrivals(60, 1200))
    assert run.tally.ends[Status.REJECTED] == 0
    assert run.tally.ends[Status.COMPLETED] == 1200


def test_a_share_f_of_t_is_generated_again_and_over_the_draft_it_costs_less() -> None:
    parameters = {"threshold": 0.4}
    blank = ran(a_setup(policy="diffserve-static", parameters=parameters, drops=False), arrivals(8, 4000))
    parameters = parameters | {"paint_over_step": 15.0}  # of 25
    over = ran(a_setup(policy="diffserve-static", parameters=parameters, drops=False), arrivals(8, 4000))
    assert blank.tally.escalated / 4000 == pytest.approx(0.4, abs=0.02)  # f(t) = t
    assert over.tally.escalated == blank.tally.escalated
    saved_ms = blank.busy_ms - over.busy_ms
    assert saved_ms == pytest.approx(blank.tally.escalated * 200 * 15 / 25)


def test_latency_of_a_kept_draft_is_generation_and_judging() -> None:
    catalog = a_catalog(discriminators={"look": a_discriminator(latency_ms=7.0)})
    setup = a_setup(catalog=catalog, policy="diffserve-static", parameters={"threshold": 0.0})
    latency_ms = ran(setup, np.array([0.0])).tally.latencies.mean()
    assert latency_ms == 20 + 7


def test_a_draft_is_kept_where_the_better_image_would_be_late() -> None:
    setup = a_setup(policy="diffserve-static", parameters={"threshold": 1.0}, slo_ms=100.0)
    tally = ran(setup, arrivals(5, 200)).tally
    assert tally.levels == {"light": 200}
    assert tally.escalated == tally.violations == 0


def test_a_worker_that_dies_loses_its_jobs_to_others_and_they_are_counted() -> None:
    setup = a_setup(policy="clipper-heavy", workers=2, drops=False, outages=(down(10.02, "w-0"),))
    run = ran(setup, arrivals(5, 200, seed=2))
    assert run.tally.ends[Status.COMPLETED] == 200
    assert run.tally.retried >= 1
    assert run.tally.late > 0  # what it had in hand waited until its session was over
    assert run.up_ms == pytest.approx(run.ended_ms + 10_020)


def test_after_its_silence_nothing_is_sent_to_a_dead_worker_and_the_next_plan_is_without_it() -> None:
    setup = a_setup(policy="clipper-light", parameters=ONE, workers=2, outages=(down(5, "w-1"),))
    run = ran(setup, arrivals(10, 300))
    assert len(run.plans) == 2
    late = run.tally.violations / 10  # seconds of arrivals; half of them went to the dead one until it was missed
    assert late <= setup.timing.silent_ms / 1000 + 0.2


def test_a_policy_that_fails_as_a_worker_dies_leaves_the_plan_to_the_others_for_the_reason_told_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = POLICIES["clipper-light"]

    def fails_later(seen: Observation, *others: Any) -> PlanProposal:
        if seen.now_ms > 5000:
            raise ZeroDivisionError("in the solver")
        return policy(seen, *others)

    monkeypatch.setitem(POLICIES, "clipper-light", fails_later)
    setup = a_setup(policy="clipper-light", parameters=ONE, workers=2, outages=(down(5, "w-1"),))
    run = ran(setup, arrivals(10, 200))
    last = run.plans[-1]
    assert (len(run.plans), last.allocation) == (2, {"w-0": "light"})
    why = "policy clipper-light made no plan: ZeroDivisionError: in the solver"
    assert f"plan {last.version - 1} stays, without w-1, which left: {why}" in last.reason
    assert run.failures > 1


def test_a_worker_that_comes_back_serves_again() -> None:
    trace = arrivals(8, 400)  # one worker generates 5 a second
    gone = ran(a_setup(policy="clipper-heavy", parameters=ONE, workers=2, outages=(down(10, "w-1"),)), trace)
    back = ran(
        a_setup(policy="clipper-heavy", parameters=ONE, workers=2, outages=(down(10, "w-1"), up(20, "w-1"))), trace
    )
    assert len(gone.plans) == 2
    assert len(back.plans) == 3
    assert back.tally.violations < gone.tally.violations - 40


def test_a_job_that_outlives_its_owners_too_often_fails() -> None:
    outages = (down(1.05, "w-0"), up(8, "w-0"), down(9.05, "w-0"), up(16, "w-0"))
    setup = a_setup(policy="clipper-heavy", workers=1, drops=False, outages=outages)
    catalog = a_catalog(variants={"heavy": a_variant(name="heavy", latency_ms={1: 5000.0})}, cascades=(), class_cuts={})
    run = ran(dataclasses.replace(setup, catalog=catalog), np.array([1000.0]))
    assert run.tally.ends == {Status.FAILED: 1}


def test_nobody_to_serve_leaves_requests_open_and_they_count_as_violations() -> None:
    setup = a_setup(policy="clipper-light", workers=1, drops=False, outages=(down(0.5, "w-0"),))
    tally = ran(setup, arrivals(10, 50)).tally
    assert tally.open == 50 - tally.ends.total() > 30
    assert tally.violations >= tally.open


def test_cost_counts_the_workers_that_were_alive() -> None:
    figures = figures_of(ran(a_setup(policy="clipper-light", workers=3), np.array([0.0, 10_000.0])))
    assert figures["cost_worker_s"] == pytest.approx(3 * 11, abs=4)


def test_each_seed_has_arrivals_of_its_own_only_where_they_are_redrawn() -> None:
    trace, setup = timed(arrivals(8.0, 600)), a_setup()
    drawn = simulate(dataclasses.replace(setup, redraws=True), trace, 2, lambda _new: None)
    recorded = simulate(setup, trace, 2, lambda _new: None)
    assert len({run.tally.requests for run in recorded}) == 1
    assert recorded[0].timeline.arrived.tolist() == recorded[1].timeline.arrived.tolist()
    assert drawn[0].timeline.arrived.tolist() != drawn[1].timeline.arrived.tolist()
    alone = simulate(dataclasses.replace(setup, redraws=True, seed=setup.seed + 1), trace, 1, lambda _new: None)
    assert figures_of(alone[0]) == figures_of(drawn[1])


def test_redraws_that_end_at_different_moments_make_one_report() -> None:
    """Ends on either side of where a timeline's intervals become wider, too."""
    trace = timed(np.concatenate([arrivals(2.0, 60), [60_500.0]]))
    setup = a_setup(policy="clipper-light", redraws=True)
    runs = simulate(setup, trace, 4, lambda _new: None)
    assert len({run.timeline.count for run in runs}) == 1
    assert len({float(arrivals_of(setup, trace, setup.seed + n).arrival_ms[-1]) for n in range(4)}) > 1
    series = report_of(trace, {"clipper-light": runs})["policies"]["clipper-light"]["series"]
    assert {len(values["mean"]) for values in series.values()} == {runs[0].timeline.count}


def test_redraws_of_a_trace_without_duration_make_one_report() -> None:
    trace, setup = timed(np.zeros(3)), a_setup(policy="clipper-light", redraws=True)
    assert max(arrivals_of(setup, trace, seed).arrival_ms[-1] for seed in range(9)) <= 1
    runs = simulate(setup, trace, 4, lambda _new: None)
    assert report_of(trace, {"clipper-light": runs})["policies"]["clipper-light"]["requests"] > 0
