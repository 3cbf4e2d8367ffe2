"""A request that ended is counted by how, its time, and what its deadline left."""

import dataclasses

from prometheus_client import REGISTRY

from agents.ledger.partition import count_end
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import step_of
from schemas.messages import Outcome, Status
from tests.builders import NOW_MS, a_job, a_request, an_image, an_outcome


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"pochade_{name}", labels) or 0.0


def count(outcome: Outcome) -> None:
    count_end(outcome, result_of(outcome))


def test_a_late_image_counts_below_zero_and_one_in_time_above() -> None:
    below, within = [counted("deadline_slack_seconds_bucket", tier="interactive", le=le) for le in ("0.0", "1.0")]
    for deadline_ms in (NOW_MS + 500, NOW_MS + 1500):  # it ends after 1000
        request = a_request(tier="interactive", deadline_ms=deadline_ms)
        count(an_outcome(status=Status.COMPLETED, request=request, ended_ms=NOW_MS + 1000))
    assert counted("deadline_slack_seconds_bucket", tier="interactive", le="0.0") == below + 1
    assert counted("deadline_slack_seconds_bucket", tier="interactive", le="1.0") == within + 2


def test_the_time_of_a_request_counts_by_status_and_tier() -> None:
    labels = {"status": "EXPIRED", "tier": "batch"}
    before, total = counted("request_seconds_count", **labels), counted("request_seconds_sum", **labels)
    count(an_outcome(status=Status.EXPIRED, request=a_request(tier="batch"), ended_ms=NOW_MS + 2000))
    assert counted("request_seconds_count", **labels) == before + 1
    assert counted("request_seconds_sum", **labels) == total + 2


def test_a_tier_that_nobody_knows_makes_no_label_of_its_own() -> None:
    labels = {"status": "REJECTED", "tier": "unknown"}
    before = counted("request_seconds_count", **labels)
    count(an_outcome(status=Status.REJECTED, request=a_request(tier="x" * 500)))
    assert counted("request_seconds_count", **labels) == before + 1


def test_what_was_done_otherwise_counts_by_option_and_no_text_makes_a_label_of_its_own() -> None:
    names = ("prompt", "image", "other")
    before = [counted("overridden_total", option=name) for name in names]
    job = dataclasses.replace(
        a_job(), overridden=("prompt: 130 tokens -> 77", "image: RGBA -> RGB", "image: 9 x 9 px -> 8 x 8 px", "x" * 99)
    )
    stage = step_of(an_image(job), None, None)
    count(an_outcome(status=Status.COMPLETED, path=(stage,)))
    count(an_outcome(status=Status.EXPIRED, path=(stage,)))  # nothing was handed out
    assert [counted("overridden_total", option=name) - n for name, n in zip(names, before, strict=True)] == [1, 2, 1]
