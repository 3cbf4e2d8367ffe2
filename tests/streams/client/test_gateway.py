"""The transport over HTTP: what it sends, what it repeats and when, and what it makes of answers."""

import email.utils
import math
import time
from typing import Any

import pytest
from pochade import (
    Cancelled,
    Completed,
    Expired,
    Failed,
    Image,
    NotCompleted,
    NotFound,
    PochadeError,
    Refused,
    Rejected,
    StillOpen,
    Unavailable,
)
from pochade.clients import generated as generating
from pochade.gateway import LAG_S, retry_after_s
from pochade.network import Answer, Send
from pochade.requests import request_for

from tests.streams.client.scripted import DEAF, Script, answer, bodies, refusal, shown, stream


def submitted(script: Script, prompt: str = "a red heart", **options: Any) -> str:
    request_id: str = script.run(script.gateway.submit(request_for(prompt, options)))
    return request_id


def test_a_post_that_was_lost_is_repeated_with_the_same_key_and_body() -> None:
    script = Script(DEAF, refusal(503), answer(shown("r-1"), 201))
    assert submitted(script, seed=7) == "r-1"
    keys = {each.headers["idempotency-key"] for each in script.sent}
    assert (len(script.sent), len(keys), len({each.content for each in script.sent})) == (3, 1, 1)


def test_two_calls_have_two_keys() -> None:
    script = Script(answer(shown(), 201))
    submitted(script)
    submitted(script)
    assert len({each.headers["idempotency-key"] for each in script.sent}) == 2


def test_a_deadline_changes_no_body_so_that_a_later_repetition_is_equal() -> None:
    script = Script(answer(shown(), 201))
    submitted(script, idempotency_key="order-17", deadline_s=60.0)
    submitted(script, idempotency_key="order-17", deadline_s=2.5)
    assert [each.headers["cancel-after"] for each in script.sent] == ["60s", "2.5s"]
    first, second = script.sent
    assert first.content == second.content


def test_an_api_key_goes_to_the_gateway_and_to_no_address_of_an_answer() -> None:
    script = Script(answer(shown(word="succeeded")), api_key="secret")
    script.run(script.gateway.end("r-1", 5.0))
    script.run(script.gateway.read(Image("r-1", 0, "http://elsewhere/one")))
    assert [each.headers.get("authorization") for each in script.sent] == ["Bearer secret", None]


def test_an_api_key_may_be_the_line_of_a_file() -> None:
    script = Script(answer(shown(), 201), api_key="secret\n")
    submitted(script)
    assert script.sent[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("deadline_s", [math.inf, -math.inf, math.nan, 1e300])
def test_a_deadline_that_is_no_time_is_refused_before_it_is_sent(deadline_s: float) -> None:
    script = Script(answer(shown(), 201))
    with pytest.raises(Refused, match="deadline_s must be a number of seconds below") as raised:
        submitted(script, deadline_s=deadline_s)
    assert (raised.value.param, script.sent) == ("deadline_s", [])


@pytest.mark.parametrize("timeout_s", [math.inf, 1e10])
def test_an_end_may_be_waited_for_without_a_limit(timeout_s: float) -> None:
    script = Script(*[answer(shown())] * 3, answer(shown(word="succeeded")), taking_s=30.0)
    assert isinstance(script.run(script.gateway.end("r-1", timeout_s)), Completed)


def test_retry_after_is_obeyed_in_seconds_in_milliseconds_and_as_a_date() -> None:
    script = Script(refusal(429, retry_after="3"), refusal(503, retry_after="9", retry_after_ms="250"), answer(shown()))
    submitted(script)
    assert script.paused == [3.0, 0.25]
    in_a_minute = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert 50 < (retry_after_s({"retry-after": in_a_minute}) or 0) <= 60
    assert retry_after_s({"retry-after": "soon"}) is None


def test_without_retry_after_the_pauses_grow_up_to_eight_seconds() -> None:
    script = Script(*[DEAF] * 7, answer(shown()))
    submitted(script)
    assert script.paused == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_call_is_repeated_for_retry_s_and_then_the_last_reason_is_raised() -> None:
    script = Script(refusal(503, "unavailable", "the broker is away", retry_after="1"), retry_s=5.0)
    with pytest.raises(Unavailable, match="the broker is away") as raised:
        submitted(script)
    assert (len(script.sent), raised.value.retry_after_s) == (6, 1.0)


def test_a_retry_after_beyond_the_time_left_is_raised_at_once_and_says_when() -> None:
    script = Script(refusal(429, retry_after="600"))
    with pytest.raises(Unavailable) as raised:
        submitted(script)
    assert (len(script.sent), raised.value.retry_after_s) == (1, 600.0)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 415, 422])
def test_what_would_be_refused_again_is_raised_at_once_with_its_parameter(status: int) -> None:
    script = Script(refusal(status, "invalid", "n must be at most 8", "input.n"))
    with pytest.raises(Refused, match="n must be at most 8") as raised:
        submitted(script)
    assert (len(script.sent), raised.value.status, raised.value.param) == (1, status, "n")


def test_a_failure_of_the_gateway_itself_is_not_repeated_where_it_says_so() -> None:
    script = Script(refusal(500, "internal", x_should_retry="false"))
    with pytest.raises(PochadeError):
        submitted(script)
    assert len(script.sent) == 1


def test_an_answer_that_is_no_gateways_says_what_came() -> None:
    with pytest.raises(PochadeError, match="is it Pochade's gateway"):
        submitted(Script(Answer(200, {}, b"<html>")))
    with pytest.raises(Refused, match="HTTP 404"):
        submitted(Script(Answer(404, {}, b"<html>")))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("COMPLETED", Completed),
        ("CANCELLED", Cancelled),
        ("REJECTED", Rejected),
        ("EXPIRED", Expired),
        ("FAILED", Failed),
    ],
)
def test_each_end_has_a_type(status: str, kind: type) -> None:
    words = {"succeeded"} if kind is Completed else {"failed", "canceled"}
    for word in words:
        script = Script(answer(shown("r-1", word, **{"status": status, "reason": "because", "code": "why"})))
        end = script.run(script.gateway.end("r-1", 5.0))
        assert type(end) is kind
        assert end.request_id == "r-1"
        if not isinstance(end, Completed):
            assert (end.reason, end.code) == ("because", "why")


def test_an_end_of_a_newer_release_is_an_error_that_says_so() -> None:
    script = Script(answer(shown("r-1", "failed", status="PARKED", reason="")))
    with pytest.raises(PochadeError, match="'PARKED', which this release"):
        script.run(script.gateway.end("r-1", 5.0))


def test_a_completed_request_names_level_images_and_what_was_overridden() -> None:
    told = shown("r-1", "succeeded", overridden=["steps: 4 instead of 9"], escalated=True, confidence=0.9)
    end = Script(answer(told)).run(Script(answer(told)).gateway.end("r-1", 5.0))
    assert (end.level, end.escalated, end.confidence) == ("light", True, 0.9)
    assert end.overridden == ("steps: 4 instead of 9",)
    assert [image.uri for image in end.images] == ["http://gateway/v1/files/one"]
    assert end.images == (Image("r-1", 0, "a later address of it"),)


def test_waiting_asks_in_requests_of_half_a_minute_that_the_gateway_holds_back() -> None:
    script = Script(*[answer(shown())] * 3, answer(shown(word="succeeded")), taking_s=30.0)
    assert isinstance(script.run(script.gateway.end("r-1", 300.0)), Completed)
    assert [each.headers["prefer"] for each in script.sent] == ["wait=30"] * 4
    assert script.paused == []


def test_a_gateway_that_does_not_hold_back_is_asked_once_a_second() -> None:
    script = Script(answer(shown()))
    with pytest.raises(StillOpen, match=r"r-1 has no result after 10 s") as raised:
        script.run(script.gateway.end("r-1", 10.0))
    assert (len(script.sent), raised.value.request_id) == (11, "r-1")
    assert isinstance(raised.value, TimeoutError)


def test_a_time_of_zero_asks_once() -> None:
    script = Script(answer(shown()))
    with pytest.raises(StillOpen):
        script.run(script.gateway.end("r-1", 0.0))
    assert len(script.sent) == 1


def test_a_gateway_that_restarts_between_submission_and_end_is_waited_for() -> None:
    """It refuses connections, then still reads the topics, and then does not know the request for a moment."""
    reading, unknown = refusal(503, "unavailable"), refusal(404, "not-found")
    script = Script(answer(shown("r-1"), 201), DEAF, DEAF, reading, unknown, answer(shown(word="succeeded")))
    request_id = submitted(script)
    assert isinstance(script.run(script.gateway.end(request_id, 60.0)), Completed)


def test_an_unknown_id_is_not_found_at_once_and_one_of_our_own_after_its_lag() -> None:
    script = Script(answer(shown("r-1"), 201), refusal(404, "not-found", "no request 'r-1' is remembered"))
    for request_id, at_least_s in (("r-9", 0.0), (submitted(script), LAG_S)):
        begun_s = script.now_s
        with pytest.raises(NotFound, match="is remembered"):
            script.run(script.gateway.end(request_id, 60.0))
        assert at_least_s <= script.now_s - begun_s <= 2 * at_least_s


def test_an_id_is_quoted_in_its_address() -> None:
    script = Script(answer(shown("a/../b", "canceled")))
    script.run(script.gateway.cancel("a/../b?x", ""))
    assert script.sent[0].url == "http://gateway/v1/predictions/a%2F..%2Fb%3Fx/cancel"
    assert script.sent[0].method == "POST"


def test_files_go_as_a_form_with_the_options_as_its_fields() -> None:
    script = Script(answer(shown(), 201))
    submitted(script, image=b"PNG", strict=True, n=2, adapters=["candy", "mint"], model="styles")
    (sent,) = script.sent
    assert sent.files == {"image": b"PNG"}
    assert sent.form == {"prompt": "a red heart", "strict": "true", "n": "2", "adapters": ["candy", "mint"],
                         "model": "styles"}  # fmt: skip


def test_a_model_is_named_beside_the_input() -> None:
    script = Script(answer(shown(), 201))
    submitted(script, model="styles", image="s3://bucket/one.png")
    assert bodies(script.sent) == [
        {"input": {"prompt": "a red heart", "image": "s3://bucket/one.png"}, "model": "styles"}
    ]


STARTED = ("0.4", "logs", "started level=light stage=0 steps=4")
ESCALATED = ("0.9", "logs", "escalated from=light to=heavy preview=http://gateway/v1/files/draft?a=b")
DONE = ("2.0", "done", "{}")


def test_events_are_queued_what_the_stream_says_and_the_end() -> None:
    script = Script(
        answer(shown(place=3, expected_ms=800)), stream("begun", STARTED, ESCALATED, ("1.0", "output", "x"), DONE),
        answer(shown(word="succeeded")),
    )  # fmt: skip
    queued, started, escalated, ended = script.run(script.gateway.events("r-1", ""))
    assert (queued.kind, queued.details) == ("queued", {"place": 3, "expected_ms": 800})
    assert (started.kind, started.details["level"], started.position) == ("started", "light", "0.4")
    assert escalated.details["preview"] == "http://gateway/v1/files/draft?a=b"
    assert (ended.kind, type(ended.end)) == ("ended", Completed)


def test_a_stream_that_breaks_goes_on_behind_its_last_event() -> None:
    script = Script(
        answer(shown()), stream(STARTED), answer(shown()), DEAF, answer(shown()), stream(ESCALATED, DONE),
        answer(shown(word="succeeded")),
    )  # fmt: skip
    assert [each.kind for each in script.run(script.gateway.events("r-1", ""))] == [
        "queued", "started", "escalated", "ended",
    ]  # fmt: skip
    assert [each.headers.get("last-event-id") for each in script.streamed] == [None, "0.4", "0.4"]


def test_events_go_on_behind_a_position_of_another_process() -> None:
    script = Script(answer(shown()), stream(ESCALATED, DONE), answer(shown(word="succeeded")))
    assert [each.kind for each in script.run(script.gateway.events("r-1", "0.4"))] == ["escalated", "ended"]


def test_a_stream_whose_events_were_all_read_gives_the_end_alone() -> None:
    script = Script(answer(shown(word="succeeded")), Answer(204, {}), answer(shown(word="succeeded")))
    (ended,) = script.run(script.gateway.events("r-1", "2.0"))
    assert isinstance(ended.end, Completed)


def test_an_expired_address_of_a_stream_is_asked_for_anew() -> None:
    moved = shown()
    moved["urls"] = {"stream": "http://gateway/v1/streams/new"}
    script = Script(answer(shown()), refusal(410, "gone"), answer(moved), stream(DONE), answer(shown(word="succeeded")))
    script.run(script.gateway.events("r-1", ""))
    assert script.streamed[-1].url.endswith("/new")


def test_a_stream_that_is_cut_again_and_again_without_news_ends_as_unavailable() -> None:
    def always(send: Send) -> Answer:
        return stream() if "/streams/" in send.url else answer(shown())

    script = Script(always, retry_s=20.0)
    with pytest.raises(Unavailable, match="the stream was cut"):
        script.run(script.gateway.events("r-1", ""))
    assert script.now_s <= 20.0


@pytest.mark.parametrize(
    ("address", "expired"),
    [
        ("http://gateway/v1/files/old", refusal(410, "gone")),
        ("https://bucket.s3.amazonaws.com/old", Answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")),
        ("https://storage.googleapis.com/old", Answer(400, {}, b"<Error><Code>ExpiredToken</Code></Error>")),
    ],
)
def test_an_image_whose_address_expired_is_read_at_a_new_one(address: str, expired: Answer) -> None:
    script = Script(expired, answer(shown(word="succeeded")), Answer(200, {}, b"PNG"))
    assert script.run(script.gateway.read(Image("r-1", 0, address))) == b"PNG"
    assert [each.url for each in script.sent][-1] == "http://gateway/v1/files/one"


def test_an_image_that_its_new_address_refuses_too_is_refused() -> None:
    script = Script(Answer(403, {}), answer(shown(word="succeeded")), Answer(403, {}, b"AccessDenied"))
    with pytest.raises(Refused, match="image 0 of r-1: HTTP 403"):
        script.run(script.gateway.read(Image("r-1", 0, "https://bucket.s3.amazonaws.com/old")))
    assert len(script.sent) == 3


def test_an_image_that_there_is_not_says_how_many_there_are() -> None:
    script = Script(refusal(410, "gone"), answer(shown(word="succeeded")))
    with pytest.raises(PochadeError, match="has no image 3: it has 1"):
        script.run(script.gateway.read(Image("r-1", 3, "http://gateway/v1/files/old")))


def test_an_explanation_is_a_sentence_with_the_path() -> None:
    found = {"id": "r-1", "why": "kept", "path": [{"level": "light"}], "asked": "quality auto"}
    script = Script(answer(found))
    explained = script.run(script.gateway.explain("r-1"))
    assert (explained.why, explained.path[0]["level"], explained.asked) == ("kept", "light", "quality auto")


def generated(script: Script, timeout_s: float = 60.0) -> Any:
    return script.run(generating(script.gateway, script, request_for("a", {}), timeout_s, lambda: script.now_s))


BUSY = answer(shown("r-1", "failed", status="REJECTED", reason="too much work", code="overloaded", retry_after_ms=2000))


def test_a_request_that_is_rejected_for_now_is_submitted_again_with_its_key_when_that_is_over() -> None:
    script = Script(answer(shown("r-1"), 201), BUSY, answer(shown("r-2"), 201), answer(shown("r-2", "succeeded")))
    assert generated(script).request_id == "r-2"
    assert script.paused == [2.0]
    assert len({each.headers["idempotency-key"] for each in script.sent if each.method == "POST"}) == 1


def test_a_request_that_is_rejected_for_now_is_submitted_three_times_at_most() -> None:
    script = Script(*[answer(shown("r-1"), 201), BUSY] * 4)
    with pytest.raises(NotCompleted, match="REJECTED: too much work") as raised:
        generated(script)
    assert isinstance(raised.value.end, Rejected)
    assert len([each for each in script.sent if each.method == "POST"]) == 3


def test_a_request_that_is_rejected_for_good_is_submitted_once() -> None:
    never = answer(shown("r-1", "failed", status="REJECTED", reason="no such option", code="unhonoured", param="mask"))
    script = Script(answer(shown("r-1"), 201), never)
    with pytest.raises(NotCompleted) as raised:
        generated(script)
    assert isinstance(raised.value.end, Rejected)
    assert (raised.value.end.param, raised.value.end.retry_after_s, len(script.sent)) == ("mask", None, 2)
