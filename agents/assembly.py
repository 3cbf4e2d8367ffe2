"""Puts the roles of a process together: one producer, one set of views, each role with its collaborators."""

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from agents import catalogs
from agents.running import Run
from agents.views import EndedView, FleetView, PlanView
from planner.catalog import Catalog
from streams.admin import create_topics
from streams.faust_host import AgentHost
from streams.producer import KafkaRecordProducer
from streams.settings import Settings
from streams.store import open_store

TORCH_ROLES = {"worker", "discriminator"}
STREAM_ROLES = {"classifier", "router", "discriminator"}


@dataclass
class Process:
    """What a process runs."""

    threaded: dict[str, Run] = field(default_factory=dict)
    hosts: list[AgentHost] = field(default_factory=list)


@contextlib.contextmanager
def assemble(settings: Settings, roles: frozenset[str]) -> Iterator[Process]:
    """Open the clients that these roles need, and close them in the end.

    Raises:
        PochadeError: a catalog, model folder, broker or setting that is not right, before anything is consumed.
    """
    set_up_logging()
    if not roles & TORCH_ROLES:
        sys.modules["torch"] = None  # type: ignore[assignment]  # spaCy's thinc would load it: 4 s and 500 MB for nothing
    catalog = catalogs.load(settings.catalog)
    create_topics(settings, sorted(catalog.variants))
    with contextlib.ExitStack() as stack:
        producer = KafkaRecordProducer(settings)
        stack.callback(producer.close)
        views = _Views(settings, "+".join(sorted(roles)), stack)
        process = Process()
        for role in sorted(roles):
            if role in STREAM_ROLES:
                process.hosts.append(AgentHost(settings, _logic(role, settings, catalog, views), producer))
            else:
                process.threaded[role] = _run(role, settings, catalog, views, producer)
        yield process


class _Views:
    """Views are opened once a process, and only if a role asks."""

    def __init__(self, settings: Settings, role: str, stack: contextlib.ExitStack) -> None:
        self._settings, self._role, self._stack = settings, role, stack
        self._plans: PlanView | None = None
        self._ended: EndedView | None = None
        self._fleet: FleetView | None = None

    @property
    def plans(self) -> PlanView:
        if self._plans is None:
            self._plans = PlanView(self._settings, self._role)
            self._stack.callback(self._plans.close)  # first: starting may fail
            self._plans.start()
        return self._plans

    @property
    def ended(self) -> EndedView:
        if self._ended is None:
            self._ended = EndedView(self._settings)
            self._stack.callback(self._ended.close)
            self._ended.start()
        return self._ended

    @property
    def fleet(self) -> FleetView:
        if self._fleet is None:
            self._fleet = FleetView(self._settings)
            self._stack.callback(self._fleet.close)
            self._fleet.start()
        return self._fleet


def _logic(role: str, settings: Settings, catalog: Catalog, views: _Views):  # type: ignore[no-untyped-def]
    if role == "classifier":
        from agents.classifier import Classifier
        from agents.classify import RuleClassifier

        return Classifier(RuleClassifier.load(), catalog, settings.requests.max_prompt_bytes)
    from agents.dispatching import Dispatcher

    dispatcher = Dispatcher(catalog, views.fleet, role)
    if role == "router":
        from agents.router import Router

        return Router(catalog, views.plans, views.ended, dispatcher)
    from agents.discriminator import Discriminator
    from agents.scoring import open_scorers

    return Discriminator(views.plans, views.ended, dispatcher, open_store(settings), open_scorers(catalog))


def _run(role: str, settings: Settings, catalog: Catalog, views: _Views, producer: KafkaRecordProducer) -> Run:
    if role == "ledger":
        from agents.ledger import Ledger

        return Ledger(settings).run
    if role == "planner":
        from agents.planning import PlannerLoop
        from planner.policies import DEFAULT, named

        named(settings.planner.policy or DEFAULT)
        return PlannerLoop(settings, catalog, producer, views.plans, views.fleet).run
    from agents.engines import check_models
    from agents.worker import Worker

    check_models(catalog, settings.worker.engine)
    if settings.worker.variant:
        catalog.level(settings.worker.variant)
    worker_id = settings.worker.id or f"{socket.gethostname()}-{os.getpid()}"
    return Worker(
        settings, catalog, producer, open_store(settings), views.plans, views.ended, views.fleet, worker_id
    ).run


def set_up_logging() -> None:
    """One line a message on standard error, with time, level and logger."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    for noisy in ("faust", "mode", "aiokafka", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
