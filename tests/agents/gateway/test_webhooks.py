"""What is told of a prediction at its tenant's address: signed, in order, again until it is taken, by one gateway."""

import asyncio
import base64
import contextlib
import dataclasses
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agents.gateway.jobs import Job
from agents.gateway.streaming.notes import Note
from agents.gateway.webhooks.delivery import WebhookDelivery
from agents.gateway.webhooks.notices import LONGEST_MS, begun_anew, failed, is_over, next_event, with_delivered
from agents.gateway.webhooks.posting import NotDelivered
from schemas.messages import Event, Result, Status, Webhook
from schemas.record import Incoming, Outgoing
from schemas.topics import DLQ, PROMPTS, WEBHOOKS
from streams.codec.avro import decode, encode
from streams.operator.dead_letters import dead_letter_of
from streams.settings import Gateway, Webhooks
from tests.agents.gateway.deployment import KEY, Deployment, ended, event, tell
from tests.agents.gateway.test_app import HEART, got, posted, spoken
from tests.builders import NOW_MS
from tests.patience import PATIENCE_S

URL = "https://studio.example/told?secret=x"
HOOK = Webhook(
    request_id="r-1", tenant="default", url=URL, events=("start", "output", "logs", "completed"),
    base_url="http://here", created_ms=NOW_MS,
)  # fmt: skip
STARTED, ESCALATED = Note(7, "started", NOW_MS, "level=light"), Note(9, "escalated", NOW_MS, "to=heavy")


def named(**fields: Any) -> Webhook:
    return dataclasses.replace(HOOK, **fields)


def test_events_are_told_in_their_order_and_each_once() -> None:
    job, hook, seen = Job("r-1", NOW_MS), HOOK, list[str]()
    for news in (job, Job("r-1", 0, notes=(STARTED,)), Job("r-1", 0, notes=(STARTED, ESCALATED)),
                 Job("r-1", 0, notes=(STARTED, ESCALATED), result=ended())):  # fmt: skip
        while (come := next_event(hook, news)) is not None:
            hook = with_delivered(hook, come)
            seen.append(come)
    assert seen == ["start", "logs.7", "logs.9", "output", "completed"]
    assert is_over(hook, Job("r-1", 0, notes=(STARTED, ESCALATED), result=ended()))
    assert not is_over(HOOK, job)


def test_of_several_notes_the_newest_is_told_and_only_events_that_are_wanted() -> None:
    job = Job("r-1", NOW_MS, notes=(STARTED, ESCALATED))
    assert next_event(with_delivered(HOOK, "start"), job) == "logs.9"
    assert next_event(named(events=("output", "completed")), job) is None
    assert is_over(named(events=("start",), told=("start",)), Job("r-1", 0, result=ended()))
    assert next_event(HOOK, Job("r-1", 0, result=ended(status=Status.FAILED))) == "completed"


def test_an_event_that_failed_is_told_again_as_what_it_was_by_a_gateway_that_knows_of_it() -> None:
    pending = failed(with_delivered(HOOK, "start"), "logs.7", NOW_MS, 0.5)
    assert next_event(pending, Job("r-1", 0, notes=(STARTED, ESCALATED))) == "logs.7"
    assert next_event(pending, Job("r-1", 0)) is None
    done = failed(named(told=("start", "logs.9")), "completed", NOW_MS, 0.5)
    assert next_event(done, Job("r-1", 0, notes=(STARTED, ESCALATED))) is None
    assert next_event(done, Job("r-1", 0, result=ended())) == "completed"


def test_a_redriven_event_is_told_as_what_it_was_and_by_no_more_attempts_than_a_new_one() -> None:
    kept = begun_anew(failed(with_delivered(HOOK, "start"), "logs.7", NOW_MS, 0.5), "logs.7")
    assert next_event(kept, Job("r-1", 0, notes=(STARTED, ESCALATED))) == "logs.7"
    assert (kept.attempts, kept.next_ms) == (0, 0)


def test_waits_double_up_to_a_longest_and_are_spread_by_a_draw() -> None:
    waits = [failed(named(attempts=n), "start", 0, 0).next_ms for n in range(12)]
    assert waits[:4] == [1000, 2000, 4000, 8000]
    assert waits[-2:] == [LONGEST_MS, LONGEST_MS]
    assert sum(waits) < 3_600_000
    assert [failed(HOOK, "start", 0, draw).next_ms for draw in (0, 0.5, 1)] == [1000, 900, 800]


def is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """As a receiver verifies it: Standard Webhooks, "Verifying signatures"."""
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    stated = [each.partition(",")[2] for each in headers["webhook-signature"].split() if each.startswith("v1,")]
    return base64.b64encode(digest).decode() in stated


@dataclasses.dataclass
class Turn:
    is_ours: bool = True
    ring: Callable[[], None] = lambda: None
    is_started: bool = False

    def start(self, ring: Callable[[], None]) -> None:
        self.ring, self.is_started = ring, True

    def pass_on(self, *, is_ours: bool) -> None:
        self.is_ours = is_ours
        self.ring()


class Receiver:
    """Takes webhooks, or fails as often as it is told to; a poster in the gateway's eyes."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.got: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.tried: list[str] = []
        self.bodies: list[bytes] = []
        self.is_hanging = False
        self.hanging = 0

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        assert url.startswith("https://")
        self.tried.append(headers["webhook-id"])
        self.bodies.append(body)
        if self.is_hanging:
            self.hanging += 1
            await asyncio.Event().wait()
        if self.failures:
            raise NotDelivered(self.failures[0], is_final=self.failures.pop(0) == "gone")
        self.got.append((headers, json.loads(body)))

    @property
    def statuses(self) -> list[str]:
        return [body["status"] for _, body in self.got]


class Running:
    """A gateway that delivers, whose topic is a list in memory, and whose time passes while it waits."""

    def __init__(self, receiver: Receiver, deployment: Deployment | None = None, **limits: Any) -> None:
        self.deployment = deployment or Deployment()
        self.receiver, self.turn, self.waits, self.read = receiver, Turn(), list[float](), 0
        self.past: list[Incoming] = []
        self.is_lagging = False
        self.looked_up: list[set[bytes]] = []
        self.delivery = WebhookDelivery(
            self.deployment.hooks, self.deployment.jobs, self.turn, receiver, self.write, self.look_up,
            self.deployment.shown, Webhooks(**limits), KEY, 60, lambda: self.deployment.now_ms, lambda: 0.0, self.sleep,
        )  # fmt: skip

    def write(self, record: Outgoing) -> Any:
        delivered = self.deployment.producer.send(record)
        if not self.is_lagging:
            self.tell()
        return delivered

    def tell(self, most: int = 1000) -> None:
        """Have the topic tell what was written to it."""
        written = self.deployment.written(WEBHOOKS)[: self.read + most]
        for offset, record in list(enumerate(written))[self.read :]:
            self.deployment.hooks.on_record(
                Incoming(topic=WEBHOOKS, partition=0, offset=offset, timestamp_ms=0, key=record.key, value=record.value)
            )
        self.read = len(written)

    def look_up(self, since_ms: int, keys: set[bytes]) -> list[Incoming]:
        assert 0 < since_ms <= self.deployment.now_ms - 60_000
        self.looked_up.append(keys)
        return [record for record in self.past if record.key in keys]

    async def sleep(self, wait_s: float) -> None:
        self.waits.append(wait_s)
        self.deployment.now_ms += round(1000 * wait_s)
        await asyncio.sleep(0)

    def begin(self, hook: Webhook = HOOK) -> None:
        self.write(Outgoing(topic=WEBHOOKS, key=hook.request_id.encode(), value=encode(hook)))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.delivery.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0)

    async def until_told(self) -> None:
        """Until nothing is left to tell, and the topic says so."""
        await self.until(lambda: not self.deployment.hooks.ids() and not self.delivery._tasks)


def delivered(running: Running, *messages: Event | Result, hook: Webhook = HOOK) -> None:
    """Have a webhook delivered to its end, while the topics tell this."""

    async def deliver() -> None:
        async with running.running():
            running.begin(hook)
            for message in messages:
                tell(running.deployment.jobs, message)
                await asyncio.sleep(0)
            await running.until_told()

    asyncio.run(deliver())


def test_a_prediction_is_told_signed_from_its_start_to_its_end() -> None:
    running = Running(receiver := Receiver())
    uri = running.deployment.store.put("image", b"an image")
    messages = [event("r-1", "started", level="light"), ended(image_uris=(uri,))]
    delivered(running, *messages)
    secret = got(running.deployment, "/v1/webhooks/default/secret").json()["key"]
    assert secret.startswith("whsec_")
    for (headers, _), body in zip(receiver.got, receiver.bodies, strict=True):
        assert is_signed(headers, body, secret)
        assert not is_signed(headers, body + b" ", secret)
        assert not is_signed({**headers, "webhook-id": "msg_0"}, body, secret)
    assert receiver.statuses[-1] == "succeeded"
    ids = [headers["webhook-id"] for headers, _ in receiver.got]
    assert len(set(ids)) == len(ids)
    last = receiver.got[-1][1]
    assert last["output"][0].startswith("http://here/v1/files/")
    assert got(running.deployment, last["output"][0].removeprefix("http://here")).content == b"an image"


def test_what_fails_is_told_again_with_the_same_id_and_then_the_rest_in_order() -> None:
    running = Running(receiver := Receiver("answered 500", "did not answer"))
    delivered(running, ended(), hook=named(events=("output", "completed")))
    assert receiver.tried[0] == receiver.tried[1] == receiver.tried[2] != receiver.tried[3]
    assert running.waits == [1, 2]
    assert [body["status"] for _, body in receiver.got] == ["succeeded", "succeeded"]
    assert running.deployment.written(DLQ) == []


@pytest.mark.parametrize(("failures", "attempts"), [(["answered 500"] * 3, 3), (["gone"], 1)])
def test_what_is_given_up_on_lies_on_the_dlq_with_its_reason_and_is_told_once_it_is_redriven(
    failures: list[str], attempts: int
) -> None:
    running = Running(receiver := Receiver(*failures), max_attempts=3)
    delivered(running, ended(), hook=named(events=("completed",)))
    (record,) = running.deployment.written(DLQ)
    letter = dead_letter_of(
        Incoming(
            topic=DLQ, partition=0, offset=0, timestamp_ms=0, key=record.key, value=record.value, headers=record.headers
        )
    )
    assert (letter.role, letter.topic, letter.error, letter.request_id) == ("gateway", WEBHOOKS, "WebhookFailed", "r-1")
    assert letter.message == f"webhook completed was not delivered: {failures[-1]} ({attempts} attempts)"
    assert "secret" not in letter.message
    assert receiver.got == []
    delivered(running, hook=decode(record.value or b"", Webhook))
    assert [body["status"] for _, body in receiver.got] == ["succeeded"]
    assert set(receiver.tried) == {receiver.got[0][0]["webhook-id"]}


def test_another_gateway_goes_on_where_one_died_with_the_same_ids() -> None:
    first, second = Receiver(), Receiver()
    dying, other = Running(first), Running(second)
    other.turn.is_ours = False

    async def follow() -> None:
        async with dying.running():
            other_running = asyncio.create_task(other.delivery.run())
            dying.begin()
            tell(dying.deployment.jobs, event("r-1", "started"), offset=3)
            await dying.until(lambda: len(first.got) == 2)
            first.is_hanging = True
            tell(dying.deployment.jobs, ended())
            await dying.until(lambda: first.hanging == 1)
        for record in dying.deployment.written(WEBHOOKS):
            other.write(record)
        for message in (event("r-1", "started"), ended()):
            tell(other.deployment.jobs, message, offset=3)
        await asyncio.sleep(0)
        assert second.tried == []
        other.turn.pass_on(is_ours=True)
        await other.until_told()
        other_running.cancel()

    asyncio.run(follow())
    assert second.tried[0] == first.tried[-1]  # the one it died in
    assert not {each["webhook-id"] for each, _ in first.got} & set(second.tried)
    assert len(second.got) == 2


def test_a_gateway_that_is_not_in_turn_delivers_nothing_and_stops_amid_what_it_delivers() -> None:
    running = Running(receiver := Receiver())
    receiver.is_hanging = True

    async def follow() -> None:
        async with running.running():
            running.turn.is_ours = False
            running.begin()
            tell(running.deployment.jobs, ended())
            await running.until(lambda: running.turn.is_started)
            assert receiver.tried == []
            running.turn.pass_on(is_ours=True)
            await running.until(lambda: receiver.hanging == 1)
            running.turn.pass_on(is_ours=False)
            await running.until(lambda: not running.delivery._tasks)

    asyncio.run(follow())
    assert running.deployment.hooks.ids() == {"r-1"}


def test_a_request_that_this_gateway_has_never_met_is_looked_up_on_the_topics() -> None:
    running = Running(receiver := Receiver())
    running.past = [
        Incoming(topic="results.v1", partition=0, offset=1, timestamp_ms=0, key=b"r-1", value=encode(ended()))
    ]
    delivered(running, hook=named(created_ms=NOW_MS - 3_600_000, pending="completed", events=("completed",)))
    assert running.looked_up == [{b"r-1"}]
    assert receiver.statuses == ["succeeded"]


def test_a_request_that_never_ends_is_given_up_once_no_deadline_can_be_left() -> None:
    running = Running(receiver := Receiver())
    delivered(running, hook=named(created_ms=NOW_MS - 90_000_000))
    (record,) = running.deployment.written(DLQ)
    assert b"has not ended" in record.headers["pochade_error_message"]
    assert receiver.tried == []


def test_nothing_of_another_tenants_request_with_the_same_id_is_told() -> None:
    running = Running(receiver := Receiver())
    running.deployment.jobs._is_served = lambda _: True
    tell(running.deployment.jobs, ended(tenant="others", prompt="theirs"))
    delivered(running, hook=named(tenant="studio", created_ms=NOW_MS - 90_000_000))
    assert receiver.tried == []


@pytest.mark.parametrize("is_early", [False, True])
def test_a_webhook_of_a_tenant_that_only_another_gateway_serves_is_told_as_well(*, is_early: bool) -> None:
    running = Running(receiver := Receiver())
    jobs, result = running.deployment.jobs, ended(tenant="studio")
    past = Incoming(topic="results.v1", partition=0, offset=1, timestamp_ms=0, key=b"r-1", value=encode(result))
    running.past = [past] if is_early else []

    async def follow() -> None:
        async with running.running():
            running.begin(named(tenant="studio", events=("completed",)))
            await running.until(lambda: bool(jobs._feeds))
            if not is_early:
                await running.until(lambda: bool(running.looked_up))
                tell(jobs, result)
            await running.until_told()

    asyncio.run(follow())
    assert (receiver.statuses, jobs.get("r-1", "studio")) == (["succeeded"], None)


def test_what_was_told_to_its_end_is_not_told_again_by_records_that_are_read_late() -> None:
    running = Running(receiver := Receiver())

    async def follow() -> None:
        async with running.running():
            running.begin(named(events=("output", "completed")))
            running.is_lagging = True
            tell(running.deployment.jobs, ended())
            await running.until(lambda: len(running.deployment.written(WEBHOOKS)) == 3)
            await running.until(lambda: not running.delivery._tasks)
            for _ in range(2):
                running.tell(1)
                for _ in range(20):
                    await asyncio.sleep(0)

    asyncio.run(follow())
    assert len(receiver.tried) == 2
    assert not running.deployment.hooks.ids()


def test_slow_receivers_of_one_tenant_do_not_hold_up_those_of_others() -> None:
    running = Running(receiver := Receiver())
    receiver.is_hanging = True
    slow = [named(request_id=f"r-{n}", events=("completed",)) for n in range(12)]

    async def follow() -> None:
        async with running.running():
            for hook in slow:
                running.begin(hook)
                tell(running.deployment.jobs, ended(hook.request_id))
            await running.until(lambda: receiver.hanging == 8)
            await asyncio.sleep(0)
            receiver.is_hanging = False
            running.begin(named(request_id="r-99", tenant="others", events=("completed",)))
            await running.until(lambda: "r-99" in running.delivery._tasks)
            running.deployment.jobs._is_served = lambda _: True
            tell(running.deployment.jobs, ended("r-99", tenant="others"))
            await running.until(lambda: len(receiver.got) == 1)
            assert receiver.hanging == 8

    asyncio.run(follow())


def test_where_to_tell_lies_on_its_topic_before_the_request_does() -> None:
    deployment = Deployment()
    body = {"input": HEART, "webhook": URL, "webhook_events_filter": ["completed", "start"]}
    shown = posted(deployment, body, "/v1/predictions").json()
    assert list(deployment.producer.topics) == [WEBHOOKS, PROMPTS]
    (record,) = deployment.written(WEBHOOKS)
    hook = decode(record.value or b"", Webhook)
    assert hook == named(
        request_id=shown["id"], events=("start", "completed"), base_url="http://127.0.0.1:8760", created_ms=NOW_MS
    )
    assert "webhook" not in shown["input"]
    posted(deployment, {"input": HEART, "webhook": URL}, "/v1/predictions")
    assert decode(deployment.written(WEBHOOKS)[1].value or b"", Webhook).events == ("output", "completed")


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"webhook": "http://127.0.0.1/"}, "webhook", "webhook"), ({"webhook": ""}, "webhook", "webhook"),
        ({"webhook": URL, "webhook_events_filter": ["ended"]}, "invalid", "webhook_events_filter"),
        ({"webhook": URL, "webhook_events_filter": []}, "invalid", "webhook_events_filter"),
        ({"webhook_events_filter": ["start"]}, "invalid", "webhook_events_filter"),
        ({"webhook_completed": URL}, "unsupported", "webhook_completed"),
    ],
)  # fmt: skip
def test_a_webhook_that_cannot_be_told_is_refused_and_nothing_is_written(
    fields: dict[str, Any], code: str, param: str
) -> None:
    deployment = Deployment()
    answer = posted(deployment, {"input": HEART, **fields}, "/v1/predictions")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)
    assert deployment.producer.topics == {}


def test_a_tenant_has_so_many_webhooks_open_and_is_told_when_to_ask_again() -> None:
    running = Running(Receiver(), Deployment(Gateway(webhooks=Webhooks(max_open=1))))
    body = {"input": HEART, "webhook": URL}
    assert posted(running.deployment, body, "/v1/predictions").status_code == 201
    running.tell()
    full = posted(running.deployment, body, "/v1/predictions")
    assert (full.status_code, full.json()["error"]["code"], full.headers["retry-after"]) == (
        429, "too-many-webhooks", "10",
    )  # fmt: skip
    assert posted(running.deployment, {"input": HEART}, "/v1/predictions").status_code == 201


def test_the_secret_is_each_tenants_own_and_for_those_who_may_ask_for_webhooks() -> None:
    deployment, path = Deployment(Gateway(authentication="bearer")), "/v1/webhooks/default/secret"
    keys = [deployment.key("studio"), deployment.key("studio"), deployment.key("others")]
    keys.append(deployment.key("studio", "read"))
    answers = [
        spoken(deployment, lambda http, key=key: http.get(path, headers={"authorization": f"Bearer {key}"}))
        for key in keys
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 403]
    mine, again, others = (answer.json()["key"] for answer in answers[:3])
    assert mine == again != others
