"""What the screens say, as the topics tell it."""

import asyncio
import dataclasses
import html
import json
import re
import shlex
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import jinja2
import pytest

from agents.console.pages import MISSING, date, moment
from agents.console.screens.trying import BESIDE
from agents.console.view.requests import Place
from agents.console.view.view import is_in_time
from agents.gateway.predictions import parse
from planner.catalog.entries import HONOURABLE
from planner.catalog.model import Catalog
from planner.serving.admission.inputs import input_name
from replay.verify.audit.figures import Figures, as_json, verdict
from schemas.messages import (
    Expected,
    GenerateOptions,
    GenerateRequest,
    Made,
    OperatorAction,
    Outcome,
    PromisedQuality,
    StageReuse,
    Status,
    WorkerDevice,
)
from schemas.topics import ACTIONS, IMAGES, OUTCOMES, PROMPTS
from schemas.vocabulary import ALIASES, DECLARED
from streams.codec.avro import decode, encode
from streams.settings import Requests
from tests.agents.console.deployment import Deployment, event
from tests.builders import NOW_MS, a_catalog, a_classified, a_heartbeat, a_plan, a_request, composed_variant, owned
from tests.replay.runs import a_result, a_step, png, stored

HOSTILE = {
    "markup": '<img src=x onerror="alert(1)"><script>alert(2)</script></td>',
    "a very long word": "W" * 4000,
    "right to left": "\u202e\u0645\u0631\u062d\u0628\u0627 evil",
    "emoji": "\U0001f469\u200d\U0001f4bb\U0001f3f3\ufe0f\u200d\U0001f308",
    "template": "{{ 7 * 7 }}{% raw %}",
    "control": "a\x1b[2J\x00b",
}


def text_of(page: str) -> str:
    """The words of a page, in one line."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def test_now_says_demand_what_was_in_time_and_the_work_that_waits() -> None:
    deployment = Deployment()
    deployment.tell(a_plan(policy="p-one", reason="half of it", expected=Expected(
        demand_rps=7, utilization=0.5, heavy_share=0.25)))  # fmt: skip
    for n in range(6):
        deployment.tell(a_request(request_id=f"r-{n}", deadline_ms=None), at_ms=NOW_MS - 2000)
    deployment.tell(*(dataclasses.replace(a_result(a_step(), request_id=f"r-{n}"), latency_ms=1100 if n else 900)
                      for n in range(4)))  # fmt: skip
    deployment.tell(a_heartbeat(worker_id="w-1", variant="light", partitions=(owned(0, remaining_ms=3000),)))
    words = text_of(deployment.page("/").text)
    assert "demand 0.2 requests a second" in words
    assert "in time 25 % of 4 in 5 min" in words
    assert "Serving, but 3 of the last 4 requests came too late; start more workers" in words
    assert "open 2" in words
    assert "light 0 3.0 3.0 s" in words
    assert "plan 1 by p-one" in words
    assert "half of it" in words


def test_workers_are_wanted_started_ready_and_silent_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.runtime.views.now_ms", lambda: NOW_MS)  # it forgets by the clock of now
    deployment = Deployment()
    deployment.tell(a_plan(allocation={"w-1": "light", "w-2": "light", "w-3": "light"}))
    deployment.tell(a_heartbeat(worker_id="w-3", state="ready"), at_ms=NOW_MS - 60_000)
    deployment.tell(a_heartbeat(worker_id="w-1", state="ready"), a_heartbeat(worker_id="w-2", state="loading"))
    words = text_of(deployment.page("/fleet").text)
    assert "light 0 0.0 0.0 s 3 1 1 1" in words
    assert "w-3 silent" in words


def test_the_fleet_shows_the_card_of_each_worker_that_reports_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.runtime.views.now_ms", lambda: NOW_MS)
    deployment, card = Deployment(), WorkerDevice(device="cuda:0", index=3, model="NVIDIA H200", temperature_c=64)
    deployment.tell(a_heartbeat(worker_id="w-1", device=card), a_heartbeat(worker_id="w-2"))
    words = text_of(deployment.page("/fleet").text)
    assert "w-1 card 3 NVIDIA H200, 64 °C ready" in words
    assert "w-2 ready" in words


def test_a_level_without_a_worker_is_listed_while_requests_need_it_or_it_has_served() -> None:
    deployment = Deployment()
    deployment.tell(a_plan(allocation={"w-1": "light"}), a_heartbeat(worker_id="w-1"))
    assert "heavy" not in deployment.page("/fleet").text
    deployment.tell(a_result(a_step(level="heavy"), request_id="r-1"))
    assert f"heavy 0 0.0 {MISSING} 0 0 0 0" in text_of(deployment.page("/").text), "it has served"
    named = a_request(request_id="r-2", options=GenerateOptions(model="heavy"))
    deployment.tell(named)
    assert "heavy 1, oldest 0 s 0.0 no worker ready 0 0 0 0" in text_of(deployment.page("/fleet").text), (
        "a request needs it"
    )


def test_an_escalated_request_lists_the_level_that_it_waits_for() -> None:
    deployment = Deployment()
    deployment.tell(a_plan(allocation={"w-1": "light"}), a_heartbeat(worker_id="w-1"))
    deployment.tell(a_request(request_id="r-1"), event("r-1", "escalated", level="heavy", stage=1))
    assert "heavy 1, oldest 0 s 0.0 no worker ready 0 0 0 0" in text_of(deployment.page("/").text)


def test_work_without_a_worker_is_told_as_such() -> None:
    deployment = Deployment()
    deployment.tell(a_heartbeat(worker_id="w-1", state="loading", partitions=(owned(0, remaining_ms=3000),)))
    assert "no worker ready" in deployment.page("/").text


def an_escalated(deployment: Deployment, request_id: str = "r-1", **changes: Any) -> None:
    draft = a_step(confidence=0.31, threshold=0.55, image=stored(deployment.store, png("grey")))
    final = a_step(stage=1, level="heavy", worker_id="w-2", confidence=None, threshold=None, refine_from_step=3,
                   image=stored(deployment.store, png("blue")))  # fmt: skip
    request = a_request(request_id=request_id)
    deployment.tell(request, a_classified(request, hardness=0.8))
    result = a_result(draft, final, request_id=request_id)
    deployment.tell(dataclasses.replace(result, escalated=True, **changes))


def test_a_request_shows_draft_and_image_its_way_with_reasons_and_where_its_records_lie() -> None:
    deployment = Deployment()
    an_escalated(deployment)
    page = deployment.page("/requests/r-1")
    words = text_of(page.text)
    assert re.search(r"draft light, confidence 0.31, threshold 0.55 .* image heavy", words)
    assert "hardness 0.80" in words
    assert "confidence 0.310 < threshold 0.550: escalated" in words
    assert "escalated, to begin from step 3" in words
    assert "prompts.v1 0@" in words
    pictures = re.findall(r'<img[^>]* src="([^"]+)"', page.text)
    assert len(pictures) == 2
    first, second = deployment.talk(lambda http: http.get(pictures[0]), lambda http: http.get(pictures[1] + "?small"))
    assert (first.content, second.content) == (png("grey"), png("blue"))
    assert "immutable" in first.headers["cache-control"]


def test_a_request_shows_what_was_promised_of_its_image_and_what_that_rests_on() -> None:
    deployment = Deployment()
    promise = PromisedQuality(wrong_at_most=0.1, confidence=0.95, images=16000, date="2026-11-29", standard="all facts")
    for request_id, promised in (("r-1", promise), ("r-2", None)):
        kept = a_step(image=stored(deployment.store, png("grey")), promise=promised)
        deployment.tell(a_request(request_id=request_id), a_result(kept, request_id=request_id))
    stated = "of images like it at most 10.0 % are wrong, with 95 % confidence, measured on 16,000 images on 2026-11-29"
    assert stated in text_of(deployment.page("/requests/r-1").text)
    assert "promised" not in text_of(deployment.page("/requests/r-2").text)


def test_a_stage_that_refined_a_draft_under_a_plan_of_reuse_is_not_said_to_have_run_all_steps() -> None:
    deployment = Deployment()
    final = a_step(stage=1, level="heavy", refine_from_step=5, reuse=StageReuse(steps=8, miss="route"))
    deployment.tell(a_request(), a_result(a_step(confidence=0.31), final))
    words = text_of(deployment.page("/requests/r-1").text)
    assert "from step 5 of 8, with the draft" in words
    assert "all 8 steps" not in words


def test_a_picture_has_no_address_but_those_that_pages_show() -> None:
    deployment = Deployment()
    uri = deployment.store.put("job", png())
    for token in (uri, "x", "W10.AAAA", "W10."):
        assert deployment.page(f"/images/{token.replace('/', '%2F')}").status_code == 404


def test_a_request_that_has_not_ended_tells_what_it_waits_for() -> None:
    deployment = Deployment()
    deployment.tell(a_request(request_id="r-1"), event("r-1", "started", level="light", stage=0, steps=4))
    deployment.now_ms += 5000
    words = text_of(deployment.page("/requests/r-1").text)
    assert "running for 5 s" in words
    assert "generate on light 5.0 s …" in words


def test_ids_of_any_make_lead_to_their_request() -> None:
    deployment = Deployment()
    for request_id in ("a/b?c#d", "..", "<b>", "100%", "ä ö"):
        deployment.tell(a_request(request_id=request_id))
    for href in re.findall(r'href="(/requests/[^"]+)"', deployment.page("/requests").text):
        assert deployment.page(href).status_code in (200, 404), href
    assert deployment.page("/requests/a%2Fb%3Fc%23d").status_code == 200


@pytest.mark.parametrize("prompt", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_prompts_tenants_and_reasons_are_text_on_every_page(prompt: str) -> None:
    deployment = Deployment(prompts="clear")
    deployment.tell(a_request(request_id="r-1", prompt=prompt, tenant=prompt))
    failed = a_result(request_id="r-1", prompt=prompt, status=Status.FAILED, reason=prompt)
    deployment.tell(dataclasses.replace(failed, tenant=prompt, code=prompt[:40]))
    deployment.buries("r-1", IMAGES, b"", error=prompt)
    deployment.tell(a_plan(reason=prompt))
    deployment.tell(a_heartbeat(worker_id=prompt[:200], state="failed", detail=prompt))
    for path in ("/", "/requests", "/requests/r-1", "/fleet", "/plan", "/dead-letters", "/gallery"):
        page = deployment.page(path)
        assert page.status_code == 200
        assert "<script>" not in page.text.replace('<script src="/assets/console.js" defer>', "")
        assert "<img src=x" not in page.text
        assert "\u202e" not in page.text
        assert "\x1b" not in page.text
        assert "49{%" not in page.text


def test_prompts_are_shown_by_their_digest_unless_the_deployment_says_otherwise() -> None:
    for shown, is_clear in (("hash", False), ("clear", True)):
        deployment = Deployment(prompts=shown)
        an_escalated(deployment)
        for path in ("/requests", "/requests/r-1", "/gallery", "/"):
            if path != "/":
                assert ("a red heart" in deployment.page(path).text) == is_clear, path
        assert "a red heart" not in deployment.page("/").text


def test_ten_thousand_requests_are_listed_once_each_page_by_page() -> None:
    deployment = Deployment()
    for n in range(10_000):
        deployment.view.requests.on_place(f"r-{n}", deployment_place(n))
    seen: list[str] = []
    path = "/requests"
    for _ in range(400):
        page = deployment.page(path).text
        seen += re.findall(r'href="/requests/(r-\d+)"', page)
        following = re.search(r'id="next" href="([^"]+)"', page)
        if following is None:
            break
        path = html.unescape(following[1])
        deployment.view.requests.on_place(f"new-{len(seen)}", deployment_place(20_000 + len(seen)))
    assert seen == [f"r-{n}" for n in reversed(range(10_000))]


def deployment_place(n: int) -> Any:
    return Place(PROMPTS, 0, n, NOW_MS + n)


def test_the_memory_of_requests_is_bounded_and_the_oldest_leave() -> None:
    deployment = Deployment(max_requests=100)
    for n in range(150):
        deployment.tell(a_request(request_id=f"r-{n}"), at_ms=NOW_MS + n)
    assert len(deployment.view.requests) == deployment.view.requests.open == 100
    assert deployment.view.requests.get("r-49") is None
    assert deployment.view.requests.get("r-50") is not None


def test_filters_choose_by_status_level_tenant_and_id() -> None:
    deployment = Deployment()
    an_escalated(deployment, "r-heavy")
    deployment.tell(a_request(request_id="r-open", tenant="shop"))
    shown = {
        query: set(re.findall(r'href="/requests/([^"]+)"', deployment.page(f"/requests?{query}").text))
        for query in ("status=open", "status=COMPLETED", "level=heavy", "tenant=shop", "id=open", "escalated=yes")
    }
    assert shown["status=open"] == shown["tenant=shop"] == shown["id=open"] == {"r-open"}
    assert shown["status=COMPLETED"] == shown["level=heavy"] == shown["escalated=yes"] == {"r-heavy"}


def ids_at(deployment: Deployment, query: str) -> set[str]:
    """The requests that a list shows."""
    return set(re.findall(r'href="/requests/([^"]+)"', deployment.page(f"/requests?{query}").text))


def test_requests_are_found_by_words_of_their_prompt_where_prompts_are_shown() -> None:
    for shown, found in (("clear", {"r-boat"}), ("hash", {"r-boat", "r-star"})):
        deployment = Deployment(prompts=shown)
        deployment.tell(a_request(request_id="r-boat", prompt="Two blue BOATS"), a_request(request_id="r-star"))
        assert ids_at(deployment, "prompt=boats+two") == found


def test_requests_are_found_by_their_time() -> None:
    deployment = Deployment()
    deployment.tell(a_request(request_id="r-old"), at_ms=NOW_MS - 3_600_001)
    deployment.tell(a_request(request_id="r-new"))
    minute = date(NOW_MS - 60_000)[:16]
    assert ids_at(deployment, "last=1+h") == ids_at(deployment, f"since={minute}") == {"r-new"}
    assert ids_at(deployment, f"until={minute}") == {"r-old"}
    ahead = (datetime.fromisoformat(minute) + timedelta(hours=5)).isoformat()
    assert ids_at(deployment, f"since={ahead}%2B05:00") == {"r-new"}
    refused = deployment.page("/requests?since=yesterday")
    assert refused.status_code == 400
    assert "since must be a time in UTC" in refused.text


def test_errors_of_clients_are_listed_apart_from_ours() -> None:
    deployment = Deployment()
    for request_id, code in (("r-theirs", "invalid"), ("r-ours", "poison")):
        failed = a_result(request_id=request_id, status=Status.FAILED)
        deployment.tell(a_request(request_id=request_id), dataclasses.replace(failed, code=code))
    deployment.tell(a_request(request_id="r-done"), a_result(a_step(), request_id="r-done"))
    assert (ids_at(deployment, "status=ours"), ids_at(deployment, "status=clients")) == ({"r-ours"}, {"r-theirs"})
    assert "failed by client" in text_of(deployment.page("/requests?status=clients").text)


def test_a_request_shows_what_was_sent_and_its_result_as_json_with_prompts_as_digests() -> None:
    for shown, is_clear in (("hash", False), ("clear", True)):
        deployment = Deployment(prompts=shown)
        options = GenerateOptions(steps=7, negative_prompt="no text")
        deployment.tell(a_request(options=options, prompt="a red heart"), a_result(a_step()))
        shown_json = html.unescape(deployment.page("/requests/r-1").text.partition('<pre tabindex="0">{')[2])
        found = json.loads("{" + shown_json.partition("</pre>")[0])
        assert found["request"]["steps"] == 7
        assert found["result"]["path"][0]["level"] == "light"
        assert (found["request"]["prompt"] == "a red heart") == is_clear
        assert ("a red heart" in shown_json) == ("no text" in shown_json) == is_clear


def test_the_list_has_thumbnails_and_a_request_its_image_at_full_size() -> None:
    deployment = Deployment()
    an_escalated(deployment)
    (small,) = re.findall(r'<img src="([^"]+\?small)"', deployment.page("/requests").text)
    full = re.findall(r'<a href="(/images/[^"]+)">[^<]*full size</a>', deployment.page("/requests/r-1").text)
    assert small.removesuffix("?small") == full[-1]


def test_the_gallery_tells_refined_images_from_first_ones() -> None:
    deployment = Deployment()
    an_escalated(deployment, "r-refined")
    deployment.tell(a_request(request_id="r-first"), a_result(
        a_step(image=stored(deployment.store, png())), request_id="r-first"))  # fmt: skip
    for kept, other in (("refined", "first"), ("first", "refined")):
        page = deployment.page(f"/gallery?kept={kept}").text
        assert f"/requests/r-{kept}" in page
        assert f"/requests/r-{other}" not in page


def test_a_live_part_is_sent_again_only_where_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment()
    deployment.tell(a_request(request_id="r-1"))

    async def watched() -> list[str]:
        texts = iter(["one", "one", "two"])

        async def render() -> str:
            text = next(texts, None)
            if text is None:
                deployment.parts.stop()
                return "two"
            return text

        return [each.decode() async for each in deployment.parts.changes("x", render, lambda: True)]

    monkeypatch.setattr("agents.console.live.TICK_S", 0.001)
    told = asyncio.run(watched())
    assert [each.splitlines()[1] for each in told] == ["data: one", "data: two"]


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (None, "asked for, not ended yet: its cancellation lies on outcomes 0@0"),
        (Status.CANCELLED, "cancelled"),
        (Status.COMPLETED, "too late: it ended first, as COMPLETED, and keeps that end"),
    ],
)
def test_a_cancellation_is_answered_with_what_became_of_it(
    ended: Status | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.console.writing.CANCEL_WAIT_S", 0.3)
    deployment = Deployment()
    deployment.tell(a_request(request_id="r-1"))
    send = deployment.producer.send

    def answers(record: Any) -> Any:
        delivered = send(record)
        if record.topic == OUTCOMES and ended is not None:
            deployment.tell(a_result(request_id="r-1", status=ended))
        return delivered

    deployment.producer.send = answers  # type: ignore[method-assign]
    answer = deployment.form("/requests/r-1", "/requests/r-1/cancel")
    assert words in text_of(answer.text)
    outcome = decode(deployment.written(OUTCOMES)[0].value or b"", Outcome)
    assert outcome.status is Status.CANCELLED
    assert "tester" in outcome.reason


MADE = Made(variant="light", seed=7, steps=2, guidance=1.0, width=32, height=32, negative_prompt="rain", dtype="f32")


def offering() -> Catalog:
    """A catalog whose levels honour all plain options, and with a variant that honours all that there is."""
    styles, plain = composed_variant(), a_catalog().variants
    anywhere = tuple(dataclasses.replace(each, bases=()) for each in styles.components)
    levels = {name: dataclasses.replace(each, honours=HONOURABLE[:5]) for name, each in plain.items()}
    styles = dataclasses.replace(styles, honours=HONOURABLE, components=anywhere)
    return a_catalog(variants=levels, on_request={"styles": styles})


def made_by_light(deployment: Deployment, **made: Any) -> None:
    result = a_result(a_step(), request_id="r-1")
    deployment.tell(a_request(request_id="r-1"), dataclasses.replace(result, made=dataclasses.replace(MADE, **made)))


def test_costs_are_shown_where_workers_state_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.runtime.views.now_ms", lambda: NOW_MS)
    free, priced = Deployment(), Deployment()
    for deployment, price in ((free, 0.0), (priced, 3.6)):
        made = dataclasses.replace(MADE, price_per_hour=price)
        deployment.tell(*(a_heartbeat(worker_id=name, price_per_hour=price) for name in ("w-1", "w-2")))
        deployment.tell(a_request(request_id="r-1"), a_result(a_step(made=made), request_id="r-1"))
    assert "cost 7.20 an hour; 0.0000200 an image, 5 min" in text_of(priced.page("/").text)
    assert "cost 0.0000200" in text_of(priced.page("/requests/r-1").text)
    assert not any("<dt>cost" in free.page(path).text for path in ("/", "/requests/r-1"))


def test_an_image_is_made_again_or_by_another_level_from_its_page() -> None:
    deployment = Deployment()
    deployment.view.catalog = offering()
    made_by_light(deployment)
    page = deployment.page("/requests/r-1")
    assert "light, seed 7, 2 steps, guidance 1, 32x32 px; f32" in text_of(page.text)
    assert re.findall(r"<button[^>]*>(Again|On \w+)<", page.text) == ["Again", "On heavy"]
    deployment.form("/requests/r-1", "/requests/r-1/again")
    deployment.form("/requests/r-1", "/requests/r-1/again", model="heavy")
    same, heavy = (decode(record.value or b"", GenerateRequest) for record in deployment.written(PROMPTS))
    assert (same.seed, same.options.model, same.options.steps, same.options.strict) == (7, "light", 2, True)
    assert (heavy.seed, heavy.options.model, heavy.options.steps) == (7, "heavy", None)


def test_an_image_over_a_draft_says_why_it_is_not_made_again() -> None:
    deployment = Deployment()
    made_by_light(deployment, begins_with="draft", from_step=1)
    page = deployment.page("/requests/r-1")
    assert "Not again: r-1 was begun at step 1 of 2 with its draft" in text_of(page.text)
    assert re.findall(r"<button[^>]*>(Again|On \w+)<", page.text) == ["On heavy"]
    answer = deployment.form("/requests/r-1", "/requests/r-1/again")
    assert "which no request can name" in text_of(answer.text)
    assert not deployment.written(PROMPTS)


def test_a_request_is_shown_as_curl_only_where_prompts_are() -> None:
    shown, hidden = Deployment(prompts="clear"), Deployment()
    for each in (shown, hidden):
        made_by_light(each)
    assert "rain" not in hidden.page("/requests/r-1").text
    (command,) = re.findall(r'<pre id="curl"[^>]*>(.*)</pre>', shown.page("/requests/r-1").text)
    words = shlex.split(html.unescape(command))
    assert words[:3] == ["curl", "-s", "http://127.0.0.1:8760/v1/predictions"]
    body = json.loads(words[words.index("--json") + 1])
    asked = parse(body, Requests(), NOW_MS)
    assert (asked.seed, asked.options.model, asked.options.steps, asked.prompt) == (7, "light", 2, "a red heart")


def test_what_has_ended_is_not_cancelled() -> None:
    deployment = Deployment()
    an_escalated(deployment)
    assert 'id="cancel"' not in deployment.page("/requests/r-1").text
    answer = deployment.form("/try", "/requests/r-1/cancel")
    assert "nothing to cancel: it had ended as COMPLETED" in text_of(answer.text)
    assert not deployment.written(OUTCOMES)


def test_a_request_is_asked_for_and_checked_as_everywhere() -> None:
    deployment = Deployment()
    deployment.form("/try", "/requests", prompt="a red heart", quality="high", tier="batch", tenant="shop")
    record = deployment.written("prompts.batch.v1")[0]
    asked = decode(record.value or b"", GenerateRequest)
    assert (asked.prompt, asked.quality, asked.tenant) == ("a red heart", "high", "shop")
    assert deployment.form("/try", "/requests", prompt="").status_code == 400
    assert deployment.form("/try", "/requests", prompt="a", deadline_in_ms="999999999999").status_code == 400


ALL = {
    "prompt": "a red heart", "model": "styles", "quality": "high", "size": "768x512", "steps": "7", "guidance": "2.5",
    "seed": "0", "n": "2", "tier": "interactive", "adapter": "candy:0.8 frost", 
    "strength": "0.5", "negative_prompt": "no text", "strict": "on", "tenant": "shop",
}  # fmt: skip


def test_the_form_has_each_input_of_a_request_and_states_it() -> None:
    deployment = Deployment()
    deployment.view.catalog = offering()
    page = deployment.page("/try").text
    names = set(re.findall(r'<(?:input|select|textarea)[^>]* name="([a-z_]+)"', page)) - {"token"}
    assert {own for name in names for own in ALIASES.get(name, (name,))} | {*BESIDE} == {*DECLARED}
    uri = deployment.store.put(input_name("shop"), png())
    answer = deployment.form("/try", "/requests", **ALL, image=uri, control=f"outline={uri}", deadline_in_ms="60000")
    asked = decode(deployment.written(PROMPTS)[0].value or b"", GenerateRequest)
    assert (asked.seed, asked.tier, asked.tenant, asked.quality) == (0, "interactive", "shop", "high")
    assert asked.deadline_ms == asked.created_ms + 60_000
    assert asked.options == GenerateOptions(
        n=2, width=768, height=512, steps=7, guidance=2.5, negative_prompt="no text", model="styles", strict=True,
        adapters=("candy", "frost"), adapter_weights=(0.8, 1.0), controls=("outline",), image=uri,
        control_images=(uri,), strength=0.5,
    )  # fmt: skip
    assert "waiting for" in text_of(answer.text), "it stands beside its form"
    unknown = deployment.form("/try", "/requests", prompt="a", adapter="cady")
    assert "did you mean 'candy'" in html.unescape(unknown.text)
    refused = deployment.form("/try", "/requests", prompt="a", steps="many")
    assert refused.status_code == 400
    assert "'steps' must be an integer" in html.unescape(refused.text)


def test_the_form_keeps_what_was_asked_for_and_prompts_only_where_they_are_shown() -> None:
    for shown, is_clear in (("hash", False), ("clear", True)):
        deployment = Deployment(prompts=shown)
        deployment.view.catalog = offering()
        uri = deployment.store.put(input_name("shop"), png())
        deployment.form("/try", "/requests", **ALL, image=uri, control=f"outline={uri}")
        asked = decode(deployment.written(PROMPTS)[0].value or b"", GenerateRequest)
        page = deployment.page(f"/try?id={asked.request_id}").text
        form = page.partition("<form")[2].partition("</form>")[0]
        for value in ("768x512", "candy:0.8 frost:1", f"outline:1={uri}", uri, "shop"):
            assert f'value="{value}"' in form
        assert "<option selected>interactive</option>" in form
        assert ("no text" in form) == (">a red heart<" in form) == is_clear


SHADOW = {"shadow": {"reason": "it would be so"}, "changes": [{"what": "policy", "in_force": "a", "shadow": "b"}]}


def test_a_policy_is_pinned_after_its_dry_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[Any] = []
    monkeypatch.setattr("agents.console.writing.order", lambda _settings, *order: ordered.append(order))
    monkeypatch.setattr("agents.console.writing.await_answer", lambda *_: "plan 3 is in force")
    deployment = Deployment()
    deployment.tell(a_plan())
    deployment.commands.answer = SHADOW
    policy = re.findall(r'<option value="([^"]+)"', deployment.page("/plan").text)[0]
    dry, answer = deployment.confirmed("/plan", "/plan/pin", policy=policy, parameters="x=0.5")
    assert "it would be so" in dry.text
    assert deployment.commands.asked == [("plan", "shadow", policy, "--parameter", "x=0.5", "-o", "json")]
    assert ordered == [(policy, {"x": 0.5}, 0, "tester")]
    assert "plan 3 is in force" in text_of(answer.text)
    assert deployment.form("/plan", "/confirm", confirmation="").status_code == 400


def test_the_history_of_plans_lists_decisions_and_not_their_repetitions() -> None:
    deployment = Deployment()
    repeated = [a_plan(version=at, created_ms=NOW_MS + 5000 * at) for at in range(1, 5)]
    deployment.tell(*repeated, a_plan(version=5, created_ms=NOW_MS + 60_000, dispatch="pull"))
    page = deployment.page("/plan").text
    history = page[page.index('id="h-history"') :]
    assert re.findall(r'href="/plan\?after=(\d+)"', history) == ["5", "1"]
    assert re.findall(r"rollback\?version=(\d+)", history) == ["1"]
    assert "55 s" in text_of(history)
    assert "4 plans" in text_of(history)
    page = deployment.page("/what-if")
    assert re.findall(r'<option value="(\d+)"', page.text) == ["5", "1"]
    deployment.tell(a_request(), at_ms=NOW_MS - 2_000_000)
    words = text_of(deployment.page("/what-if").text)
    assert f"5, {moment(NOW_MS + 60_000)}, {a_plan().policy}: {a_plan().reason}" in words
    assert f"15m, from {moment(NOW_MS - 900_000)}: 0 requests here 1h, from " in words
    assert f"1h, from {moment(NOW_MS - 3_600_000)}: 1 request here" in words


def test_a_rollback_shows_the_difference_and_orders_the_earlier_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[Any] = []
    monkeypatch.setattr("agents.console.writing.order", lambda _settings, *order: ordered.append(order))
    monkeypatch.setattr("agents.console.writing.await_answer", lambda *_: "plan 3 is in force")
    deployment = Deployment()
    deployment.tell(a_plan(version=1, dispatch="random"), a_plan(version=2))
    dry, _ = deployment.confirmed("/plan/rollback?version=1")
    assert "dispatch least-work random" in text_of(dry.text)
    assert ordered == [("", None, 1, "tester")]


def test_a_confirmation_holds_for_its_own_session_and_for_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.console.writing.order", lambda *_: pytest.fail("it was ordered"))
    deployment = Deployment()
    deployment.tell(a_plan(version=1, dispatch="random"), a_plan(version=2))
    dry = deployment.page("/plan/rollback?version=1")
    found = re.search(r'name="confirmation" value="([^"]+)"', dry.text)
    assert found
    assert deployment.form("/plan", "/confirm", confirmation=found[1]).status_code == 400


def test_a_dead_letter_is_redriven_after_its_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.console.writing.ended", lambda *_: {"r-1": "FAILED"})
    deployment = Deployment()
    request = a_request(request_id="r-1")
    position = deployment.buries("r-1", PROMPTS, encode(request))
    dry, answer = deployment.confirmed("/dead-letters", "/dead-letters/redrive", position=position)
    assert "to prompts.v1 as r-1-redrive-1" in text_of(dry.text)
    assert "1 of 1 sent" in text_of(answer.text)
    assert [record.key for record in deployment.written(PROMPTS)] == [b"r-1-redrive-1"]


def test_errors_of_clients_raise_no_badge_are_no_event_and_lower_no_figure() -> None:
    deployment = Deployment()
    deployment.buries("r-1", PROMPTS, b"x", error="InvalidRequest")
    asked = a_request(request_id="r-1", deadline_ms=NOW_MS + 1000)
    deployment.tell(asked, a_result(request_id="r-1", status=Status.REJECTED))
    assert 'class="badge">' not in deployment.page("/").text.partition("Dead letters")[2][:60]
    assert deployment.view.happenings.newest(9) == []
    assert "by clients" in deployment.page("/dead-letters").text
    own = [
        is_in_time(dataclasses.replace(a_result(status=status), code=code), NOW_MS, 0)
        for status, code in ((Status.REJECTED, "invalid"), (Status.FAILED, "invalid"), (Status.CANCELLED, ""))
    ]
    assert own == [None, None, None]
    ours = [
        is_in_time(dataclasses.replace(a_result(status=status), code=code), NOW_MS, 0)
        for status, code in ((Status.REJECTED, "overloaded"), (Status.FAILED, "poison"), (Status.EXPIRED, "deadline"))
    ]
    assert ours == [False, False, False]
    assert "by clients 1 cancelled, or refused" in text_of(deployment.page("/").text)
    deployment.buries("r-2", PROMPTS, b"x")
    deployment.buries("r-2", PROMPTS, b"x")
    assert text_of(deployment.page("/").text).count("EngineFailed at worker, from prompts.v1 2 times") == 1
    assert 'class="badge">2<' in deployment.page("/").text.partition("Dead letters")[2][:60]


def test_an_audit_is_kept_on_the_topic_and_shown_as_the_last() -> None:
    deployment = Deployment()
    deployment.commands.answer = as_json(Figures(accepted=10, outcomes={}, lost=("r-9",)), None)
    answer = deployment.form("/checks", "/checks/audit", since="1h")
    assert "10 accepted, 0 open; broken: 1 of 10 accepted requests are lost (r-9)" in text_of(answer.text)
    record = decode(deployment.written(ACTIONS)[-1].value or b"", OperatorAction)
    assert json.loads(record.detail)["found"]["lost"] == 1
    deployment.tell(record)
    assert "broken: 1 of 10 accepted requests" in deployment.page("/checks").text


@pytest.mark.parametrize(
    "broken",
    [
        {"unread": ("r-1",)}, {"deleted_unread": ("offsets 1 to 3 of prompts.v1",)}, {"doubled": {"r-1": 1}},
        {"late_commits": ("r-1",)}, {"reuse_contradictory": ("r-1",)}, {"reuse_sourceless": ("r-1",)},
        {"components_wrong": {"r-1": "another"}}, {},
    ],
)  # fmt: skip
def test_an_audit_says_that_a_promise_is_broken_where_the_command_does(broken: dict[str, Any]) -> None:
    deployment = Deployment()
    deployment.commands.answer = as_json(figures := Figures(accepted=10, outcomes={}, **broken), None)
    text = text_of(deployment.form("/checks", "/checks/audit", since="1h").text)
    assert (f"0 open; broken: {verdict(figures)}" if broken else "0 open; no promise is broken") in text


def test_a_command_that_fails_says_why() -> None:
    deployment = Deployment()
    deployment.commands.answer = "one command runs at a time"
    answer = deployment.form("/plan", "/plan/explain")
    assert answer.status_code == 503
    assert "one command runs at a time" in answer.text


def test_switches_and_the_requests_that_met_one_are_counted() -> None:
    deployment = Deployment()
    deployment.tell(a_plan(version=1, policy="a", created_ms=NOW_MS - 9000))
    deployment.tell(a_plan(version=2, policy="b", created_ms=NOW_MS - 4000))
    met = dataclasses.replace(a_result(a_step(), request_id="r-1"), created_ms=NOW_MS - 5000, ended_ms=NOW_MS)
    deployment.tell(met, dataclasses.replace(met, request_id="r-2", created_ms=NOW_MS - 3000))
    told = text_of(deployment.page("/").text)
    assert "policy or strategy changed once, 1 of 2 requests were under way then" in told
    assert "changed" not in text_of(Deployment().page("/").text)


def test_quality_holds_the_share_that_escalated_against_what_the_catalog_measured() -> None:
    deployment = Deployment()
    for n in range(20):
        an_escalated(deployment, f"r-{n}")
    words = text_of(deployment.page("/quality").text)
    assert "Confidence in images of light" in words
    assert re.search(r"100 % 8\d % to 100 %, of 20 escalated", words)


def test_requests_whose_route_asked_for_no_reuse_are_no_misses() -> None:
    deployment = Deployment()
    for name, miss in (("r-1", "route"), ("r-2", "route"), ("r-3", "")):
        deployment.tell(dataclasses.replace(a_result(a_step(), request_id=name), reuse_miss=miss))
    assert "No plan has asked for reuse among the newest requests." in text_of(deployment.page("/quality").text)
    deployment.tell(dataclasses.replace(a_result(a_step(), request_id="r-4"), reuse_miss="floor"))
    words = text_of(deployment.page("/quality").text)
    assert "1 did not: floor" in words
    assert "did not: route" not in words


def test_a_simulation_stands_beside_what_really_happened() -> None:
    deployment = Deployment()
    an_escalated(deployment)
    deployment.commands.answer = {"policies": {"p-one": {"violation_rate": 0.25, "latency_s": {"p95": 2.0}}}}
    page = deployment.page("/what-if").text
    policy = re.findall(r'<option value="([a-z-]+)"', page)[0]
    answer = deployment.form("/what-if", "/what-if", kind="simulate", since="1h", policy=policy, workers="3")
    assert deployment.commands.asked[0][:5] == ("simulate", "--from-topic", "--since", "1h", "--policy")
    words = text_of(answer.text)
    assert "not in time 0 % 25 %" in words
    assert "latency, 95 % 40 ms 2.0 s" in words
    assert deployment.form("/what-if", "/what-if", policy="none", workers="3").status_code == 400


def test_a_simulation_says_what_it_left_out_and_which_requests_each_side_counts() -> None:
    deployment = Deployment()
    an_escalated(deployment)
    deployment.tell(a_request(request_id="r-2"))  # has not ended
    unread = a_result(request_id="r-3", status=Status.REJECTED, reason="no request")
    deployment.tell(dataclasses.replace(unread, code="invalid", prompt=""))
    deployment.commands.answer = {"policies": {"joint": {"requests": 3.0, "violation_rate": 0.25, "shed": 1}}}
    deployment.commands.notes = ("skipped: 1 not a request", "<b>models that the catalog lacks: gpt-image-1")
    answer = deployment.form("/what-if", "/what-if", kind="simulate", since="1h", policy="joint", workers="3")
    words = text_of(answer.text)
    assert "requests 2 3" in words
    assert "not in time 0 % 25 %" in words
    assert "rejected for want of room 0 1" in words
    assert "later than the latency target of 1 s." in words
    assert "As it went: 2 requests that this console remembers, of which 1 has not ended." in words
    assert "1 id is left out there" in words
    assert "Simulated: 3 requests" in words
    assert "The numbers of requests differ" in words
    assert "simulate: skipped: 1 not a request" in words
    assert "&lt;b&gt;models that the catalog lacks" in answer.text


def test_a_simulation_that_its_time_cut_short_says_how_much_it_covers_and_is_held_against_that_much() -> None:
    deployment = Deployment()
    for at_s in (1800, 1200, 60):
        deployment.tell(a_request(request_id=f"r-{at_s}"), at_ms=NOW_MS - 1000 * at_s)
    part = {"requests": 2, "seconds": 660.0, "whole": {"requests": 3, "seconds": 1740.0}}
    deployment.commands.answer = {"trace": part, "policies": {"joint": {"requests": 2.0}}}
    answer = deployment.form("/what-if", "/what-if", kind="simulate", since="1h", policy="joint", workers="3")
    words = text_of(answer.text)
    assert "the first 11.0 of 29.0 min, 2 of 3 requests; both columns count these alone." in words
    assert "`pochade simulate --from-topic --since 1h --policy joint --workers 3` simulates all." in words
    assert "requests 2 2" in words
    deployment.commands.progress = "joint: 11 of 29 min"
    assert deployment.page("/what-if/progress").text == "joint: 11 of 29 min"


def test_reasons_that_quote_what_was_sent_are_shown_where_prompts_are() -> None:
    for shown, is_clear in (("hash", False), ("clear", True)):
        deployment = Deployment(prompts=shown)
        failed = a_result(request_id="r-1", status=Status.FAILED, reason="no field my-secret")
        deployment.tell(dataclasses.replace(failed, code="invalid", prompt=""))
        deployment.buries("r-1", PROMPTS, b"my-secret", error="InvalidRequest")
        pages = [deployment.page(path).text for path in ("/requests/r-1", "/dead-letters", "/")]
        assert ("my-secret" in pages[0]) == is_clear
        assert ("it broke" in pages[1]) == is_clear
        assert "it broke" not in pages[2]


@pytest.mark.parametrize(
    ("fault", "is_shown"), [("steps must be at most 200: got 999", True), ("got 'a red heart", False)]
)
def test_a_reason_is_withheld_only_if_it_quotes_a_prompt(fault: str, is_shown: bool) -> None:
    deployment = Deployment()
    asked = json.dumps({"prompt": "a red heart", "steps": 999})
    deployment.buries("r-1", PROMPTS, asked.encode(), error="InvalidRequest", message=fault)
    rejected = a_result(request_id="r-1", status=Status.REJECTED, reason=fault)
    deployment.tell(a_request(request_id="r-1", prompt="a red heart"), dataclasses.replace(rejected, code="invalid"))
    for path in ("/requests/r-1", "/dead-letters"):
        words = text_of(deployment.page(path).text)
        assert (fault in words, "withheld" in words) == (is_shown, not is_shown)


def test_errors_of_clients_are_not_offered_for_a_redrive() -> None:
    deployment = Deployment()
    deployment.buries("r-1", PROMPTS, b"x", error="InvalidRequest")
    assert "Redrive" not in deployment.page("/dead-letters").text
    position = deployment.buries("r-2", PROMPTS, b"x")
    page = deployment.page("/dead-letters").text
    assert re.findall(r'name="position" value="([^"]+)"', page) == [position]
    assert "Without clients' own errors, which would fail again." in page


ESTIMATED = {
    "plan_version": 1, "policy": "p-one", "requests": 30, "effective_requests": 12.0, "doubts": ["few were drawn"],
    "slo_s": 2.5, "skipped": {"never classified": 8}, "rests_on": "The estimate rests on 30 requests.",
    "estimate": {"violations": {"value": 0.2, "low": 0.1, "high": 0.3}, "latency_p50_s": {
        "value": 1.5, "low": 1.0, "high": 2.0}, "latency_p95_s": None},
    "as_it_went": {"violations": {"value": 0.4, "low": 0.3, "high": 0.5}, "latency_p95_s": None},
}  # fmt: skip


def test_the_last_estimate_stands_on_the_page_of_quality_with_its_intervals() -> None:
    deployment = Deployment()
    deployment.tell(a_plan())
    deployment.commands.answer = ESTIMATED
    answer = deployment.form("/quality", "/what-if", kind="estimate", since="1h", version="1")
    for words in (text_of(answer.text), text_of(deployment.page("/quality").text)):
        assert "later than 2.5 s, or no image 40 % 20 % 10 % to 30 %" in words
        assert "The estimate rests on 30 requests. The latency target is 2.5 s." in words
        assert "Both columns leave out 8 (never classified)." in words
        assert "1.5 s 1.0 s to 2.0 s latency, 95 %" + " \N{EN DASH}" * 3 in words
        assert "few were drawn" in words


def test_what_waits_for_a_level_that_no_worker_serves_is_said_though_the_plan_ordered_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.runtime.views.now_ms", lambda: NOW_MS)
    deployment = Deployment()
    named = a_request(options=GenerateOptions(model="heavy"))
    deployment.tell(a_plan(allocation={"w-1": "heavy"}), a_heartbeat(worker_id="w-1", variant="light"), named)
    assert "No worker serves heavy; 1 request waits for it, oldest" in text_of(deployment.page("/").text)
    deployment.tell(a_heartbeat(worker_id="w-1", variant="heavy"))
    assert "No worker serves" not in text_of(deployment.page("/").text)


def test_a_fleet_that_is_silent_as_a_whole_is_said_so_first_and_nothing_on_the_page_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.runtime.views.now_ms", lambda: NOW_MS)
    deployment = Deployment()
    deployment.tell(a_plan(allocation={"w-1": "light"}), a_heartbeat(worker_id="w-1"), a_request())
    assert "Serving; nothing to do." in text_of(deployment.page("/").text)
    deployment.now_ms += 30_000
    words = text_of(deployment.page("/").text)
    assert (
        "No worker serves: w-1 sent no heartbeat for 30 s; 1 request waits, oldest 30 s; if the broker answers, start"
        in words
    )
    assert "no worker ready 1 0 0 1" in words
    assert "any level 1, oldest 30 s" in words
    assert "Nothing, at the present demand" not in words
    assert "0.0 s" not in words


def test_a_fleet_that_has_begun_and_serves_nothing_yet_is_no_serving_one() -> None:
    deployment = Deployment()
    assert "No plan is in force; start a planner: pochade serve planner" in text_of(deployment.page("/").text)
    deployment.tell(a_plan(), a_heartbeat(worker_id="w-1", state="loading"))
    assert "No worker is ready yet, 1 started; wait until one has loaded its model." in text_of(
        deployment.page("/").text
    )


@pytest.mark.parametrize(("slowness", "is_marked"), [(1.3, False), (15.54, True)])
def test_a_worker_that_is_far_slower_than_plans_count_on_is_marked(slowness: float, is_marked: bool) -> None:
    deployment = Deployment()
    deployment.tell(a_heartbeat(worker_id="w-1", slowness=slowness))
    page = deployment.page("/fleet").text
    assert ('bad" data-label="run time">light on w-1 takes 15.5 times its profiled time<' in page) == is_marked
    assert ("as profiled" in page) != is_marked


@pytest.mark.parametrize(("images", "is_red"), [(1, False), (40, True)])
def test_few_images_do_not_contradict_the_curve_of_a_catalog(images: int, is_red: bool) -> None:
    deployment = Deployment()
    for n in range(images):  # none escalates, where the curve has half of them escalate
        step = a_step(confidence=0.97, threshold=0.5, discriminator="look")
        deployment.tell(a_request(request_id=f"r-{n}"), a_result(step, request_id=f"r-{n}"))
    page = deployment.page("/quality").text
    assert "the catalog's curve says" in text_of(page)
    assert ("outside of the interval" in page) == is_red


@pytest.mark.parametrize("path", ["/", "/plan"])
def test_a_plan_is_bound_by_workers_that_are_gone_and_by_what_waits_in_vain(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.runtime.views.now_ms", lambda: NOW_MS)

    def bound() -> str:
        return text_of(deployment.page(path).text).partition("What limits it ")[2]

    deployment = Deployment()
    deployment.tell(a_plan(allocation={"w-1": "light", "w-2": "light"}))
    deployment.tell(a_heartbeat(worker_id="w-1"), a_heartbeat(worker_id="w-2"))
    assert bound().startswith("Nothing, at the present demand.")
    deployment.tell(a_heartbeat(worker_id="w-2", state="stopped"), a_request(options=GenerateOptions(model="heavy")))
    assert bound().startswith("No worker serves heavy; 1 request waits for it, oldest 0 s light: 1 of 2 workers ready")
    deployment.now_ms += 30_000
    assert bound().startswith("No worker serves: w-1 sent no heartbeat for 30 s; 1 request waits, oldest 30 s")


def test_pages_that_were_loaded_compile_no_template_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment()
    deployment.pages.load()
    monkeypatch.setattr(jinja2.Environment, "compile", Mock(side_effect=AssertionError("compiled")))
    for path in ("/", "/requests", "/gallery", "/try", "/fleet", "/plan", "/quality", "/dead-letters", "/checks"):
        assert deployment.page(path).status_code == 200
