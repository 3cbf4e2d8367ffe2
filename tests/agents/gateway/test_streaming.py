"""What a client is told while its images are made: drafts, images and errors, by server-sent events."""

import asyncio
import base64
import json
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from agents.gateway import pipeline
from schemas.messages import Status
from streams.codec.headers import PREVIEWS
from tests.agents.gateway.deployment import Deployment, ended, event, tell
from tests.agents.gateway.test_app import HEART, png, posted

STREAMED = {**HEART, "stream": True}
Told = tuple[str, dict[str, Any]]


def events(text: str) -> list[Told]:
    """The events of a stream, without its comments."""
    parts = [part.splitlines() for part in text.split("\n\n") if part and not part.startswith(":")]
    fields = [dict(line.split(": ", 1) for line in part) for part in parts]
    return [(each["event"], json.loads(each["data"])) for each in fields]


class Streaming:
    """A streamed request, and what the topics tell of it."""

    def __init__(self, deployment: Deployment, answering: "asyncio.Task[httpx.Response]") -> None:
        self.deployment, self.answering = deployment, answering
        self.request_id = deployment.asked().request_id

    async def tells(self, message: Any) -> None:
        """Have a topic tell something, and let the stream take it in."""
        tell(self.deployment.jobs, message)
        for _ in range(20):
            await asyncio.sleep(0)

    async def starts(self, level: str = "light") -> None:
        await self.tells(event(self.request_id, "started", level=level, worker="w-1"))

    async def escalates(self, draft: bytes | None, tenant: str = "default") -> None:
        name = f"draft-{len(self.deployment.store._objects)}"
        uri = "memory:gone" if draft is None else self.deployment.store.put(name, draft)
        detail = {"from": "light", "to": "heavy", "preview": uri, "tenant": tenant}
        await self.tells(event(self.request_id, "escalated", **detail))

    async def ends(self, *images: bytes, **fields: Any) -> httpx.Response:
        uris = tuple(self.deployment.store.put(f"image-{n}", data) for n, data in enumerate(images))
        await self.tells(ended(self.request_id, image_uris=uris, **fields))
        return await self.answering


async def streaming(deployment: Deployment, body: dict[str, Any], **headers: str) -> Streaming:
    async def ask() -> httpx.Response:
        async with deployment.http() as http:
            return await http.post("/v1/images/generations", json=body, headers=headers)

    answering = asyncio.create_task(ask())
    while not deployment.written():
        await asyncio.sleep(0)
    return Streaming(deployment, answering)


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"pochade_gateway_{name}_total", labels) or 0.0


def test_the_drafts_of_a_cascade_are_the_partial_images_and_the_image_ends_the_stream() -> None:
    deployment = Deployment()

    async def ask() -> httpx.Response:
        asked = await streaming(deployment, {**STREAMED, "partial_images": 3, "quality": "xhigh", "user": "me"})
        await asked.starts()
        await asked.escalates(png("blue"))
        await asked.starts("heavy")
        return await asked.ends(png(), width=16, height=8)

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert "content-length" not in answer.headers
    assert answer.headers["x-request-id"] == deployment.asked().request_id
    (partial, completed) = events(answer.text)
    shared = {"size": "16x8", "quality": "xhigh", "background": "opaque", "output_format": "png"}
    assert partial[0] == partial[1]["type"] == "image_generation.partial_image"
    assert base64.b64decode(partial[1]["b64_json"]) == png("blue")
    assert partial[1].items() >= {**shared, "partial_image_index": 0}.items()
    assert completed[0] == completed[1]["type"] == "image_generation.completed"
    assert base64.b64decode(completed[1]["b64_json"]) == png()
    assert completed[1].items() >= {**shared, "safety_identifier": "me"}.items()
    assert completed[1]["pochade"]["request_id"] == deployment.asked().request_id


@pytest.mark.parametrize(("wanted", "told"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_no_more_drafts_are_sent_than_are_wanted_or_there_are(wanted: int, told: int) -> None:
    async def ask() -> httpx.Response:
        asked = await streaming(Deployment(), {**STREAMED, "partial_images": wanted})
        await asked.starts()
        for color in ("blue", "green"):
            await asked.escalates(png(color))
        return await asked.ends(png())

    names = [name for name, _ in events(asyncio.run(ask()).text)]
    assert names == ["image_generation.partial_image"] * told + ["image_generation.completed"]


def test_a_draft_that_is_gone_or_another_tenants_is_left_out_and_the_image_comes_all_the_same() -> None:
    unread, sent = count("partial_images", how="unread"), count("partial_images", how="sent")

    async def ask() -> httpx.Response:
        asked = await streaming(Deployment(), {**STREAMED, "partial_images": 3, "output_format": "webp"})
        await asked.starts()
        await asked.escalates(None)
        await asked.escalates(b"no image")
        await asked.escalates(png("blue"), tenant="others")
        return await asked.ends(png())

    (completed,) = events(asyncio.run(ask()).text)
    assert base64.b64decode(completed[1]["b64_json"])[8:12] == b"WEBP"
    assert count("partial_images", how="unread") == unread + 2
    assert count("partial_images", how="sent") == sent


def test_each_of_several_images_is_an_event() -> None:
    deployment = Deployment()
    deployment.ends(png(), png("blue"))
    told = events(posted(deployment, {**STREAMED, "n": 2}).text)
    assert [base64.b64decode(each["b64_json"]) for _, each in told] == [png(), png("blue")]


def test_what_is_refused_before_a_worker_begins_is_refused_by_its_status_as_without_a_stream() -> None:
    deployment = Deployment()
    deployment.ends(status=Status.REJECTED, code="quota", reason="tenant has had its images", retry_after_ms=2500)
    plain, streamed = posted(deployment, HEART), posted(deployment, STREAMED)
    assert (streamed.status_code, streamed.headers["retry-after"]) == (429, "3")
    assert streamed.json() == plain.json()


def test_what_is_refused_later_is_an_error_event_in_openais_shape_and_counted() -> None:
    before = count("streams_refused", code="poison")

    async def ask() -> httpx.Response:
        asked = await streaming(Deployment(), STREAMED)
        await asked.starts()
        return await asked.ends(status=Status.FAILED, code="poison", reason="the engine failed 3 times")

    answer = asyncio.run(ask())
    error = {"message": "the engine failed 3 times", "type": "server_error", "param": None, "code": "poison"}
    assert (answer.status_code, events(answer.text)) == (200, [("error", {"type": "error", "error": error})])
    assert count("streams_refused", code="poison") == before + 1


def test_a_failure_of_our_own_ends_a_stream_with_an_id_and_nothing_else() -> None:
    async def ask() -> httpx.Response:
        asked = await streaming(Deployment(), {**STREAMED, "output_format": "jpeg"})
        await asked.starts()
        return await asked.ends(b"no image")

    ((name, told),) = events(asyncio.run(ask()).text)
    assert (name, told["error"]["code"]) == ("error", "internal")
    assert told["error"]["message"].startswith("the gateway failed; its log says why at request ")


def test_a_stop_ends_a_stream_with_where_the_request_goes_on() -> None:
    async def ask() -> tuple[str, httpx.Response]:
        asked = await streaming(Deployment(), STREAMED)
        await asked.starts()
        asked.deployment.jobs.stop()
        return asked.request_id, await asked.answering

    request_id, answer = asyncio.run(ask())
    ((_, told),) = events(answer.text)
    assert told["error"]["code"] == "stopping"
    assert f"/v1/predictions/{request_id}" in told["error"]["message"]


def test_silence_is_filled_with_comments_and_ends_with_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "KEEPALIVE_S", 0.001)
    monkeypatch.setattr("agents.gateway.images_api.LATE_S", -299.95)
    answer = posted(Deployment(), STREAMED)
    assert answer.text.startswith(": still in work\n\n: still in work\n\n")
    ((name, told),) = events(answer.text)
    assert (name, told["error"]["code"]) == ("error", "waiting")


def test_a_repetition_of_a_streamed_request_joins_it_and_is_sent_the_same_drafts() -> None:
    deployment = Deployment()

    async def ask() -> tuple[httpx.Response, httpx.Response]:
        asked = await streaming(deployment, {**STREAMED, "partial_images": 1})
        await asked.starts()
        await asked.escalates(png("blue"))
        again = await streaming(deployment, {**STREAMED, "partial_images": 1}, **{"x-stainless-retry-count": "1"})
        while deployment.log_end.readings == 0:
            await asyncio.sleep(0)
        return await asked.ends(png()), await again.answering

    first, again = asyncio.run(ask())
    assert first.headers["x-request-id"] == again.headers["x-request-id"] == deployment.asked().request_id
    assert len(events(first.text)) == 2
    assert events(first.text) == events(again.text)


def test_previews_of_steps_are_asked_for_and_come_as_partial_images_until_there_are_as_many_as_wanted() -> None:
    async def told() -> tuple[Streaming, list[Told]]:
        stream = await streaming(Deployment(), {**STREAMED, "partial_images": 2})
        await stream.starts("heavy")
        for step, color in ((2, "blue"), (5, "green"), (7, "white")):
            uri = stream.deployment.store.put(f"preview-{step}", png(color))
            detail = {"level": "heavy", "stage": 0, "step": step, "steps": 8, "preview": uri, "tenant": "default"}
            await stream.tells(event(stream.request_id, "preview", **detail))
        return stream, events((await stream.ends(png())).text)

    stream, come = asyncio.run(told())
    (written,) = stream.deployment.written()
    assert written.headers[PREVIEWS] == b"2"
    images = [base64.b64decode(data["b64_json"]) for _, data in come]
    assert images == [png("blue"), png("green"), png()]
    assert [data.get("partial_image_index") for _, data in come] == [0, 1, None]


@pytest.mark.parametrize("body", [HEART, STREAMED, {**STREAMED, "partial_images": 0}])
def test_no_previews_are_asked_for_where_no_partial_images_are(body: dict[str, Any]) -> None:
    deployment = Deployment()
    deployment.ends(png())
    posted(deployment, body)
    assert PREVIEWS not in deployment.written()[0].headers


def test_another_tenants_preview_is_not_shown() -> None:
    async def told() -> list[Told]:
        stream = await streaming(Deployment(), {**STREAMED, "partial_images": 2})
        uri = stream.deployment.store.put("preview", png("blue"))
        await stream.tells(event(stream.request_id, "preview", step=1, steps=8, preview=uri, tenant="others"))
        return events((await stream.ends(png())).text)

    assert [name for name, _ in asyncio.run(told())] == ["image_generation.completed"]
