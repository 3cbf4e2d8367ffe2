"""What clients get over HTTP from a gateway whose topics are in memory."""

import asyncio
import base64
import io
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from PIL import Image

from agents.gateway import images_api, pipeline
from agents.gateway.edits.uploads import uri_before
from schemas.errors import PochadeError
from schemas.messages import Event, Outcome, Status
from schemas.topics import OUTCOMES, PROMPTS_BATCH
from streams.codec.avro import decode
from streams.metrics import GATEWAY_EXPECTED
from streams.settings import Gateway
from streams.store.port import StoreUnavailable, Unreadable
from tests.agents.gateway.deployment import Deployment, ended, event, tell
from tests.builders import NOW_MS, a_catalog, a_plan, a_request, composed_variant
from tests.patience import PATIENCE_S

IMAGE = uri_before("default")
HEART = {"prompt": "a red heart"}


def png(color: str = "red") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (16, 8), color).save(out, "PNG")
    return out.getvalue()


def spoken(deployment: Deployment, *calls: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]) -> Any:
    """The answers to these calls, one after the other."""

    async def talk() -> list[httpx.Response]:
        async with deployment.http() as http:
            return [await call(http) for call in calls]

    answers = asyncio.run(talk())
    return answers[0] if len(answers) == 1 else answers


def posted(deployment: Deployment, body: Any, path: str = "/v1/images/generations", **headers: str) -> httpx.Response:
    answer: httpx.Response = spoken(deployment, lambda http: http.post(path, json=body, headers=headers))
    return answer


def got(deployment: Deployment, path: str) -> httpx.Response:
    answer: httpx.Response = spoken(deployment, lambda http: http.get(path))
    return answer


def test_images_come_in_the_answer_once_the_request_has_ended() -> None:
    deployment = Deployment()
    deployment.ends(png(), png("blue"))
    answer = posted(deployment, {**HEART, "n": 2, "user": "somebody"})
    assert answer.status_code == 200, answer.text
    assert [base64.b64decode(each["b64_json"]) for each in answer.json()["data"]] == [png(), png("blue")]
    asked = deployment.asked()
    assert (asked.prompt, asked.options.n, asked.deadline_ms) == ("a red heart", 2, NOW_MS + 300_000)
    assert answer.headers["x-request-id"] == asked.request_id == answer.json()["pochade"]["request_id"]
    headers = deployment.written()[0].headers
    assert re.fullmatch(rb"[0-9a-f]{16}", headers["pochade_end_user"])


@pytest.mark.parametrize(
    ("error", "age_ms", "read_s", "status", "code"),
    [
        (StoreUnavailable, 0, PATIENCE_S, 200, ""),
        (Unreadable, 0, PATIENCE_S, 200, ""),
        (Unreadable, 0, 0, 503, "unavailable"),
        (Unreadable, 61_000, PATIENCE_S, 410, "gone"),
        (StoreUnavailable, 61_000, PATIENCE_S, 503, "unavailable"),
    ],
)
def test_an_image_of_a_result_that_just_came_is_read_again_while_its_client_waits(
    error: type[PochadeError], age_ms: int, read_s: float, status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment()
    deployment.ends(png())
    get, answers = deployment.store.get, [error("not now")]

    def first_unreadable(uri: str) -> bytes:
        if answers:
            raise answers.pop()
        return get(uri)

    monkeypatch.setattr(deployment.store, "get", first_unreadable)
    monkeypatch.setattr(pipeline, "READ_S", read_s)
    monkeypatch.setattr(pipeline, "now_ms", lambda: NOW_MS + age_ms)
    answer = posted(deployment, HEART)
    assert (answer.status_code, answer.json().get("error", {}).get("code", "")) == (status, code), answer.text


def test_an_image_is_read_at_the_address_that_an_answer_gives_in_the_format_that_was_asked_for() -> None:
    deployment = Deployment()
    deployment.ends(png())
    answer = posted(deployment, {**HEART, "response_format": "url", "output_format": "webp"})
    (url,) = [each["url"] for each in answer.json()["data"]]
    assert url.startswith("http://127.0.0.1:8760/v1/files/")
    assert "memory" not in url
    image = got(deployment, url)
    assert (image.status_code, image.headers["content-type"]) == (200, "image/webp")
    with Image.open(io.BytesIO(image.content)) as opened:
        assert (opened.format, opened.convert("RGB").getpixel((0, 0))) == ("WEBP", (255, 0, 0))
    assert got(deployment, url[:-1] + ("A" if url[-1] != "A" else "B")).status_code == 404
    deployment.now_ms += 3_600_000
    late = got(deployment, url)
    assert (late.status_code, late.json()["error"]["code"]) == (410, "gone")


def test_a_request_that_did_not_complete_is_answered_with_its_code_and_reason() -> None:
    deployment = Deployment()
    deployment.ends(status=Status.REJECTED, code="quota", reason="tenant has had its images", retry_after_ms=2500)
    answer = posted(deployment, HEART)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    said = "tenant has had its images"
    assert answer.json() == {
        "error": {"message": said, "type": "rate_limit_error", "param": None, "code": "quota"},
        "title": "quota", "detail": said, "status": 429,
    }  # fmt: skip
    assert answer.headers["x-request-id"] == deployment.asked().request_id


NO_LEVEL = "no worker serves light or heavy"
OVERDUE = {"status": Status.EXPIRED, "code": "deadline", "reason": "it had no result by its deadline"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_whose_time_is_over_says_that_no_worker_serves_it_and_when_to_send_it_again(stream: bool) -> None:
    deployment = Deployment()
    deployment.ends(**OVERDUE)
    answer = posted(deployment, {**HEART, "stream": stream})
    assert (answer.status_code, answer.headers["retry-after"]) == (504, "10")
    again = "and the request had no result within its time: send it again once one does"
    assert answer.json()["detail"] == f"{NO_LEVEL}, {again}"
    deployment.serves("w-1")
    assert posted(deployment, {**HEART, "stream": stream}).json()["detail"] == OVERDUE["reason"]
    named = posted(deployment, {**HEART, "model": "heavy", "stream": stream})
    assert named.json()["detail"] == f"no worker serves heavy, {again}"


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_without_a_result_says_that_no_worker_serves_it(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setattr(images_api, "LATE_S", 0.0)
    answer = posted(Deployment(Gateway(wait_s=0.01)), {**HEART, "stream": stream})
    assert answer.status_code == (200 if stream else 504), "the silence before is an event of its own"
    assert f"has no result after 0.01 s, as {NO_LEVEL}: ask for it at /v1/predictions/" in answer.text


def test_a_prediction_that_any_level_serves_logs_that_no_worker_serves_one() -> None:
    deployment = Deployment()
    deployment.serves()
    told = posted(deployment, {"input": HEART}, "/v1/predictions").json()
    assert told["logs"].startswith("1 waits for light or heavy, which no worker serves")


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"prompt": ""}, 400, "prompt"),
        ({**HEART, "stream": "yes"}, 400, "stream"),
        ([HEART], 400, None),
        ("a red heart", 400, None),
    ],
)
def test_what_is_refused_is_not_written_anywhere(body: Any, status: int, param: str | None) -> None:
    deployment = Deployment()
    answer = posted(deployment, body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
    assert deployment.producer.topics == {}


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b'{"prompt": "a red heart"}', {"content-type": "text/plain"}, 415, "media-type"),
        (b'{"prompt": ', {}, 400, "invalid"),
        (b"\xff", {}, 400, "invalid"),
        (b'{"prompt": "a red heart", "seed": 1, "seed": 2}', {}, 400, "invalid"),
        (b'{%b"9": 0}' % b"".join(b'"%d": 0, ' % number for number in range(60_000)), {}, 400, "invalid"),  # at once
        (b"[" * 100_000, {}, 400, "invalid"),
        (b'{"prompt": "a red heart", "image": %b%b}' % (b"[" * 900, b"]" * 900), {}, 400, "invalid"),
        (b'{"prompt": "a red heart", "user": "\\ud800"}', {}, 400, "invalid"),
        (b'{"prompt": "a red heart", "seed": NaN}', {}, 400, "invalid"),
        (b'{"prompt": "%b"}' % (b"a" * 2**20), {}, 413, "too-large"),
        (b'{"prompt": "a red heart"}', {"host": "evil.example"}, 403, "host"),
        (b'{"prompt": "a red heart"}', {"host": "127.0.0.1.evil.example:8760"}, 403, "host"),
        (b'{"prompt": "a red heart"}', {"origin": "https://evil.example"}, 403, "host"),
        (b'{"prompt": "a red heart"}', {"origin": "http://["}, 403, "host"),
    ],
)
def test_hostile_bodies_hosts_and_origins_are_refused(
    content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    deployment = Deployment()
    sent = {"content-type": "application/json", **headers}
    answer = spoken(deployment, lambda http: http.post("/v1/images/generations", content=content, headers=sent))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert deployment.producer.topics == {}


def test_a_foreign_host_and_a_page_that_asks_first_learn_which_setting_lets_them_in() -> None:
    def asked(http: Any) -> Any:
        return http.post("/v1/images/generations", json=HEART, headers={"host": "evil.example"})

    def asked_first(http: Any) -> Any:
        headers = {"origin": "http://127.0.0.1:3000", "access-control-request-method": "POST"}
        return http.request("OPTIONS", "/v1/images/generations", headers=headers)

    error = spoken(Deployment(), asked).json()["error"]["message"]
    assert "gateway.public_url" in error
    assert "gateway.authentication=bearer" in error
    answer = spoken(Deployment(), asked_first)
    assert (answer.status_code, "gateway.origins" in answer.json()["error"]["message"]) == (405, True)


def test_a_body_without_a_length_is_cut_at_the_limit() -> None:
    deployment, sent = Deployment(Gateway(max_body_bytes=4096)), 0

    async def endless() -> Any:
        nonlocal sent
        while sent < 100:
            sent += 1
            yield b"a" * 1024

    kind = {"content-type": "application/json"}
    answer = spoken(deployment, lambda http: http.post("/v1/images/generations", content=endless(), headers=kind))
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")
    assert sent == 5


def test_no_more_requests_are_open_than_the_limit() -> None:
    deployment = Deployment(Gateway(max_open=1))

    async def two() -> tuple[httpx.Response, httpx.Response]:
        async with deployment.http() as http:
            waiting = asyncio.create_task(http.post("/v1/images/generations", json=HEART))
            while not deployment.written():
                await asyncio.sleep(0)
            busy = await http.get("/v1/models")
            tell(deployment.jobs, ended(deployment.asked().request_id, image_uris=()))
            return await waiting, busy

    waited, busy = asyncio.run(two())
    assert (waited.status_code, busy.status_code) == (200, 503)
    assert (busy.json()["error"]["code"], busy.headers["retry-after"]) == ("busy", "1")


def test_unknown_addresses_and_methods_are_answered_in_the_same_shape() -> None:
    deployment = Deployment()
    assert got(deployment, "/v1/images/variations").json()["error"]["code"] == "not-found"
    wrong = got(deployment, "/v1/images/generations")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    removed = spoken(deployment, lambda http: http.delete("/v1/predictions"))
    assert (removed.status_code, removed.headers["allow"]) == (405, "GET, HEAD, POST")
    assert got(deployment, "/v1/files/../../etc/passwd").status_code == 404


def test_models_are_the_variants_and_bases_of_the_catalog() -> None:
    deployment = Deployment()
    names = [each["id"] for each in got(deployment, "/v1/models").json()["data"]]
    assert names[0] == "auto"
    assert {"light", "heavy"} <= set(names)
    of_openai = {"id": "light", "object": "model", "created": 0, "owned_by": "pochade"}
    of_replicate = {"owner": "pochade", "name": "light", "url": "http://127.0.0.1:8760/v1/models/pochade/light"}
    shown = got(deployment, "/v1/models/light").json()
    assert of_openai.items() | of_replicate.items() <= {k: v for k, v in shown.items() if k != "pochade"}.items()
    assert shown == got(deployment, shown["url"]).json()
    assert shown in got(deployment, "/v1/models").json()["results"]
    assert (shown["pochade"]["size"], shown["pochade"]["steps"]) == ("32x32", 2)


@pytest.mark.parametrize("path", ["huge", "pochade/huge", "stability-ai/sdxl", "light/light"])
def test_an_unknown_model_is_refused_with_those_that_there_are_before_anything_else_is_looked_at(path: str) -> None:
    deployment = Deployment(catalog=a_catalog())
    shown = got(deployment, f"/v1/models/{path}")
    answers = [shown]
    if "/" in path:
        answers.append(posted(deployment, {"input": {"num_outputs": 1}}, f"/v1/models/{path}/predictions"))
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert answer.json()["error"]["param"] in ("model", "version")
        assert "known are auto, heavy, light" in answer.json()["detail"]
    assert deployment.producer.topics == {}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/images/generations", HEART | {"deadline_ms": NOW_MS - 1}, "deadline_ms"),
        ("/v1/predictions", {"input": HEART | {"deadline_ms": NOW_MS - 1}}, "input.deadline_ms"),
    ],
)
def test_a_deadline_that_has_passed_is_the_clients_error_unless_it_asks_for_what_it_sent_in_time(
    path: str, body: dict[str, Any], param: str
) -> None:
    deployment = Deployment()
    late = posted(deployment, body, path)
    assert (late.status_code, late.json()["error"]["code"], late.json()["error"]["param"]) == (400, "invalid", param)
    assert f"has passed: now is {NOW_MS}; give a later one" in late.json()["detail"]
    assert deployment.producer.topics == {}
    deployment.now_ms -= 1000
    deployment.ends(png())
    once = {"idempotency-key": "mine"}
    assert posted(deployment, body, path, **once).status_code in (200, 201)
    deployment.now_ms += 1000
    assert posted(deployment, body, path, **once).status_code in (200, 201)
    assert len(deployment.written()) == 1


def test_a_failure_of_our_own_tells_the_client_an_id_and_nothing_else() -> None:
    deployment = Deployment()
    deployment.ends(b"no image")
    answer = posted(deployment, {**HEART, "output_format": "jpeg"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert answer.headers["x-request-id"] in answer.json()["error"]["message"]
    assert answer.headers["x-should-retry"] == "false"


def test_a_prediction_begins_and_is_told_with_ready_made_addresses() -> None:
    deployment = Deployment()
    begun = posted(deployment, {"version": "light", "input": {**HEART, "seed": 7}}, "/v1/predictions")
    asked, told = deployment.asked(), begun.json()
    assert (begun.status_code, told["status"], told["output"]) == (201, "starting", None)
    assert (asked.options.model, asked.seed, asked.deadline_ms) == ("light", 7, None)
    assert (told["version"], told["model"], told["input"]["seed"]) == ("light", "pochade/light", 7)
    tell(deployment.jobs, Event(request_id=asked.request_id, kind="started", at_ms=NOW_MS + 5, by="worker"))
    assert got(deployment, told["urls"]["get"]).json()["status"] == "processing"
    uri = deployment.store.put("x", png())
    tell(deployment.jobs, ended(asked.request_id, image_uris=(uri,)))
    done = got(deployment, told["urls"]["get"]).json()
    assert (done["status"], done["error"]) == ("succeeded", None)
    assert got(deployment, done["output"][0]).content == png()
    assert done["metrics"]["predict_time"] >= 0


def test_a_prediction_that_is_waited_for_comes_with_its_end_or_is_told_as_starting() -> None:
    deployment = Deployment()
    deployment.ends(png())
    done = posted(deployment, {"input": HEART}, "/v1/models/pochade/light/predictions", prefer="wait")
    assert (done.status_code, done.json()["status"]) == (201, "succeeded")
    assert deployment.asked().options.model == "light"
    failed = Deployment()
    failed.ends(status=Status.FAILED, code="poison", reason="it killed three workers")
    told = posted(failed, {"input": HEART}, "/v1/predictions", prefer="wait=9").json()
    assert (told["status"], told["error"]) == ("failed", "poison: it killed three workers")


def of_queue(answer: httpx.Response) -> tuple[int | None, int | None]:
    """What an answer tells of the queue."""
    ours = answer.json()["pochade"]
    return ours["place"], ours["expected_ms"]


def expected_so_far() -> list[float]:
    """How many predictions took up to 1.25 times what was told, and how many there are."""
    counted = {sample.labels["le"]: sample.value for metric in GATEWAY_EXPECTED.collect() for sample in metric.samples
               if sample.name.endswith("_bucket")}  # fmt: skip
    return [counted["1.25"], counted["+Inf"]]


def test_a_prediction_is_told_its_place_and_the_time_until_its_end_which_is_measured() -> None:
    deployment, before = Deployment(), expected_so_far()
    deployment.serves("w-1")
    tell(deployment.jobs, a_request(request_id="of-others", tenant="others"))
    tell(deployment.jobs, a_request(request_id="old", created_ms=NOW_MS - 61_000))  # its end may have been read before
    first, second = (posted(deployment, {"input": HEART}, "/v1/predictions") for _ in range(2))
    assert [of_queue(answer) for answer in (first, second)] == [(2, 40), (3, 60)]
    started = event("of-others", "started", level="light", stage=0, worker="w-1")
    tell(deployment.jobs, started)
    deployment.now_ms += 15
    assert of_queue(got(deployment, first.json()["urls"]["get"])) == (1, 25)
    deployment.now_ms += 29
    tell(deployment.jobs, ended("of-others", tenant="others"))
    tell(deployment.jobs, ended(first.json()["id"]))
    assert "place" not in got(deployment, first.json()["urls"]["get"]).json()["pochade"]
    assert of_queue(got(deployment, second.json()["urls"]["get"])) == (1, 24)  # the first took 4 ms longer
    deployment.now_ms += 100
    tell(deployment.jobs, ended(second.json()["id"]))
    assert [now - then for now, then in zip(expected_so_far(), before, strict=True)] == [1, 2]  # 1.1 and 2.4 times


def test_no_place_and_no_time_are_told_without_a_plan_without_workers_or_while_the_past_is_read() -> None:
    def begun(deployment: Deployment) -> tuple[int | None, int | None]:
        return of_queue(posted(deployment, {"input": HEART}, "/v1/predictions"))

    deployment = Deployment()
    assert begun(deployment) == (None, None)
    deployment.serves()
    assert begun(deployment) == (None, None)
    deployment.serves("w-1", "w-2", "w-3")
    deployment.caught_up.clear()
    assert begun(deployment) == (None, None)
    deployment.caught_up.set()
    assert begun(deployment) == (4, 40)
    deployment.now_ms += 61_000  # the workers are silent
    assert begun(deployment) == (None, None)


def test_a_worker_that_the_plan_takes_away_is_not_reckoned_with() -> None:
    def begun(variant: str) -> list[tuple[int | None, int | None]]:
        deployment = Deployment()
        plan = a_plan(cascades=(), allocation={"w-1": "light", "w-2": variant})
        deployment.serves("w-1", "w-2", plan=plan)
        return [of_queue(posted(deployment, {"input": HEART}, "/v1/predictions")) for _ in range(2)]

    assert begun("light") == [(1, 20), (2, 20)]
    assert begun("heavy") == [(1, 20), (2, 40)]


def test_a_prediction_is_cancelled_by_an_outcome_and_told_as_canceled() -> None:
    deployment = Deployment()
    begun, cancelled = spoken(
        deployment,
        lambda http: http.post("/v1/predictions", json={"input": HEART}),
        lambda http: http.post(f"/v1/predictions/{deployment.asked().request_id}/cancel"),
    )
    (record,) = deployment.written(OUTCOMES)
    assert decode(record.value or b"", Outcome).status is Status.CANCELLED
    assert (begun.json()["status"], cancelled.json()["status"]) == ("starting", "canceled")
    again = posted(deployment, None, f"/v1/predictions/{begun.json()['id']}/cancel")
    assert again.json()["status"] == "canceled"
    assert len(deployment.written(OUTCOMES)) == 1


def test_an_id_that_nobody_knows_is_not_cancelled_nor_told() -> None:
    deployment = Deployment()
    tell(deployment.jobs, a_request(request_id="others", tenant="others"))
    for request_id in ("nobodys", "others"):
        assert posted(deployment, None, f"/v1/predictions/{request_id}/cancel").status_code == 404
        assert got(deployment, f"/v1/predictions/{request_id}").status_code == 404
    assert deployment.written(OUTCOMES) == []
    deployment.caught_up.clear()
    early = got(deployment, "/v1/predictions/nobodys")
    assert (early.status_code, early.headers["retry-after"]) == (503, "1")


def test_predictions_are_listed_by_pages_the_newest_first() -> None:
    deployment = Deployment(max_jobs=200)
    for n in range(103):
        tell(deployment.jobs, a_request(request_id=f"r-{n}", created_ms=NOW_MS + n))
    first = got(deployment, "/v1/predictions").json()
    rest = got(deployment, first["next"]).json()
    told = [each["id"] for page in (first, rest) for each in page["results"]]
    assert told == [f"r-{n}" for n in reversed(range(103))]
    assert (len(first["results"]), rest["next"]) == (100, None)
    assert got(deployment, "/v1/predictions?cursor=x").status_code == 400


def test_a_request_of_the_batch_tier_goes_where_that_tier_waits() -> None:
    deployment = Deployment()
    posted(deployment, {"input": {**HEART, "tier": "batch"}}, "/v1/predictions")
    assert len(deployment.written(PROMPTS_BATCH)) == 1


def test_an_answer_holds_what_the_client_sent_only_as_json() -> None:
    deployment = Deployment()
    told = posted(deployment, {**HEART, "quality": "<script>\r\nx: y"})
    assert told.headers["content-type"] == "application/json"
    assert "x" not in told.headers
    assert "<script>" in json.loads(told.text)["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/images/generations", "/v1/predictions"])
def test_a_parameter_whose_name_is_no_unicode_is_refused(path: str) -> None:
    content = b'{"\\ud800": 1, "input": {"\\ud800": 1}}'
    asks = {"content": content, "headers": {"content-type": "application/json"}}
    answer = spoken(Deployment(), lambda http: http.post(path, **asks))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid")


@pytest.mark.parametrize(
    ("body", "status", "code", "param", "said"),
    [
        ({"size": "1024x1024"}, 400, "unhonoured", "size", "honour size: 1024x1024 -> 32x32; ask for 32x32, or send"),
        ({"model": "light", "quality": "high"}, 400, "unhonoured", "quality", "leave out quality or model, or send"),
        ({"negative_prompt": "blue"}, 400, "unhonoured", "negative_prompt", "or send strict: false"),
        ({"adapters": ["neon"]}, 400, "unhonoured", "adapters", "has no adapter 'neon'"),
        ({"image": IMAGE, "mask": IMAGE}, 400, "unhonoured", "mask", "begins with no mask"),
        ({"model": "dall-e-3"}, 404, "model_not_found", "model", "known are auto, chalk, heavy, light, poster, styles"),
    ],
)  # fmt: skip
def test_what_no_level_honours_is_refused_by_its_name_before_anything_is_written(
    body: dict[str, Any], status: int, code: str, param: str, said: str
) -> None:
    deployment = Deployment(catalog=a_catalog(on_request={"styles": composed_variant()}))
    answer = posted(deployment, HEART | body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    assert said in error["message"]
    own = {name: value for name, value in body.items() if name != "model"}
    own = {"width": 1024, "height": 1024} if param == "size" else own
    named = {"version": body.get("model", "auto"), "input": HEART | own}
    predicted = posted(deployment, named, "/v1/predictions").json()["error"]
    field = {"model": "version", "size": "input.width"}.get(param, f"input.{param}")
    assert (predicted["code"], predicted["param"]) == (code, field)
    assert deployment.producer.topics == {}


def test_a_request_that_is_not_strict_has_done_what_there_is() -> None:
    deployment = Deployment(catalog=a_catalog())
    deployment.ends(png())
    assert posted(deployment, HEART | {"size": "1024x1024", "strict": False}).status_code == 200


def test_a_prediction_whose_worker_fell_silent_starts_again_and_no_time_is_expected_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployment = Deployment()
    monkeypatch.setattr("agents.runtime.views.now_ms", lambda: deployment.now_ms)  # it forgets by the clock of now
    deployment.serves("w-1", "w-2")
    begun = posted(deployment, {"input": HEART}, "/v1/predictions").json()
    tell(deployment.jobs, event(begun["id"], "started", level="light", stage=0, worker="w-1"))
    told = got(deployment, begun["urls"]["get"])
    assert (told.json()["status"], of_queue(told)[0]) == ("processing", 0)
    explain = f"{begun['urls']['get']}/explain"
    assert got(deployment, explain).json()["why"] == "a worker generates it"
    deployment.now_ms += 61_000
    deployment.serves("w-2")
    told = got(deployment, begun["urls"]["get"])
    assert (told.json()["status"], of_queue(told)) == ("starting", (None, None))
    words = "its worker has not reported for 61 s; it is generated again"
    assert got(deployment, explain).json()["why"] == words
    assert told.json()["logs"].endswith(f"{words}\n")
    deployment.now_ms += 61_000
    words = "its worker has not reported for 122 s; no worker serves light; it waits"
    assert got(deployment, explain).json()["why"] == words
    deployment.serves("w-2")
    tell(deployment.jobs, event(begun["id"], "started", level="light", stage=0, worker="w-2"))
    assert got(deployment, explain).json()["why"] == "a worker generates it"


@pytest.mark.parametrize("path", ["/v1/images/generations", "/v1/predictions"])
@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({}, ["reuse: own -> off"]),
        ({"reused": True, "reuse_step": 1}, []),
        ({"reuse_miss": "none"}, []),
    ],
)
def test_reuse_that_was_asked_for_and_not_planned_is_said(path: str, ends: dict[str, Any], said: list[str]) -> None:
    """As in a deployment without a vector store, of which no plan asks for reuse."""
    deployment = Deployment()
    deployment.ends(png(), **ends)
    body = {**HEART, "reuse": "own"}
    answer = posted(deployment, {"input": body} if "predictions" in path else body, path, prefer="wait").json()
    assert answer["pochade"]["overridden"] == said
    assert answer["pochade"]["reuse_miss"] == ends.get("reuse_miss", "")
