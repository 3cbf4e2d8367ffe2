"""Replicate's headers and inputs in the pipeline's words."""

from typing import Any

import pytest

from agents.gateway.jobs import Job
from agents.gateway.predictions import cancel_after_ms, moment, parse, prediction, wait_s
from agents.gateway.refusals import Refusal
from schemas.messages import GenerateOptions, Status
from streams.settings import Requests
from tests.agents.gateway.deployment import ended
from tests.builders import NOW_MS, a_request


@pytest.mark.parametrize(
    ("header", "ms"),
    [("", None), ("90s", 90_000), ("90", 90_000), ("1m", 60_000), ("1h30m", 5_400_000), ("2.5s", 2_500)],
)
def test_the_time_to_cancel_after(header: str, ms: int | None) -> None:
    assert cancel_after_ms(header) == ms


@pytest.mark.parametrize("header", ["0s", "soon", "1d", "-5m", "h", "1m1h", "9" * 50])
def test_a_time_to_cancel_after_that_is_none(header: str) -> None:
    with pytest.raises(Refusal, match="Cancel-After must be a time such as"):
        cancel_after_ms(header)


@pytest.mark.parametrize(
    ("header", "seconds"), [("", 0), ("respond-async", 0), ("wait", 60), ("wait=1", 1), ("wait = 60", 60)]
)
def test_the_time_to_wait(header: str, seconds: float) -> None:
    assert wait_s(header) == seconds


@pytest.mark.parametrize(
    "header", ["wait=0", "wait=61", "wait=", "wait=x", "return=minimal", "wait=²", "wait=0010000", f"wait={'1' * 5000}"]
)
def test_a_preference_that_is_not_known(header: str) -> None:
    with pytest.raises(Refusal, match="Prefer must be wait"):
        wait_s(header)


def test_the_input_is_the_pipelines_fields_and_the_deadline_that_of_the_header() -> None:
    given = {"prompt": "a red heart", "width": 64, "n": 2, "adapters": ["candy"], "seed": None}
    asked = parse({"version": "pochade/poster", "input": given}, Requests(), NOW_MS, cancel_after_ms=60_000)
    assert asked.options == GenerateOptions(width=64, n=2, adapters=("candy",), model="poster", strict=True)
    assert (asked.deadline_ms, asked.seed) == (NOW_MS + 60_000, None)
    shown = prediction(Job("r-1", NOW_MS, asked), "http://here", "http://there", ["started level=light"])
    assert (shown["urls"]["stream"], shown["logs"]) == ("http://there", "started level=light\n")
    assert shown["input"] == {
        "prompt": "a red heart", "width": 64, "n": 2, "adapters": ["candy"], "strict": True,
        "deadline_ms": NOW_MS + 60_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": {"prompt": ""}}, "input.prompt"),
        ({"input": {"prompt": "a", "n": 99}}, "input.n"),
        ({"input": {"prompt": "a", "tenant": "others"}}, "input.tenant"),
        ({"input": {"prompt": "a", "num_outputs": 0}}, "input.num_outputs"),
        ({"input": {"prompt": "a", "steps": 2, "num_inference_steps": 2}}, "input.num_inference_steps"),
        ({"input": {"prompt": "a", "scheduler": "DDIM"}}, "input.scheduler"),
        ({"input": ["a"]}, "input"),
        ({"input": {"prompt": "a"}, "version": 7}, "version"),
        ({"input": {"prompt": "a"}, "webhook_completed": "https://a.example"}, "webhook_completed"),
        ({"input": {"prompt": "a"}, "stream": "yes"}, "stream"),
        ({"input": {"prompt": "a"}, "hardware": "h100"}, "hardware"),
        ({}, "input.prompt"),
    ],
)
def test_what_cannot_be_honoured_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse(body, Requests(), NOW_MS)
    assert (caught.value.param, caught.value.kind.status) == (param, 400)


@pytest.mark.parametrize("stream", [True, False])
def test_a_stream_may_be_wanted_or_not(stream: bool) -> None:
    assert parse({"input": {"prompt": "a"}, "stream": stream}, Requests(), NOW_MS).prompt == "a"


@pytest.mark.parametrize(
    ("status", "told"),
    [(Status.COMPLETED, "succeeded"), (Status.REJECTED, "failed"), (Status.FAILED, "failed"),
     (Status.CANCELLED, "canceled"), (Status.EXPIRED, "canceled")],
)  # fmt: skip
def test_every_end_has_a_status_that_replicates_client_knows(status: Status, told: str) -> None:
    shown = prediction(
        Job("r-1", NOW_MS, a_request(), result=ended(status=status, code="x", reason="y")), "http://here", "", ()
    )
    assert shown["status"] == told
    assert (shown["error"] is None) == (status is Status.COMPLETED)


def test_a_time_that_no_calendar_has_is_told_as_none() -> None:
    assert moment(1_790_000_000_000_000) is None  # microseconds, by a producer over Kafka
    assert moment(1000) == "1970-01-01T00:00:01.000+00:00"
