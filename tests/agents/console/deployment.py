"""A console without a broker: what it writes is kept, and the test says what the topics tell it."""

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from starlette.types import ASGIApp

from agents.console.access.sessions import Sessions
from agents.console.actions import Actions
from agents.console.app import Console, app_of
from agents.console.children import CommandFailed, Commands, Reported
from agents.console.images import SealedImages
from agents.console.live import Parts
from agents.console.pages import Pages
from agents.console.view.plans import PlanHistory
from agents.console.view.view import View
from agents.console.writing import Orders
from agents.runtime.views import FleetView
from schemas.avro import Message
from schemas.messages import (
    ApiKey,
    ClassifiedRequest,
    Event,
    GenerateRequest,
    Heartbeat,
    ImageGenerated,
    OperatorAction,
    Outcome,
    Plan,
    Result,
)
from schemas.record import Incoming, Outgoing
from schemas.topics import (
    ACTIONS,
    CLASSIFIED,
    DLQ,
    EVENTS,
    FLEET,
    IMAGES,
    KEYS,
    OUTCOMES,
    PLAN,
    PLAN_KEY,
    PROMPTS,
    RESULTS,
)
from streams.codec.avro import encode
from streams.operator.client import RequestClient
from streams.security.api_keys import KeyRing, new_key
from streams.settings import load
from tests.builders import NOW_MS, a_catalog
from tests.memory_kafka import MemoryRecordProducer
from tests.memory_store import MemoryImageStore

KEY = b"of the tests, 32 bytes or so ..."
BASE = "http://127.0.0.1:8770"
TOPIC_OF: dict[type[Message], str] = {
    GenerateRequest: PROMPTS, ClassifiedRequest: CLASSIFIED, Event: EVENTS, ImageGenerated: IMAGES, Outcome: OUTCOMES,
    Result: RESULTS,
}  # fmt: skip
Call = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]


class Answers(Commands):
    """Commands that say what the test says."""

    def __init__(self) -> None:
        self.running = self.progress = ""
        self.asked: list[tuple[str, ...]] = []
        self.answer: Any = None
        self.notes: tuple[str, ...] = ()

    async def run(self, *arguments: str, may_fail_with: tuple[int, ...] = ()) -> Any:  # noqa: ARG002  the port's own
        self.asked.append(arguments)
        if isinstance(self.answer, str):
            raise CommandFailed(self.answer)
        return self.answer

    async def report(self, *arguments: str) -> Reported:
        return Reported(await self.run(*arguments), self.notes)


class Deployment:
    """The app, and its surroundings in memory."""

    def __init__(self, **console: Any) -> None:
        settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}, "console": console})
        self.now_ms = NOW_MS
        self._offsets = itertools.count()
        self.ring = KeyRing()
        self.producer = MemoryRecordProducer()
        self.plans, self.fleet = PlanHistory(a_catalog()), FleetView(10_000)
        limits = settings.console
        self.view = View(a_catalog(), self.plans, self.fleet, 1000, limits.max_requests)
        self.store = MemoryImageStore()
        self.commands = Answers()
        is_keyed = limits.authentication == "keys"
        sessions = Sessions(KEY, self.ring if is_keyed else None, limits.session_s, self.clock_ms)
        actions = Actions(self.send, self.clock_ms, "tester", sessions.on_action)
        self.sessions = sessions
        client = RequestClient(settings, self.producer, clock_ms=self.clock_ms)
        orders = Orders(settings, self.view, client, self.send, actions, self.commands, KEY)
        self.pages = Pages(is_clear=limits.prompts == "clear", clock_ms=self.clock_ms)
        self.parts = Parts(limits.max_viewers)
        images = SealedImages(self.store, "memory:", KEY)
        console_of = Console(
            settings, self.view, sessions, self.pages, images, self.parts, orders, self.commands, self.clock_ms
        )
        self.app: ASGIApp = app_of(console_of, settings, sessions)
        self.on_send: Callable[[Outgoing], None] = lambda _record: None

    def clock_ms(self) -> int:
        return self.now_ms

    def send(self, record: Outgoing) -> Any:
        delivered = self.producer.send(record)
        self.on_send(record)
        return delivered

    def record(self, topic: str, key: str, value: bytes | None, **fields: Any) -> Incoming:
        """A record behind those before."""
        return Incoming(
            topic=topic, partition=0, offset=next(self._offsets), timestamp_ms=fields.pop("at_ms", self.now_ms),
            key=key.encode(), value=value, **fields,
        )  # fmt: skip

    def tell(self, *messages: Any, at_ms: int | None = None) -> None:
        """Have the topics tell these."""
        for message in messages:
            at = {"at_ms": at_ms if at_ms is not None else self.now_ms}
            if isinstance(message, Plan):
                self.plans.on_record(self.record(PLAN, PLAN_KEY, encode(message), **at))
            elif isinstance(message, Heartbeat):
                self.fleet.on_record(self.record(FLEET, message.worker_id, encode(message), **at))
            elif isinstance(message, OperatorAction):
                self.view.on_action(self.record(ACTIONS, message.action_id, encode(message), **at))
            elif isinstance(message, ApiKey):
                self.ring.on_record(self.record(KEYS, message.key_id, encode(message), **at))
            else:
                request_id = _id_of(message)
                self.view.on_record(self.record(TOPIC_OF[type(message)], request_id, encode(message), **at))

    def buries(
        self, request_id: str, topic: str, value: bytes, error: str = "EngineFailed", message: str = "it broke"
    ) -> str:
        """Have the dlq tell of a record; return its position."""
        facts = {"class": error, "message": message, "role": "worker", "topic": topic, "request_id": request_id}
        headers = {f"pochade_error_{name}": fact.encode() for name, fact in facts.items()}
        record = self.record(DLQ, request_id, value, headers=headers)
        self.view.on_letter(record)
        return f"0@{record.offset}"

    def key(self, *scopes: str, tenant: str = "studio", **fields: Any) -> str:
        """A new key, which the topic has told."""
        key, known = new_key(tenant, scopes, self.now_ms, **fields)
        self.tell(known)
        return key

    def http(self, **headers: str) -> httpx.AsyncClient:
        """A browser of the app, without a socket."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers)

    def written(self, topic: str) -> list[Outgoing]:
        """What was written to a topic."""
        return self.producer.topics.get(topic, [])

    def talk(self, *calls: Call) -> list[httpx.Response]:
        """The answers to these calls of one browser, one after the other."""

        async def talked() -> list[httpx.Response]:
            async with self.http() as http:
                return [await call(http) for call in calls]

        return asyncio.run(talked())

    def page(self, path: str) -> httpx.Response:
        """A page, as a new browser on this machine gets it."""
        return self.talk(lambda http: http.get(path))[0]

    def form(self, page: str, action: str, key: str = "", **fields: Any) -> httpx.Response:
        """The answer to a form of a page, sent as a browser would, redirections followed."""

        async def sent() -> httpx.Response:
            async with self.http(origin=BASE) as http:
                if key:
                    await http.post("/sign-in", data={"key": key})
                text = (await http.get(page)).text
                return await http.post(action, data={"token": token_in(text), **fields}, follow_redirects=True)

        return asyncio.run(sent())

    def confirmed(self, page: str, action: str = "", **fields: Any) -> tuple[httpx.Response, httpx.Response]:
        """The dry run that a page is, or of a form of it, and what came of its confirmation."""

        async def sent() -> tuple[httpx.Response, httpx.Response]:
            async with self.http(origin=BASE) as http:
                dry = await http.get(page)
                if action:
                    dry = await http.post(action, data={"token": token_in(dry.text), **fields})
                found = re.search(r'name="confirmation" value="([^"]+)"', dry.text)
                assert found, dry.text
                data = {"token": token_in(dry.text), "confirmation": found[1]}
                return dry, await http.post("/confirm", data=data, follow_redirects=True)

        return asyncio.run(sent())


def token_in(text: str) -> str:
    """The token of a page's forms; "" where it has none."""
    return field_in(text, "token")


def field_in(text: str, name: str) -> str:
    """What a hidden field of a page says; "" where there is none of that name."""
    found = re.search(rf'name="{name}" value="([^"]*)"', text)
    return found[1] if found else ""


def event(request_id: str, kind: str, **detail: Any) -> Event:
    """A note on a request's way, as roles write it."""
    return Event(request_id=request_id, kind=kind, at_ms=NOW_MS, by="a role", detail=json.dumps(detail))


def _id_of(message: Any) -> str:
    if isinstance(message, ClassifiedRequest):
        return message.request.request_id
    if isinstance(message, ImageGenerated):
        return message.job.classified.request.request_id
    request_id: str = message.request_id
    return request_id
