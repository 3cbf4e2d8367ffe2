"""A gateway without a broker: what it writes is kept, and the test says what the topics tell it."""

import dataclasses
import itertools
import json
import threading
from functools import partial
from typing import Any

import httpx

from agents.gateway.app import app_of
from agents.gateway.callers.bearer import TENANT, Everybody, KeyHolders
from agents.gateway.callers.failures import Failures
from agents.gateway.edits.uploads import Uploads
from agents.gateway.image_urls import ImageUrls
from agents.gateway.images_api import ImagesApi
from agents.gateway.jobs import JobView
from agents.gateway.pipeline import PipelineClient
from agents.gateway.predictions_api import PredictionsApi
from agents.gateway.receipts_api import ReceiptsApi
from agents.gateway.repetitions.marks import Repetitions
from agents.gateway.streaming.urls import StreamUrls
from agents.gateway.waiting.expected import ExpectedTimes
from agents.gateway.webhooks.open_webhooks import OpenWebhooks
from agents.gateway.webhooks.posting import Connections
from agents.gateway.webhooks.requests import WebhookRequests
from agents.runtime.views import FleetView, PlanView
from planner.catalog.components import Component
from planner.catalog.entries import HONOURABLE
from planner.catalog.model import Catalog
from schemas.messages import ApiKey, Event, GenerateRequest, Plan, Result, Status
from schemas.record import Incoming, Outgoing
from schemas.topics import EVENTS, FLEET, KEYS, OUTCOMES, PROMPTS, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.operator.client import RequestClient
from streams.security.api_keys import KeyRing, new_key
from streams.security.scopes import SCOPES
from streams.settings import Gateway, Receipts, Requests, load
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, composed_variant, owned
from tests.memory_kafka import MemoryRecordProducer
from tests.memory_store import MemoryImageStore
from tests.replay.runs import a_result, a_step

OFFSETS = itertools.count()
KEY = b"of the tests, 32 bytes or so ..."


def offered() -> Catalog:
    """A catalog whose levels honour all plain options, and whose variant on request takes an image and adapters."""
    styles = composed_variant()
    names = ("candy", "mint", "dusk")
    adapters = tuple(Component(kind="adapter", name=name, source=f"models/loras/{name}") for name in names)
    bases = tuple(each for each in styles.components if each.kind == "base")
    styles = dataclasses.replace(
        styles, adapters=names, controls=(), components=(*bases, *adapters), honours=HONOURABLE
    )
    plain = a_catalog().variants
    levels = {name: dataclasses.replace(each, honours=HONOURABLE[:5]) for name, each in plain.items()}
    return a_catalog(variants=levels, on_request={"styles": styles})


class Answering(MemoryRecordProducer):
    """Answers a request as soon as it is written, if the test says how; and a cancellation as the ledger does."""

    def __init__(self, jobs: JobView) -> None:
        super().__init__()
        self.jobs = jobs
        self.fields: dict[str, Any] | None = None  # of the results; None: nothing ends
        self.images: tuple[str, ...] = ()

    def send(self, record: Outgoing) -> Any:
        delivered = super().send(record)
        if record.topic == PROMPTS and self.fields is not None:
            request = decode(record.value or b"", GenerateRequest)
            fields = {"tenant": request.tenant, **self.fields}
            tell(self.jobs, ended(request.request_id, prompt=request.prompt, image_uris=self.images, **fields))
        elif record.topic == OUTCOMES:
            request_id = (record.key or b"").decode()
            cancelled = ended(request_id, status=Status.CANCELLED, code="cancelled", tenant="", prompt="")
            tell(self.jobs, cancelled)
        return delivered


class LogEnd:
    """Hands over what was written, when asked to read on."""

    def __init__(self, deployment: "Deployment") -> None:
        self._deployment = deployment
        self.readings = 0

    async def reached(self) -> None:
        self.readings += 1
        for n, record in enumerate(self._deployment.written()):
            self._deployment.repetitions.on_record(
                Incoming(
                    topic=PROMPTS, partition=0, offset=n, timestamp_ms=now_ms() + n, key=record.key, value=record.value,
                    headers=record.headers,
                )
            )  # fmt: skip


class Deployment:
    """The app, and its surroundings in memory."""

    def __init__(
        self, limits: Gateway | None = None, requests: Requests | None = None, max_jobs: int = 100,
        catalog: Catalog | None = None, connections: Connections | None = None,
        receipts: Receipts | None = None,
    ) -> None:  # fmt: skip
        limits, requests = limits or Gateway(), requests or Requests()
        self.now_ms = NOW_MS
        self.ring = KeyRing()
        is_keyed = limits.authentication == "bearer"
        self.plans, self.fleet = PlanView("gateway", a_catalog()), FleetView(60_000)
        self.caught_up = threading.Event()
        self.caught_up.set()
        expected = ExpectedTimes(a_catalog(), self.plans, self.fleet, self.caught_up.is_set, lambda: self.now_ms)
        self.jobs = JobView(self.ring.has if is_keyed else lambda tenant: tenant == TENANT, max_jobs, expected)
        self.producer = Answering(self.jobs)
        self.store = MemoryImageStore()
        settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
        client = RequestClient(settings, self.producer, clock_ms=lambda: self.now_ms)
        self.repetitions, self.log_end = Repetitions(self.jobs, max_jobs, 900_000), LogEnd(self)
        self.pipeline = PipelineClient(
            client, self.jobs, self.store, self.caught_up, self.repetitions, self.log_end.reached, self.producer.send
        )
        urls = ImageUrls(self.store, "memory:", KEY, limits.url_lifetime_s)
        uploads = Uploads(self.store, limits.max_uploads)
        images = ImagesApi(
            self.pipeline, urls, uploads, catalog or offered(), requests, limits, KEY, lambda: self.now_ms,
            connections or Connections(), expected,
        )  # fmt: skip
        streams = StreamUrls(KEY, limits.url_lifetime_s)
        self.hooks, self.internal = OpenWebhooks(limits.webhooks.max_open), frozenset(limits.webhooks.internal)
        asked = WebhookRequests(self.hooks, self.internal, lambda: self.now_ms)
        predictions = PredictionsApi(
            self.pipeline, images, streams, expected, requests, asked, KEY, lambda: self.now_ms
        )
        self.shown = predictions.shown
        failures = Failures(limits.max_failures)
        callers = partial(KeyHolders, ring=self.ring, failures=failures, clock_ms=lambda: self.now_ms)
        self.images, self.predictions = images, predictions
        self.receipts = ReceiptsApi(self.pipeline, receipts or Receipts())
        self.app = app_of(images, predictions, self.receipts, limits, callers if is_keyed else Everybody)

    def key(self, tenant: str = "studio", *scopes: str, **fields: Any) -> str:
        """A new key, which the topic has told."""
        key, known = new_key(tenant, scopes or SCOPES, self.now_ms, **fields)
        self.tell_key(known)
        return key

    def tell_key(self, known: ApiKey) -> None:
        """Have the topic tell of a key."""
        self.ring.on_record(
            Incoming(
                topic=KEYS, partition=0, offset=0, timestamp_ms=self.now_ms, key=known.key_id.encode(),
                value=encode(known),
            )
        )  # fmt: skip

    def http(self) -> httpx.AsyncClient:
        """A client of the app, without a socket."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8760")

    def serves(self, *workers: str, plan: Plan | None = None, price_per_hour: float = 0.0) -> None:
        """Have the topics tell of a plan that sends all to light, and of light's idle workers."""
        self.plans.obey(plan or a_plan(cascades=(), allocation=dict.fromkeys(workers, "light")))
        for partition, worker in enumerate(workers):
            heartbeat = a_heartbeat(worker_id=worker, partitions=(owned(partition),), price_per_hour=price_per_hour)
            record = Incoming(
                topic=FLEET, partition=0, offset=partition, timestamp_ms=self.now_ms, key=worker.encode(),
                value=encode(heartbeat),
            )  # fmt: skip
            self.fleet.on_record(record)

    def ends(self, *images: bytes, **fields: Any) -> None:
        """Have every request end so; as COMPLETED with these images."""
        self.producer.images = tuple(self.store.put(f"image-{n}", data) for n, data in enumerate(images))
        self.producer.fields = fields

    def written(self, topic: str = PROMPTS) -> list[Outgoing]:
        """What was written to a topic."""
        return self.producer.topics.get(topic, [])

    def asked(self) -> GenerateRequest:
        """The only request that was written."""
        (record,) = self.written()
        return decode(record.value or b"", GenerateRequest)


def ended(request_id: str = "r-1", **fields: Any) -> Result:
    """A result; COMPLETED unless the fields say otherwise."""
    plain = a_result(a_step(), request_id=request_id, status=Status.COMPLETED, reason="")
    return dataclasses.replace(plain, **{"tenant": "default", **fields})


def event(request_id: str, kind: str, **detail: Any) -> Event:
    """A note on a request's way, as roles write it."""
    return Event(request_id=request_id, kind=kind, at_ms=NOW_MS, by="a role", detail=json.dumps(detail))


def tell(jobs: JobView, message: Result | GenerateRequest | Event, offset: int | None = None) -> None:
    """Have a topic tell this, behind what it told before."""
    offset = next(OFFSETS) if offset is None else offset
    topic = RESULTS if isinstance(message, Result) else PROMPTS if isinstance(message, GenerateRequest) else EVENTS
    jobs.on_record(
        Incoming(
            topic=topic, partition=0, offset=offset, timestamp_ms=NOW_MS, key=message.request_id.encode(),
            value=encode(message),
        )
    )  # fmt: skip
