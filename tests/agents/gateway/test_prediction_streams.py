"""What a client is told of a prediction's way, from its beginning or from where it was cut, at any gateway."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from agents.gateway.jobs import Job
from agents.gateway.refusals import Refusal
from agents.gateway.streaming.notes import Note
from agents.gateway.streaming.predictions import BEFORE, LAST, Position, position_of, stream_events
from schemas.messages import Status
from streams.settings import Gateway
from tests.agents.gateway.deployment import Deployment, ended, event, tell
from tests.agents.gateway.test_app import HEART, got, posted, spoken
from tests.builders import NOW_MS, a_request

NOTES = (
    Note(7, "started", NOW_MS, "level=light stage=0 steps=4"),
    Note(9, "escalated", NOW_MS, "from=light to=heavy", "a-draft", "default"),
)
Event = tuple[str, str, str]


def events(text: str) -> list[Event]:
    """Id, name and data of each event of a stream."""
    parts = [part.splitlines() for part in text.split("\n\n") if part.startswith("id: ")]
    fields = [dict(line.split(": ", 1) for line in part) for part in parts]
    return [(each["id"], each["event"], each["data"]) for each in fields]


def named_parts(text: str) -> list[tuple[str, str]]:
    """Name and data of each event, with an id or without."""
    parts = [part.splitlines() for part in text.split("\n\n") if part.startswith(("event: ", "id: "))]
    return [(part[-2].removeprefix("event: "), part[-1].removeprefix("data: ")) for part in parts]


def all_of(job: Job, tenant: str = "default") -> list[tuple[Position, str, str]]:
    return [tuple(each) for each in stream_events(job, tenant, "at/{}".format)]  # type: ignore[misc]


def test_notes_come_in_the_order_of_their_log_then_the_images_then_the_end() -> None:
    job = Job("r-1", NOW_MS, notes=NOTES, result=ended(image_uris=("one", "two")))
    assert all_of(job) == [
        ((0, 7), "logs", "started level=light stage=0 steps=4"),
        ((0, 9), "logs", "escalated from=light to=heavy preview=at/a-draft"),
        ((1, 0), "output", "at/one"),
        ((1, 1), "output", "at/two"),
        ((2, 0), "done", "{}"),
    ]
    assert all_of(job, "others")[1][2] == "escalated from=light to=heavy"
    positions = [each for each, _, _ in all_of(job)]
    assert positions == sorted(positions)
    assert all_of(Job("r-1", NOW_MS, notes=NOTES)) == all_of(job)[:2]


@pytest.mark.parametrize(
    ("status", "names", "how"),
    [(Status.FAILED, ["error", "done"], "error"), (Status.REJECTED, ["error", "done"], "error"),
     (Status.CANCELLED, ["done"], "canceled"), (Status.EXPIRED, ["done"], "canceled")],
)  # fmt: skip
def test_an_end_without_images_says_why(status: Status, names: list[str], how: str) -> None:
    told = all_of(Job("r-1", NOW_MS, result=ended(status=status, code="x", reason="y")))
    assert [name for _, name, _ in told] == names
    assert json.loads(told[-1][2]) == {"reason": how}
    assert names == ["done"] or json.loads(told[0][2]) == {"detail": "x: y"}


def test_an_id_tells_its_place_and_nothing_else_does() -> None:
    assert [position_of(each) for each in ("", "0.9", "2.0")] == [BEFORE, Position(0, 9), LAST]
    for wrong in ("9", "0.", "-1.0", "0.x", "0.²", "0." + "9" * 30, "<script>"):
        with pytest.raises(Refusal, match="Last-Event-ID must be"):
            position_of(wrong)


def begun(deployment: Deployment, **headers: str) -> dict[str, Any]:
    """A prediction, told as another gateway would read it."""
    shown: dict[str, Any] = posted(deployment, {"input": HEART, "stream": True}, "/v1/predictions", **headers).json()
    return shown


def test_a_stream_is_followed_to_its_end_and_gone_on_with_from_any_of_its_ids_at_any_gateway() -> None:
    first, second = Deployment(), Deployment()
    shown = begun(first)
    uri = first.store.put("draft", b"a draft")

    async def follow() -> httpx.Response:
        async with first.http() as http:
            answering = asyncio.create_task(http.get(shown["urls"]["stream"]))
            while not first.jobs._feeds:
                await asyncio.sleep(0)
            for message in messages:
                for deployment in (first, second):
                    tell(deployment.jobs, message, offset=messages.index(message))
                await asyncio.sleep(0)
            return await answering

    messages = [
        event(shown["id"], "started", level="light"),
        event(shown["id"], "escalated", to="heavy", preview=uri, tenant="default"),
        event(shown["id"], "started", level="heavy"),
        ended(shown["id"], image_uris=("memory:image",)),
    ]
    answer = asyncio.run(follow())
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.text.startswith("retry: 1000\n\n")
    told = events(answer.text)
    assert [name for _, name, _ in told] == ["logs", "logs", "logs", "output", "done"]
    assert got(first, told[1][2].partition("preview=")[2]).content == b"a draft"
    assert told[3][2].startswith("http://127.0.0.1:8760/v1/files/")
    for n, (event_id, _, _) in enumerate(told[:-1]):
        again = spoken(second, lambda http, last=event_id: http.get(
            shown["urls"]["stream"], headers={"last-event-id": last}
        ))  # fmt: skip
        assert events(again.text) == told[n + 1 :]
    over = spoken(second, lambda http: http.get(shown["urls"]["stream"], headers={"last-event-id": told[-1][0]}))
    assert (over.status_code, over.content) == (204, b"")
    assert got(first, f"/v1/predictions/{shown['id']}").json()["logs"].splitlines() == [each[2] for each in told[:3]]


def test_a_gateway_that_stops_ends_a_stream_without_an_end_so_that_its_client_goes_on_at_another() -> None:
    deployment = Deployment()
    shown = begun(deployment)
    tell(deployment.jobs, event(shown["id"], "started"))
    deployment.jobs.stop()
    answer = got(deployment, shown["urls"]["stream"])
    assert [name for _, name, _ in events(answer.text)] == ["logs"]
    assert answer.text.endswith(": this gateway stops\n\n")


def test_a_stream_lasts_no_longer_than_its_address_is_good() -> None:
    deployment = Deployment(Gateway(url_lifetime_s=1))
    shown = begun(deployment)
    deployment.now_ms += 990
    ((name, told),) = named_parts(got(deployment, shown["urls"]["stream"]).text)
    assert (name, "has no result after" in told) == ("error", True)


def test_an_address_of_a_stream_is_a_secret_that_holds_for_a_while_and_for_its_tenant_alone() -> None:
    deployment = Deployment(Gateway(authentication="bearer"))
    shown = begun(deployment, authorization=f"Bearer {deployment.key('studio')}")
    stream = shown["urls"]["stream"]
    tell(deployment.jobs, ended(shown["id"], tenant="studio", status=Status.CANCELLED))
    assert events(got(deployment, stream).text) == [("2.0", "done", '{"reason": "canceled"}')]
    assert spoken(deployment, lambda http: http.head(stream)).status_code == 200
    image = stream.replace("/v1/streams/", "/v1/files/")
    altered = stream[:-1] + ("A" if stream[-1] != "A" else "B")
    assert [got(deployment, each).status_code for each in (image, altered)] == [404, 404]
    wrong = spoken(deployment, lambda http: http.get(stream, headers={"last-event-id": "x"}))
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "Last-Event-ID")
    deployment.now_ms += 3_600_000
    assert got(deployment, stream).status_code == 410


def test_a_stream_of_a_request_that_is_no_longer_remembered_is_not_found() -> None:
    deployment = Deployment(max_jobs=1)
    shown = begun(deployment)
    tell(deployment.jobs, a_request(request_id="newer"))
    assert got(deployment, shown["urls"]["stream"]).status_code == 404
