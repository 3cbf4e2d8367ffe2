"""Puts the roles of a process together: one producer, one set of views, each role with its collaborators."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from agents.runtime.features import check_settings, stages_of
from agents.runtime.process import Run, not_alive
from agents.runtime.stream_roles import classifiers_of, discriminator_of, router_of, soft_slo_of
from planner.catalog.model import Catalog
from schemas.topics import OUTCOMES, SKEW_MS
from streams import catalogs
from streams.codec.avro import write_up_to
from streams.codec.schema_topic import KnownSchemas, announcements
from streams.control import deletions
from streams.extras import check_roles
from streams.kafka.groups.groups import classic_settings, member_config
from streams.kafka.producers.limit_questions import refreshed
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.topic_limits import batching
from streams.kafka.producers.writing import RecordProducer, send_all
from streams.kafka.topics import create_topics
from streams.observing import logs
from streams.observing.health import Health, Probe, served
from streams.processes.announced import announced
from streams.security.access_check import check_access
from streams.security.properties import check_properties
from streams.settings import Settings
from streams.tracing.opening import traced

if TYPE_CHECKING:  # each role imports in its function below what it alone needs
    from agents.discriminator.fact_sample import Facts
    from agents.ledger.role import Ledger
    from agents.router.waiting.counting import CountedWaiting
    from agents.runtime.following import FollowedEnds, FollowedFleet, FollowedInFlight, FollowedPlans, FollowedPoison
    from streams.faust.host import AgentHost, StreamLogic

SWEEPER, FORWARDER = "sweeper", "forwarder"  # the threads beside a router
PLANNED = {"router", "discriminator"}  # stream roles that serve nothing before they hold a plan


class Follows(Protocol):
    """What follows a topic."""

    def start(self) -> object:
        """Begin."""

    def wait_caught_up(self) -> object:
        """Block until all of now has been read."""

    def close(self) -> object:
        """End."""


View = TypeVar("View", bound=Follows)


@dataclass
class Process:
    """The health of a process, its roles in threads, and its hosts of stream roles."""

    health: Health
    threaded: dict[str, Run] = field(default_factory=dict)
    hosts: "list[AgentHost]" = field(default_factory=list)

    def must_hand_over(self, role: str) -> bool:
        """Whether this stream role is to finish what it has in hand: the process ends, or its partitions move."""
        return self.health.is_stopping or any(host.role == role and host.is_rebalancing() for host in self.hosts)


class Threaded(NamedTuple):
    """A role with a thread of its own."""

    run: Run
    not_ready: Probe
    not_alive: Probe = lambda: ""  # besides its thread, which is looked after for every role


class Views:
    """The views that the roles of one process share: opened once, with their topics, and only when a role asks.

    By then it has loaded its models: that takes seconds and no broker, which may be away meanwhile. The views read side
    by side.
    """

    def __init__(
        self, settings: Settings, role: str, catalog: Catalog, producer: RecordProducer, stack: contextlib.ExitStack
    ) -> None:
        self._settings = settings
        self._role = role
        self._catalog = catalog
        self._stack = stack
        self._producer = producer
        self._has_topics = False
        self._followed: list[Follows] = []

    def need_topics(self) -> None:
        """Create topics, announce the schemas of this release, learn newer ones, and report what was deleted unread.

        Raises PochadeError: what the cluster refuses, a right that a role lacks among it.
        """
        if not self._has_topics:
            variants = sorted(self._catalog.served)
            check_access(self._settings, self._role.split("+"), variants)
            create_topics(self._settings, variants)
            send_all(self._producer, announcements())  # before its first record
            known = KnownSchemas(self._settings)
            self._stack.callback(known.close)
            known.start()
            deletions.report(self._settings, self._role.split("+"), self._producer)
            self._has_topics = True

    def _opened(self, view: View) -> View:
        self.need_topics()
        self._stack.callback(view.close)  # first: starting may fail
        view.start()
        self._followed.append(view)
        return view

    def wait_caught_up(self) -> None:
        """Block until each view that was opened has read its past, the plans first. Raises PochadeError, as each."""
        plans = self.__dict__.get("plans")
        for view in sorted(self._followed, key=lambda view: view is not plans):
            view.wait_caught_up()

    @cached_property
    def plans(self) -> "FollowedPlans":
        from agents.runtime.following import FollowedPlans

        return self._opened(FollowedPlans(self._settings, self._role, self._catalog))

    @cached_property
    def ended(self) -> "FollowedEnds":
        from agents.runtime.following import FollowedEnds

        return self._opened(FollowedEnds(self._settings))

    @cached_property
    def in_flight(self) -> "FollowedInFlight":
        from agents.runtime.following import FollowedInFlight

        return self._opened(FollowedInFlight(self._settings, self.ended))

    @cached_property
    def fleet(self) -> "FollowedFleet":
        from agents.runtime.following import FollowedFleet

        return self._opened(FollowedFleet(self._settings))

    @cached_property
    def poison(self) -> "FollowedPoison":
        from agents.runtime.following import FollowedPoison

        return self._opened(FollowedPoison(self._settings))

    @cached_property
    def waiting(self) -> "CountedWaiting":
        """The jobs that wait for idle workers, counted by the plan in force."""
        from agents.router.waiting.counting import CountedWaiting

        counted = CountedWaiting(self._settings, sorted(self._catalog.served), self.plans, self._role)
        self._stack.callback(counted.close)
        return counted.start()


class Opening(NamedTuple):
    """What a role of the process is opened with."""

    settings: Settings
    catalog: Catalog
    views: Views
    producer: KafkaRecordProducer
    stack: contextlib.ExitStack
    process: Process
    facts: "Facts | None" = None  # what checks a sample of kept images


@contextlib.contextmanager
def assemble(settings: Settings, roles: frozenset[str], facts: "Facts | None" = None) -> Iterator[Process]:
    """Open the clients that these roles need, and close them in the end.

    `facts`: what checks a sample of kept images (`quality.checked_share`); the laboratory has one, which no role knows.

    Raises:
        PochadeError: a catalog, model folder, broker or setting that is not right, before anything is consumed; or
            packages that these roles need are not installed.
    """
    check_settings(settings)
    catalog = catalogs.load(settings.catalog)
    check_roles(settings, catalog, roles)
    logs.set_up(settings.logs, roles)
    check_properties(settings, roles)
    write_up_to(settings.schemas.write_up_to)
    health = Health(roles)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(served(health, settings.http))
        stack.enter_context(announced(settings.home, settings.kafka.prefix, roles, address))
        stack.enter_context(traced(settings))
        stack.enter_context(refreshed(settings))
        producer = KafkaRecordProducer(settings, extra=batching())
        stack.callback(producer.close)
        views = Views(settings, "+".join(sorted(roles)), catalog, producer, stack)
        process = Process(health)
        probes: dict[str, tuple[Probe, Probe]] = {}
        opening = Opening(settings, catalog, views, producer, stack, process, facts)
        for role in sorted(roles):
            if role == "router":
                for name, run in _beside_router(opening).items():
                    process.threaded[name] = run
                    probes[name] = (lambda: "", partial(not_alive, name))
            if role in STREAM_ROLES:
                for host in _hosts(role, opening):
                    process.hosts.append(host)
                    probes[host.role] = (partial(_not_ready, role, host, views), host.not_alive)
            else:
                threaded = THREADED_ROLES[role](opening)
                process.threaded[role] = threaded.run
                probes[role] = (threaded.not_ready, partial(_not_alive, role, threaded))
        views.wait_caught_up()
        for role, (ready, alive) in probes.items():  # all at once: their threads begin when the last is assembled
            health.watch(role, ready=ready, alive=alive)
        yield process


def _not_ready(role: str, host: "AgentHost", views: Views) -> str:
    return host.not_ready() or (views.plans.not_ready() if role in PLANNED else "")


def _not_alive(role: str, threaded: Threaded) -> str:
    return not_alive(role) or threaded.not_alive()


def _hosts(role: str, opening: Opening) -> "Iterator[AgentHost]":
    from agents.worker.resuming import settle
    from streams.faust.host import AgentHost

    settings = opening.settings
    hosted = classic_settings(settings)
    for logic in STREAM_ROLES[role](opening):
        settle(settings, logic.source, f"{settings.kafka.prefix}.{logic.role}")
        yield AgentHost(hosted, logic, opening.producer)


def _classifier(opening: Opening) -> "list[StreamLogic]":
    from agents.classifier.batch_gate import BatchClassifier
    from agents.classifier.judges import open_judge

    settings, catalog, views = opening.settings, opening.catalog, opening.views
    judge = open_judge(catalog)  # first: it asks no broker
    leaves = partial(opening.process.must_hand_over, BatchClassifier.role)
    return classifiers_of(settings, catalog, judge, views.fleet, views.ended, views.in_flight, leaves)


def _router(opening: Opening) -> "list[StreamLogic]":
    from agents.router.dispatcher import Dispatcher

    settings, catalog, views = opening.settings, opening.catalog, opening.views
    dispatcher = Dispatcher(catalog, views.fleet, "router", views.waiting)
    return [router_of(settings, catalog, views.plans, views.ended, dispatcher)]


def _beside_router(opening: Opening) -> dict[str, Run]:
    """The threads beside a router: one moves jobs of workers that left, one forwards jobs to idle workers."""
    from agents.router.reroute import rerouter_of
    from agents.router.waiting.forwarder import forwarder_of

    views = opening.views
    beside = (
        opening.settings, opening.catalog, opening.producer, views.plans, views.ended, views.fleet, views.waiting
    )  # fmt: skip
    return {SWEEPER: rerouter_of(*beside).run, FORWARDER: forwarder_of(*beside).run}


def _discriminator(opening: Opening) -> "list[StreamLogic]":
    from agents.discriminator.fact_sample import FactSample
    from agents.discriminator.scorers import open_scorers
    from agents.router.dispatcher import Dispatcher
    from streams.store.open import open_store

    settings, catalog, views = opening.settings, opening.catalog, opening.views
    store, scorers = open_store(settings), open_scorers(catalog)
    dispatcher = Dispatcher(catalog, views.fleet, "discriminator", views.waiting)
    facts, share = opening.facts, settings.quality.checked_share
    sample = None if facts is None or not share else FactSample(share, facts, catalog, store)
    return [discriminator_of(settings, catalog, views.plans, views.ended, dispatcher, store, scorers, sample)]


def ledger_of(settings: Settings, producer: RecordProducer) -> "Ledger":
    """The ledger of a process."""
    from agents.ledger.role import Ledger, LedgerRules

    grace_ms = round(settings.ledger.deadline_grace_s * 1000)
    most_ahead_ms = round(settings.requests.max_deadline_s * 1000) + SKEW_MS
    rules = LedgerRules(grace_ms, most_ahead_ms, settings.results.format)
    return Ledger(settings, rules, partial(member_config, settings), producer)


def _ledger(opening: Opening) -> Threaded:
    from agents.worker.resuming import settle

    opening.views.need_topics()
    settle(opening.settings, OUTCOMES, f"{opening.settings.kafka.prefix}.ledger")
    ledger = ledger_of(opening.settings, opening.producer)
    return Threaded(ledger.run, ledger.not_ready)


def _planner(opening: Opening) -> Threaded:
    from agents.planner.loop import PlannerLoop
    from planner.policies import DEFAULT, named
    from streams.kafka.transactions.lease import KafkaLease

    settings, views = opening.settings, opening.views
    named(settings.planner.policy or DEFAULT)
    lease = KafkaLease(settings)
    opening.stack.callback(lease.close)
    known = catalogs.measured(settings.catalog)
    planner = PlannerLoop(settings, known, lease, views.plans, views.fleet)
    planner.sources.builder.queues.held = views.waiting.count
    return Threaded(planner.run, planner.not_ready)


def _indexer(opening: Opening) -> Threaded:
    from agents.indexer.role import indexer_of
    from streams.store.open import open_store

    indexer = indexer_of(opening.settings, opening.catalog, open_store(opening.settings), opening.views.plans)
    return Threaded(indexer.run, indexer.not_ready)


def _gateway(opening: Opening) -> Threaded:
    from agents.gateway.server import gateway_of

    opening.views.need_topics()
    gateway = gateway_of(opening.settings, opening.catalog, opening.producer, opening.stack)
    return Threaded(gateway.run, gateway.not_ready)


def _console(opening: Opening) -> Threaded:
    from agents.console.server import console_of

    opening.views.need_topics()
    console = console_of(opening.settings, opening.catalog, opening.producer, opening.stack)
    return Threaded(console.run, console.not_ready)


def _worker(opening: Opening) -> Threaded:
    from agents.engines import check_models
    from agents.worker.reuse import opener
    from agents.worker.role import Worker
    from streams.store.open import open_store

    settings, catalog, views = opening.settings, opening.catalog, opening.views
    check_models(catalog, settings.worker.engine)
    if settings.worker.variant:
        catalog.level(settings.worker.variant)
    worker_id = settings.worker.id or f"{socket.gethostname()}-{os.getpid()}"
    store = open_store(settings)
    stages = stages_of(settings, store, opening.producer.send)
    opening.stack.callback(stages.close)
    worker = Worker(
        settings, catalog, opening.producer, store, views.plans, views.ended, views.fleet, worker_id,
        opens_lookups=opener(settings, store), stages=stages, poison=views.poison,
        slo_ms=soft_slo_of(settings, catalog),
    )  # fmt: skip
    return Threaded(worker.run, worker.not_ready, worker.not_alive)


STREAM_ROLES: "dict[str, Callable[[Opening], list[StreamLogic]]]" = {
    "classifier": _classifier,
    "router": _router,
    "discriminator": _discriminator,
}
THREADED_ROLES: dict[str, Callable[[Opening], Threaded]] = {
    "ledger": _ledger,
    "planner": _planner,
    "indexer": _indexer,
    "gateway": _gateway,
    "console": _console,
    "worker": _worker,
}
