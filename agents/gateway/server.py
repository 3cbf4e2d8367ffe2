"""The gateway as a role: follows the topics, and serves the app from an event loop in a thread of its own."""

import asyncio
import contextlib
import logging
import socket
import threading
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from agents.gateway.app import app_of
from agents.gateway.image_urls import ImageUrls, url_key
from agents.gateway.images_api import ImagesApi
from agents.gateway.jobs import TOPICS, JobView
from agents.gateway.pipeline import PipelineClient
from agents.gateway.predictions_api import PredictionsApi
from agents.gateway.protocol import timed
from agents.gateway.repetitions.log_end import LogEnd
from agents.gateway.repetitions.marks import Repetitions
from planner.catalog.model import Catalog
from schemas.messages import GenerateRequest
from schemas.record import Incoming
from streams.clock import now_ms
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.writing import RecordProducer
from streams.operator.client import Following, RequestClient
from streams.settings import Gateway as Limits
from streams.settings import InvalidSettings, Settings
from streams.store.open import open_store, root_of

log = logging.getLogger(__name__)

TENANT: Final = GenerateRequest(request_id="-", prompt="-", created_ms=0).tenant  # of all, while there are no keys
KEEP_ALIVE_S: Final = 30  # that a connection may be idle between two requests
ENDING_S: Final = 5  # for answers that are on their way when the gateway stops
STOP_POLL_S: Final = 0.1  # between two looks at whether it shall stop
BACKLOG: Final = 256


class Gateway:
    """One gateway. `run` blocks until `stopping` is set."""

    def __init__(self, app: ASGIApp, jobs: JobView, following: Following, limits: Limits) -> None:
        """Bind the address. Raises InvalidSettings: it is taken, or not ours to take."""
        self._app = app
        self._jobs = jobs
        self._following = following
        self._limits = limits
        self._socket: socket.socket | None = bound(limits)
        self._server: uvicorn.Server | None = None

    def not_ready(self) -> str:
        """Why it does not serve yet; any thread may ask."""
        if self._server is None or not self._server.started:
            return "does not serve yet"
        return "" if self._following.is_caught_up.is_set() else "still reads the last requests"

    def run(self, stopping: threading.Event) -> None:
        """Serve until `stopping` is set; clients that wait then are told so, and their requests go on."""
        asyncio.run(self._serve(stopping))

    async def _serve(self, stopping: threading.Event) -> None:
        taken, self._socket = self._socket or bound(self._limits), None
        host, port = taken.getsockname()[:2]
        config = uvicorn.Config(
            self._app, http=timed(self._limits.client_timeout_s), ws="none", lifespan="off", log_config=None,
            access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=2 * self._limits.max_open + 1, timeout_graceful_shutdown=ENDING_S,
        )  # fmt: skip
        server = self._server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[taken]))
        log.info("images API on http://%s:%d/v1", f"[{host}]" if ":" in host else host, port)
        while not stopping.is_set() and not serving.done():
            await asyncio.sleep(STOP_POLL_S)
        if stopping.is_set():
            self._jobs.stop()
        server.should_exit = True
        await serving


def bound(limits: Limits) -> socket.socket:
    """Return a socket that listens as the settings say. Raises InvalidSettings."""
    host = "127.0.0.1" if limits.host == "localhost" else limits.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, limits.port), family=family, backlog=BACKLOG)
    except OSError as error:
        advice = "choose another gateway.port, or 0 for a free one"
        raise InvalidSettings(
            f"cannot serve on gateway.host {host}:{limits.port}: {error.strerror}; {advice}"
        ) from error


def gateway_of(settings: Settings, catalog: Catalog, producer: RecordProducer, stack: contextlib.ExitStack) -> Gateway:
    """The gateway of a process; what it opens closes with the stack. Raises PochadeError, as `open_store` does."""
    limits, store = settings.gateway, open_store(settings)
    jobs = JobView(TENANT, limits.max_jobs)
    window_ms, key = 1000 * limits.history_s, url_key(settings)
    repetitions = Repetitions(jobs, limits.max_jobs, window_ms)

    def take_in(record: Incoming) -> None:
        jobs.on_record(record)
        repetitions.on_record(record)

    log_end = LogEnd(settings, take_in, window_ms)
    following = TopicTailer(settings, TOPICS, log_end.on_record, since_ms=now_ms() - round(window_ms))
    stack.callback(following.close)
    urls = ImageUrls(store, root_of(settings), key, limits.url_lifetime_s)
    client = stack.enter_context(RequestClient(settings, producer))
    pipeline = PipelineClient(client, jobs, store, following.is_caught_up, repetitions, log_end)
    images = ImagesApi(pipeline, urls, catalog, settings.requests, limits.wait_s, key, now_ms)
    predictions = PredictionsApi(pipeline, images, settings.requests, key, now_ms)
    gateway = Gateway(app_of(images, predictions, limits), jobs, following, limits)
    following.start()
    return gateway
