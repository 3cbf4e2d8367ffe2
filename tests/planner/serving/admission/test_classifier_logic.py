"""The classifier's machine: what becomes of a request before its prompt is judged, in which order."""

from typing import Any

import pytest

from planner.serving.admission.admission import ClassifierLogic, Refusal, Way
from planner.serving.decisions import ENDED, IN_FLIGHT
from schemas.errors import InvalidRequest
from schemas.messages import Outcome, Status
from streams.settings import Requests
from tests.builders import NOW_MS, a_request

LOGIC = ClassifierLogic(Requests(max_prompt_bytes=20), ended={"ended"}, in_flight={"open"})
EMPTY, LATE, BATCH = {"prompt": " "}, {"deadline_ms": NOW_MS - 1}, {"tier": "batch"}


def decided(*, has_waited: bool = False, **changes: Any) -> Any:
    return LOGIC.on_request(a_request(**changes), NOW_MS, has_waited=has_waited)


@pytest.mark.parametrize("changes", [{}, EMPTY, LATE, BATCH, EMPTY | LATE | BATCH])
def test_a_record_under_the_id_of_a_request_that_is_there_is_dropped_whatever_it_holds(changes: dict[str, Any]) -> None:
    assert decided(request_id="ended", **changes) is ENDED
    assert decided(request_id="open", **changes) is IN_FLIGHT
    assert LOGIC.on_fault("open", InvalidRequest("7 is no prompt"), NOW_MS) is IN_FLIGHT


def test_what_can_never_be_served_is_refused_before_its_deadline_and_its_tier_are_looked_at() -> None:
    refusal = decided(**EMPTY, **LATE, **BATCH)
    assert isinstance(refusal, Refusal)
    assert (refusal.outcome.status, refusal.outcome.param, refusal.outcome.by) == (
        Status.REJECTED, "prompt", "classifier"
    )  # fmt: skip
    fault = LOGIC.on_fault("r-1", InvalidRequest("unknown request field", field="sede"), NOW_MS)
    assert isinstance(fault, Refusal)
    assert (fault.outcome.request_id, fault.outcome.request, fault.outcome.param) == ("r-1", None, "sede")


def test_a_refused_prompt_is_cut_to_what_is_allowed() -> None:
    refusal = decided(prompt="x" * 1000)
    assert refusal.outcome.request.prompt == "x" * 20


def test_a_request_past_its_deadline_expires_whatever_its_tier_and_wherever_it_waited() -> None:
    for has_waited in (False, True):
        outcome = decided(**LATE, **BATCH, has_waited=has_waited)
        assert isinstance(outcome, Outcome)
        assert outcome.status is Status.EXPIRED


def test_a_batch_request_waits_on_its_own_topic_once_and_all_others_are_judged() -> None:
    assert decided(**BATCH) is Way.BATCH
    assert decided(**BATCH, has_waited=True) is Way.JUDGE
    assert decided() is decided(has_waited=True) is Way.JUDGE
