"""The gateway as a role: follows the topics, and serves the app from an event loop in a thread of its own."""

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from starlette.types import ASGIApp

from agents.gateway.app import Callers, app_of
from agents.gateway.callers.bearer import TENANT, Everybody, KeyHolders
from agents.gateway.callers.failures import Failures
from agents.gateway.edits.uploads import Uploads
from agents.gateway.image_urls import ImageUrls, url_key
from agents.gateway.images_api import ImagesApi
from agents.gateway.jobs import TOPICS, JobView
from agents.gateway.pipeline import PipelineClient
from agents.gateway.predictions_api import PredictionsApi
from agents.gateway.receipts_api import ReceiptsApi
from agents.gateway.repetitions.log_end import LogEnd
from agents.gateway.repetitions.marks import Repetitions
from agents.gateway.streaming.urls import StreamUrls
from agents.gateway.transport.listening import STILL_READS, Listener
from agents.gateway.waiting.expected import ExpectedTimes
from agents.gateway.webhooks.addresses import origin_of
from agents.gateway.webhooks.delivery import WebhookDelivery
from agents.gateway.webhooks.open_webhooks import OpenWebhooks
from agents.gateway.webhooks.posting import Connections, Poster
from agents.gateway.webhooks.requests import WebhookRequests
from agents.gateway.webhooks.turn import Turn
from agents.runtime.following import FollowedFleet, FollowedPlans
from agents.runtime.stream_roles import soft_slo_of
from planner.catalog.model import Catalog
from schemas.record import Incoming
from schemas.topics import WEBHOOKS
from streams.clock import now_ms
from streams.control.api_keys import followed_keys
from streams.kafka.consumers import snapshot
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.writing import RecordProducer
from streams.operator.client import Following, RequestClient
from streams.settings import Gateway as Limits
from streams.settings import Settings
from streams.store.open import open_store, root_of

log = logging.getLogger(__name__)

STOP_POLL_S: Final = 0.1  # between two looks at whether it shall stop
SECTION: Final = "gateway"  # of the settings


class Delivers(Protocol):
    """The part of `WebhookDelivery` that is used."""

    async def run(self) -> None:
        """Deliver webhooks until cancelled."""


class Gateway:
    """One gateway. `run` blocks until `stopping` is set."""

    def __init__(
        self, app: ASGIApp, jobs: JobView, following: Following, limits: Limits, delivery: Delivers | None = None
    ) -> None:
        """Bind the address. Raises InvalidSettings if it is in use or not allowed."""
        self._delivery = delivery
        self._jobs = jobs
        self._following = following
        self.listener = Listener(app, limits, SECTION, limits.max_open)

    def not_ready(self) -> str:
        """Why it does not serve yet; any thread may ask."""
        return self.listener.not_ready() or ("" if self._following.is_caught_up.is_set() else STILL_READS)

    def run(self, stopping: threading.Event) -> None:
        """Serve until `stopping` is set; waiting clients then get a refusal, and their requests go on."""
        asyncio.run(self._serve(stopping))

    async def _serve(self, stopping: threading.Event) -> None:
        async with self.listener.serving() as ended:
            log.info("images API on %s/v1", self.listener.url)
            delivering = asyncio.create_task(self._delivery.run()) if self._delivery is not None else None
            while not stopping.is_set() and not ended.done():
                await asyncio.sleep(STOP_POLL_S)
                if delivering is not None and delivering.done():
                    delivering.result()  # a fault of ours ends the gateway, rather than its webhooks alone
            if delivering is not None:
                delivering.cancel()
            if stopping.is_set():
                self._jobs.stop()


def callers_of(settings: Settings, stack: contextlib.ExitStack) -> tuple[Callers, Callable[[str], bool]]:
    """Return the authentication, and whether a tenant is served. Reads all keys first: only their tenants are served.

    Raises PochadeError if the keys cannot be read.
    """
    if settings.gateway.authentication == "none":
        return Everybody, lambda tenant: tenant == TENANT
    ring, failures = followed_keys(settings, stack), Failures(settings.gateway.max_failures)
    return lambda app: KeyHolders(app, ring, failures, now_ms), ring.has


def looked_up(settings: Settings, since_ms: int, request_ids: set[bytes]) -> list[Incoming]:
    """Return the records of these requests since a time (epoch ms). Raises PochadeError."""
    return snapshot.past(settings, TOPICS, since_ms=since_ms, keep=lambda record: record.key in request_ids)


def gateway_of(settings: Settings, catalog: Catalog, producer: RecordProducer, stack: contextlib.ExitStack) -> Gateway:
    """The gateway of a process; what it opens closes with the stack. Raises PochadeError, as `open_store` does."""
    limits, store = settings.gateway, open_store(settings)
    callers, is_served = callers_of(settings, stack)
    plans, fleet = FollowedPlans(settings, "gateway", catalog), FollowedFleet(settings)
    for view in (plans, fleet):
        stack.callback(view.close)
    slo_ms = soft_slo_of(settings, catalog)
    expected = ExpectedTimes(catalog, plans, fleet, lambda: following.is_caught_up.is_set(), now_ms, slo_ms)
    jobs = JobView(is_served, limits.max_jobs, expected, settings.requests)
    window_ms, key = 1000 * limits.history_s, url_key(settings)
    repetitions = Repetitions(jobs, limits.max_jobs, window_ms)

    def take_in(record: Incoming) -> None:
        jobs.on_record(record)
        repetitions.on_record(record)

    log_end = LogEnd(settings, take_in, window_ms)
    following = TopicTailer(settings, TOPICS, log_end.on_record, since_ms=now_ms() - round(window_ms))
    stack.callback(following.close)
    urls = ImageUrls(store, root_of(settings), key, limits.url_lifetime_s)
    client = RequestClient(settings, producer)
    pipeline = PipelineClient(client, jobs, store, following.is_caught_up, repetitions, log_end.reached, producer.send)
    uploads, fetching = Uploads(store, limits.max_uploads), Connections(timeout_s=limits.client_timeout_s)
    images = ImagesApi(
        pipeline, urls, uploads, catalog, settings.requests, limits, key, now_ms, fetching, expected
    )  # fmt: skip
    streams = StreamUrls(key, limits.url_lifetime_s)
    hooks, internal = OpenWebhooks(limits.webhooks.max_open), frozenset(map(origin_of, limits.webhooks.internal))
    asked = WebhookRequests(hooks, internal, now_ms)
    predictions = PredictionsApi(pipeline, images, streams, expected, settings.requests, asked, key, now_ms)
    receipts = ReceiptsApi(pipeline, settings.receipts)
    turn = Turn(settings)
    stack.callback(turn.close)
    poster = Poster(Connections(internal, limits.webhooks.timeout_s))
    delivery = WebhookDelivery(
        hooks, jobs, turn, poster, producer.send, partial(looked_up, settings),
        predictions.shown, limits.webhooks, key, settings.requests.max_deadline_s, now_ms, random.random,
    )  # fmt: skip
    gateway = Gateway(app_of(images, predictions, receipts, limits, callers), jobs, following, limits, delivery)
    stack.callback((hook_records := TopicTailer(settings, [WEBHOOKS], hooks.on_record)).close)
    for follower in (plans, fleet, following, hook_records):
        follower.start()
    for view in (plans, fleet):
        view.wait_caught_up()
    return gateway
