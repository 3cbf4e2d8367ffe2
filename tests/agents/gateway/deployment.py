"""A gateway without a broker: what it writes is kept, and the test says what the topics tell it."""

import dataclasses
import threading
from typing import Any

import httpx

from agents.gateway.app import app_of
from agents.gateway.image_urls import ImageUrls
from agents.gateway.images_api import ImagesApi
from agents.gateway.jobs import JobView
from agents.gateway.pipeline import PipelineClient
from agents.gateway.predictions_api import PredictionsApi
from agents.gateway.repetitions.marks import Repetitions
from schemas.messages import Event, GenerateRequest, Result, Status
from schemas.record import Incoming, Outgoing
from schemas.topics import EVENTS, OUTCOMES, PROMPTS, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.kafka.memory import MemoryRecordProducer
from streams.operator.client import RequestClient
from streams.settings import Gateway, Requests, load
from streams.store.port import MemoryImageStore
from tests.builders import NOW_MS, a_catalog
from tests.replay.runs import a_result, a_step

KEY = b"of the tests, 32 bytes or so ..."


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
            tell(self.jobs, ended(request.request_id, prompt=request.prompt, image_uris=self.images, **self.fields))
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

    def __init__(self, limits: Gateway | None = None, requests: Requests | None = None, max_jobs: int = 100) -> None:
        limits, requests = limits or Gateway(), requests or Requests()
        self.now_ms = NOW_MS
        self.jobs = JobView("default", max_jobs)
        self.producer = Answering(self.jobs)
        self.store = MemoryImageStore()
        self.caught_up = threading.Event()
        self.caught_up.set()
        settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
        client = RequestClient(settings, self.producer, clock_ms=lambda: self.now_ms)
        self.repetitions, self.log_end = Repetitions(self.jobs, max_jobs, 900_000), LogEnd(self)
        self.pipeline = PipelineClient(client, self.jobs, self.store, self.caught_up, self.repetitions, self.log_end)
        urls = ImageUrls(self.store, "memory:", KEY, limits.url_lifetime_s)
        images = ImagesApi(self.pipeline, urls, a_catalog(), requests, limits.wait_s, KEY, lambda: self.now_ms)
        predictions = PredictionsApi(self.pipeline, images, requests, KEY, lambda: self.now_ms)
        self.app = app_of(images, predictions, limits)

    def http(self) -> httpx.AsyncClient:
        """A client of the app, without a socket."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8760")

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


def tell(jobs: JobView, message: Result | GenerateRequest | Event) -> None:
    """Have a topic tell this."""
    topic = RESULTS if isinstance(message, Result) else PROMPTS if isinstance(message, GenerateRequest) else EVENTS
    jobs.on_record(
        Incoming(
            topic=topic, partition=0, offset=0, timestamp_ms=NOW_MS, key=message.request_id.encode(),
            value=encode(message),
        )
    )  # fmt: skip
