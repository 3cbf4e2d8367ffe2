"""A policy in its own thread with its limit, and what is counted and logged of decisions."""

import threading
import time

import pytest

from agents.planner.propose import DecisionReport, PolicyThread
from planner.control.planning import PlanDecision, PlanRequest, PolicyTimeout
from planner.control.proposal import PlanProposal
from schemas.errors import PochadeError
from schemas.messages import Expected, Route, ScalePlan
from streams import metrics
from streams.parsing.scale_rules import scale_rules_of
from streams.settings import Kafka, load
from tests.builders import NOW_MS, a_worker
from tests.patience import PATIENCE_S

DRAFT = PlanProposal(routes=(Route(levels={"light": 1.0}),), allocation={}, batch={}, reason="test")


def counted(kind: str) -> float:
    return metrics.FALLBACKS.labels("planner", kind)._value.get()


def test_what_a_policy_returns_or_raises_is_passed_on() -> None:
    def raises() -> PlanProposal:
        raise ZeroDivisionError("in the solver")

    policies = PolicyThread(PATIENCE_S)
    assert policies.run("p", lambda: DRAFT) is DRAFT
    with pytest.raises(ZeroDivisionError):
        policies.run("p", raises)


def test_a_policy_that_does_not_end_is_left_alone_and_no_second_one_is_begun() -> None:
    done, policies, threads = threading.Event(), PolicyThread(0.05), threading.active_count()

    def waits() -> PlanProposal:
        done.wait(PATIENCE_S)
        return DRAFT

    begun = time.monotonic()
    try:
        for _ in range(3):
            with pytest.raises(PolicyTimeout):
                policies.run("p", waits)
        assert time.monotonic() - begun < PATIENCE_S
        assert threading.active_count() == threads + 1
    finally:
        done.set()


def test_what_a_decision_did_without_is_counted_each_time() -> None:
    before = counted("policy-late"), counted("kept-plan")
    for _ in range(2):
        DecisionReport().on_decision(PlanDecision(fallbacks=("policy-late", "kept-plan")))
    assert (counted("policy-late"), counted("kept-plan")) == (before[0] + 2, before[1] + 2)


def test_a_failure_is_logged_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    report, error = DecisionReport(), ZeroDivisionError("in the solver")
    for reason in ("p: in the solver", "p: in the solver", "q: in the solver"):
        report.on_decision(PlanDecision(reason=reason, error=error))
    assert len(caplog.records) == 2
    report.on_decision(PlanDecision())
    report.on_decision(PlanDecision(reason="q: in the solver", error=error, carry_over_error=KeyError("old")))
    assert len(caplog.records) == 4


def test_a_policy_that_is_late_is_one_warning_with_what_to_do_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report = DecisionReport()
    for reason in ("p made no plan within 3 s", "p waits for one that runs longer than 3 s"):
        report.on_decision(PlanDecision(reason=reason, error=PolicyTimeout(reason)))
    (line,) = caplog.records
    assert (line.levelname, line.exc_info) == ("WARNING", None)
    assert "raise planner.solver_timeout_s, or give the planner a core" in line.getMessage()


def test_how_many_workers_the_demand_would_take_is_told_also_where_the_plan_stays() -> None:
    expected = Expected(demand_rps=9.0, utilization=1.5, heavy_share=0.0)
    request = PlanRequest("the period is over", NOW_MS, (a_worker("w-1"), a_worker("w-2")))
    DecisionReport().on_expected(request, PlanDecision(expected=expected))
    DecisionReport().on_expected(request, PlanDecision(reason="no policy"))
    assert (metrics.LIVE_WORKERS._value.get(), metrics.DESIRED_WORKERS._value.get()) == (2, 3)


def test_the_workers_that_each_variant_should_have_are_shown_until_another_planner_leads() -> None:
    def shown() -> tuple[float, ...]:
        wanted = [metrics.WORKERS_WANTED.labels(variant)._value.get() for variant in ("heavy", "light")]
        return *wanted, metrics.WORKERS_WARM._value.get(), metrics.DESIRED_WORKERS._value.get()

    request, report = PlanRequest("the period is over", NOW_MS, (a_worker("w-1"),)), DecisionReport()
    scale = ScalePlan(targets={"heavy": 4, "light": 1}, wanted={"heavy": 9, "light": 1}, warm=2)
    report.on_expected(request, PlanDecision(scale=scale))
    assert shown() == (4, 1, 2, 12), "more is wanted than the limits let in: the fleet is saturated"
    report.on_expected(request, PlanDecision(scale=ScalePlan(targets={"heavy": 2}, wanted={"heavy": 2})))
    assert shown()[:3] == (2, 0, 0)
    report.on_leadership_lost()
    assert shown()[:3] == (0, 0, 0)


def test_more_workers_than_a_variants_topic_has_partitions_are_refused_with_what_to_do() -> None:
    settings = load({"planner": {"scale": {"max_workers": 5, "period_s": 30, "minimum": {"heavy": 2}}}})
    with pytest.raises(PochadeError, match=r"at most kafka.jobs_partitions, 4: got 5; lower it, or create"):
        scale_rules_of(settings)
    rules = scale_rules_of(settings.model_copy(update={"kafka": Kafka(jobs_partitions=5)}))
    assert (rules.max_workers, rules.period_ms, rules.minimum) == (5, 30_000, {"heavy": 2})
