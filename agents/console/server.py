"""The console as a role: follows the topics, and serves the pages from an event loop in a thread of its own."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.types import ASGIApp

from agents.console.access.sessions import Sessions
from agents.console.actions import Actions
from agents.console.app import Console, app_of
from agents.console.children import Commands
from agents.console.images import SealedImages
from agents.console.live import Parts
from agents.console.pages import Pages
from agents.console.view.plans import FollowedHistory
from agents.console.view.view import TOPICS, View
from agents.console.writing import Orders
from agents.gateway.image_urls import url_key
from agents.gateway.transport.listening import STILL_READS, Listener
from agents.runtime.following import FollowedFleet
from planner.catalog.model import Catalog
from schemas.topics import ACTIONS, DLQ
from streams.clock import now_ms
from streams.control.api_keys import followed_keys
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.writing import RecordProducer
from streams.operator.client import Following, RequestClient
from streams.security.process_user import process_user
from streams.settings import Console as Limits
from streams.settings import Settings
from streams.store.open import open_store, root_of

log = logging.getLogger(__name__)

SECTION: Final = "console"  # of the settings
STOP_POLL_S: Final = 0.1
LETTERS_MS: Final = 7 * 86_400_000  # how far back dead letters and operators' actions are read


class ConsoleServer:
    """One console. `run` blocks until `stopping` is set."""

    def __init__(self, app: ASGIApp, limits: Limits, following: Following, stop: Callable[[], None]) -> None:
        """Bind the address. `stop`: ends live pages. Raises InvalidSettings if it is in use or not allowed."""
        self._following = following
        self._stop = stop
        self.listener = Listener(app, limits, SECTION, 4 * limits.max_viewers)

    def not_ready(self) -> str:
        """Why it does not serve yet; any thread may ask."""
        return self.listener.not_ready() or ("" if self._following.is_caught_up.is_set() else STILL_READS)

    def run(self, stopping: threading.Event) -> None:
        """Serve until `stopping` is set."""
        asyncio.run(self._serve(stopping))

    async def _serve(self, stopping: threading.Event) -> None:
        async with self.listener.serving() as ended:
            log.info("console on %s/", self.listener.url)
            while not stopping.is_set() and not ended.done():
                await asyncio.sleep(STOP_POLL_S)
            self._stop()


def console_of(
    settings: Settings, catalog: Catalog, producer: RecordProducer, stack: contextlib.ExitStack
) -> ConsoleServer:
    """The console of a process; what it opens closes with the stack. Raises PochadeError, as `open_store` does."""
    limits, key, store = settings.console, url_key(settings), open_store(settings)
    ring = None if limits.authentication == "none" else followed_keys(settings, stack)
    plans, fleet = FollowedHistory(settings, catalog), FollowedFleet(settings)
    for view in (plans, fleet):
        stack.callback(view.close)
    plans.load()
    seen = View(catalog, plans, fleet, 1000 * (settings.planner.slo_s or catalog.slo_s), limits.max_requests)
    following = TopicTailer(settings, TOPICS, seen.on_record, since_ms=now_ms() - round(1000 * limits.history_s))
    sessions = Sessions(key, ring, limits.session_s, now_ms)
    others = [
        TopicTailer(settings, [topic], on_record, since_ms=now_ms() - LETTERS_MS)
        for topic, on_record in ((DLQ, seen.on_letter), (ACTIONS, partial(seen.on_action, notify=sessions.on_action)))
    ]
    for each in (following, *others):
        stack.callback(each.close)
    commands = Commands(settings, limits.command_timeout_s)
    client = RequestClient(settings, producer)
    actions = Actions(producer.send, now_ms, process_user(), sessions.on_action)
    orders = Orders(settings, seen, client, producer.send, actions, commands, key)
    pages = Pages(is_clear=limits.prompts == "clear", clock_ms=now_ms)
    pages.load()
    parts = Parts(limits.max_viewers)
    images = SealedImages(store, root_of(settings), key)
    console = Console(settings, seen, sessions, pages, images, parts, orders, commands, now_ms)
    server = ConsoleServer(app_of(console, settings, sessions), limits, following, parts.stop)
    for view in (plans, fleet):
        view.start()
    for each in (following, *others):
        each.start()
    for view in (plans, fleet):
        view.wait_caught_up()
    return server
