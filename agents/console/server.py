"""The console as a role: follows the topics, and serves the pages from an event loop in a thread of its own."""

import asyncio
import contextlib
import getpass
import logging
import threading
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from agents.console.access.sessions import Sessions
from agents.console.actions import Actions
from agents.console.app import Console, app_of
from agents.console.children import Commands
from agents.console.live import Parts
from agents.console.pages import Pages
from agents.console.pictures import Pictures
from agents.console.view.plans import FollowedHistory
from agents.console.view.view import TOPICS, View
from agents.console.writing import Orders
from agents.gateway.image_urls import url_key
from agents.gateway.transport.listening import bound, check_tls, server_of
from agents.runtime.following import FollowedFleet
from planner.catalog.model import Catalog
from schemas.topics import ACTIONS, DLQ, KEYS
from streams.clock import now_ms
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.writing import RecordProducer
from streams.operator.client import Following, RequestClient
from streams.security.api_keys import KeyRing
from streams.settings import Console as Limits
from streams.settings import Settings
from streams.store.open import open_store, root_of

log = logging.getLogger(__name__)

SECTION: Final = "console"  # of the settings
KEYS_S: Final = 60  # for reading the topic of keys at the start
STOP_POLL_S: Final = 0.1
LETTERS_MS: Final = 7 * 86_400_000  # how far back dead letters and operators' actions are read


class ConsoleServer:
    """One console. `run` blocks until `stopping` is set."""

    def __init__(self, app: ASGIApp, limits: Limits, following: Following, stop: Callable[[], None]) -> None:
        """Bind the address. `stop`: ends live pages. Raises InvalidSettings: it is taken, or not ours to take."""
        self._app = app
        self._limits = limits
        self._following = following
        self._stop = stop
        check_tls(limits, SECTION)
        self._socket = bound(limits, SECTION)
        self._server: uvicorn.Server | None = None

    @property
    def port(self) -> int:
        """The port that it listens at."""
        port: int = self._socket.getsockname()[1]
        return port

    def not_ready(self) -> str:
        """Why it does not serve yet; any thread may ask."""
        if self._server is None or not self._server.started:
            return "does not serve yet"
        return "" if self._following.is_caught_up.is_set() else "still reads the last requests"

    def run(self, stopping: threading.Event) -> None:
        """Serve until `stopping` is set."""
        asyncio.run(self._serve(stopping))

    async def _serve(self, stopping: threading.Event) -> None:
        taken = self._socket if self._socket.fileno() >= 0 else bound(self._limits, SECTION)
        host, port = taken.getsockname()[:2]
        server = self._server = server_of(self._app, self._limits, 4 * self._limits.max_viewers)
        serving = asyncio.create_task(server.serve(sockets=[taken]))
        scheme = "https" if self._limits.tls_certificate else "http"
        log.info("console on %s://%s:%d/", scheme, f"[{host}]" if ":" in host else host, port)
        while not stopping.is_set() and not serving.done():
            await asyncio.sleep(STOP_POLL_S)
        self._stop()
        server.should_exit = True
        await serving


def ring_of(settings: Settings, stack: contextlib.ExitStack) -> KeyRing | None:
    """Return the keys that sign in, read to their end; None: none are asked for. Raises PochadeError."""
    if settings.console.authentication == "none":
        return None
    ring = KeyRing()
    keys = TopicTailer(settings, [KEYS], ring.on_record)
    stack.callback(keys.close)
    keys.start().wait_caught_up(KEYS_S)
    return ring


def console_of(
    settings: Settings, catalog: Catalog, producer: RecordProducer, stack: contextlib.ExitStack
) -> ConsoleServer:
    """The console of a process; what it opens closes with the stack. Raises PochadeError, as `open_store` does."""
    limits, key, store = settings.console, url_key(settings), open_store(settings)
    ring = ring_of(settings, stack)
    plans, fleet = FollowedHistory(settings, catalog), FollowedFleet(settings)
    for view in (plans, fleet):
        stack.callback(view.close)
    plans.load()
    seen = View(catalog, plans, fleet, 1000 * (settings.planner.slo_s or catalog.slo_s), limits.max_requests)
    following = TopicTailer(settings, TOPICS, seen.on_record, since_ms=now_ms() - round(1000 * limits.history_s))
    others = [
        TopicTailer(settings, [topic], on_record, since_ms=now_ms() - LETTERS_MS)
        for topic, on_record in ((DLQ, seen.on_letter), (ACTIONS, seen.on_action))
    ]
    for each in (following, *others):
        stack.callback(each.close)
    sessions = Sessions(key, ring, limits.session_s, now_ms)
    commands = Commands(settings, limits.command_timeout_s)
    client = stack.enter_context(RequestClient(settings, producer))
    actions = Actions(producer.send, now_ms, getpass.getuser())
    orders = Orders(settings, seen, client, producer.send, actions, commands, key)
    pages = Pages(is_clear=limits.prompts == "clear", clock_ms=now_ms)
    parts = Parts(limits.max_viewers)
    pictures = Pictures(store, root_of(settings), key)
    console = Console(settings, seen, sessions, pages, pictures, parts, orders, commands, now_ms)
    server = ConsoleServer(app_of(console, settings, sessions), limits, following, parts.stop)
    for view in (plans, fleet):
        view.start()
    for each in (following, *others):
        each.start()
    return server
