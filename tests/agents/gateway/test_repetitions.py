"""Requests that come again over HTTP: each try of one is answered with the same images, and two equal ones are two."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from agents.gateway.repetitions.log_end import LogEnd
from agents.gateway.repetitions.marks import MARK, MAX_EQUAL
from schemas.messages import GenerateRequest, Status
from schemas.record import Incoming
from schemas.topics import PROMPTS
from streams.codec.avro import decode
from streams.codec.headers import FACT
from streams.settings import load
from tests.agents.gateway.deployment import Deployment, ended, tell
from tests.agents.gateway.test_app import posted

HEART = {"prompt": "a red heart"}


def ids(deployment: Deployment) -> list[str]:
    return [decode(record.value or b"", GenerateRequest).request_id for record in deployment.written()]


def tried(deployment: Deployment, count: int = 0, body: Any = HEART, **headers: str) -> httpx.Response:
    return posted(deployment, body, **{"x-stainless-retry-count": str(count), **headers})


def id_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    told: str = answer.json()["pochade"]["request_id"]
    return told


def test_equal_bodies_are_different_requests_and_their_repetitions_join_one_each() -> None:
    deployment = Deployment()
    deployment.ends()
    first, second = id_of(tried(deployment)), id_of(tried(deployment))
    assert first != second
    assert deployment.log_end.readings == 0
    assert [id_of(tried(deployment, 1)), id_of(tried(deployment, 1))] == [first, second]
    assert [id_of(tried(deployment, 2)), id_of(tried(deployment, 2))] == [first, second]
    assert ids(deployment) == [first, second]
    third = id_of(tried(deployment, 1))  # of a request that nobody has written
    assert ids(deployment) == [first, second, third]


def test_a_repetition_with_another_body_is_another_request() -> None:
    deployment = Deployment()
    deployment.ends()
    first = id_of(tried(deployment))
    assert id_of(tried(deployment, 1, {"prompt": "a blue heart"})) != first


def test_a_repetition_of_what_was_cancelled_as_its_client_hung_up_is_a_new_request() -> None:
    deployment = Deployment()
    deployment.ends(status=Status.CANCELLED, code="cancelled", reason="its client hung up")
    assert tried(deployment).status_code == 409
    deployment.ends()
    assert id_of(tried(deployment, 1)) == ids(deployment)[1]


def test_who_was_refused_for_now_asks_anew() -> None:
    deployment = Deployment()
    deployment.ends(status=Status.REJECTED, code="overloaded", reason="busy", retry_after_ms=10)
    for keyed in ({}, {"idempotency-key": "mine"}):
        assert tried(deployment, **keyed).status_code == 429
        deployment.ends()
        assert tried(deployment, 1, **keyed).status_code == 200
        deployment.ends(status=Status.REJECTED, code="overloaded", reason="busy", retry_after_ms=10)
    assert len(set(ids(deployment))) == 4


def test_a_request_with_a_key_has_one_id_at_every_gateway() -> None:
    here, there = Deployment(), Deployment()
    for each in (here, there):
        each.ends()
    mine = id_of(tried(here, **{"idempotency-key": "mine"}))
    assert id_of(tried(here, **{"idempotency-key": "mine"})) == mine
    assert ids(here) == [mine]
    assert id_of(tried(there, **{"idempotency-key": "mine"})) == mine  # the pipeline drops the second record
    assert id_of(tried(here, **{"idempotency-key": "another"})) != mine
    assert id_of(tried(here, 0, {"prompt": "a star"}, **{"idempotency-key": "mine"})) != mine


def test_a_repetition_waits_for_what_its_first_try_began() -> None:
    deployment = Deployment()

    async def cut() -> httpx.Response:
        async with deployment.http() as http:
            path = "/v1/images/generations"
            first = asyncio.create_task(http.post(path, json=HEART))
            while not deployment.written():
                await asyncio.sleep(0)
            first.cancel()
            again = asyncio.create_task(http.post(path, json=HEART, headers={"x-stainless-retry-count": "1"}))
            while deployment.log_end.readings == 0:
                await asyncio.sleep(0)
            tell(deployment.jobs, ended(ids(deployment)[0], image_uris=()))
            return await again

    assert id_of(asyncio.run(cut())) == ids(deployment)[0]
    assert len(ids(deployment)) == 1


@pytest.mark.parametrize("headers", [{"x-stainless-retry-count": "-1"}, {"x-stainless-retry-count": "many"},
                                     {"idempotency-key": "k" * 256}])  # fmt: skip
def test_a_key_or_a_count_that_is_none_is_refused(headers: dict[str, str]) -> None:
    answer = posted(Deployment(), HEART, **headers)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, next(iter(headers)))


def test_a_prediction_with_a_key_begins_once() -> None:
    deployment = Deployment()
    told = [posted(deployment, {"input": HEART}, "/v1/predictions", **{"idempotency-key": "mine"}).json() for _ in "12"]
    assert told[0]["id"] == told[1]["id"]
    assert len(deployment.written()) == 1


class Counted(LogEnd):
    """Reads when the test lets it."""

    def __init__(self) -> None:
        super().__init__(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), lambda _record: None, 1000)
        self.readings, self.may_end = 0, threading.Event()

    def _read(self) -> None:
        self.readings += 1
        assert self.may_end.wait(60)


def test_a_reading_that_runs_does_not_serve_who_came_after_it_began_and_the_next_serves_all_of_them() -> None:
    log_end = Counted()

    async def ask() -> None:
        first = asyncio.create_task(log_end.reached())
        while log_end.readings == 0:
            await asyncio.sleep(0)
        later = [asyncio.create_task(log_end.reached()) for _ in range(50)]
        await asyncio.sleep(0)
        log_end.may_end.set()
        await asyncio.gather(first, *later)

    asyncio.run(ask())
    assert log_end.readings == 2


def test_a_body_that_is_sent_for_days_is_remembered_some_times() -> None:
    found, headers = Deployment().repetitions, {FACT + MARK: b"one mark"}
    for at in range(300):
        key = b"r-%d" % at
        record = Incoming(topic=PROMPTS, partition=0, offset=at, timestamp_ms=at, key=key, value=b"", headers=headers)
        found.on_record(record)
    assert len(found._marked["one mark"]) == MAX_EQUAL
    assert "r-299" in found._marked["one mark"]
