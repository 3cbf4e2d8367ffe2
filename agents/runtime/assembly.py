"""Puts the roles of a process together: one producer, one set of views, each role with its collaborators."""

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agents.router.reroute import rerouter_of
from agents.router.waiting.counting import CountedWaiting
from agents.router.waiting.forwarder import forwarder_of
from agents.runtime.following import FollowedEnds, FollowedFleet, FollowedInFlight, FollowedPlans, FollowedPoison
from agents.runtime.process import Run, not_alive
from agents.worker.resuming import settle
from planner.catalog.model import Catalog
from planner.serving.routing.soft_deadline import soft_slo_ms
from schemas.topics import OUTCOMES, SKEW_MS
from streams import catalogs, logs
from streams.codec.avro import write_up_to
from streams.codec.schema_topic import KnownSchemas, announcements
from streams.control import deletions
from streams.health import Health, Probe, served
from streams.kafka.groups.groups import classic_settings, member_config
from streams.kafka.producers.limit_questions import refreshed
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.topic_limits import batching
from streams.kafka.producers.writing import RecordProducer, send_all
from streams.kafka.topics import create_topics
from streams.processes.announced import announced
from streams.security.access_check import check_access
from streams.security.properties import check_properties
from streams.settings import Settings
from streams.store.open import open_store
from streams.tracing.opening import traced

if TYPE_CHECKING:  # half a second of imports, which roles with a thread of their own do without
    from agents.discriminator.fact_sample import Facts
    from agents.ledger.role import Ledger
    from streams.faust.host import AgentHost, StreamLogic

STREAM_ROLES = {"classifier", "router", "discriminator"}
SWEEPER, FORWARDER = "sweeper", "forwarder"  # the threads beside a router
PLANNED = {"router", "discriminator"}  # stream roles that serve nothing before they hold a plan

View = TypeVar("View", FollowedPlans, FollowedEnds, FollowedFleet, FollowedInFlight, FollowedPoison, CountedWaiting)


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

    By then it has loaded its models: that takes seconds and no broker, which may be away meanwhile.
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
        return view

    @cached_property
    def plans(self) -> FollowedPlans:
        return self._opened(FollowedPlans(self._settings, self._role, self._catalog))

    @cached_property
    def ended(self) -> FollowedEnds:
        return self._opened(FollowedEnds(self._settings))

    @cached_property
    def in_flight(self) -> FollowedInFlight:
        return self._opened(FollowedInFlight(self._settings, self.ended))

    @cached_property
    def fleet(self) -> FollowedFleet:
        return self._opened(FollowedFleet(self._settings))

    @cached_property
    def poison(self) -> FollowedPoison:
        return self._opened(FollowedPoison(self._settings))

    @cached_property
    def waiting(self) -> CountedWaiting:
        """The jobs that wait for idle workers, counted by the plan in force."""
        return self._opened(CountedWaiting(self._settings, sorted(self._catalog.served), self.plans, self._role))


@contextlib.contextmanager
def assemble(settings: Settings, roles: frozenset[str], facts: "Facts | None" = None) -> Iterator[Process]:
    """Open the clients that these roles need, and close them in the end.

    `facts`: what checks a sample of kept images (`quality.checked_share`); the laboratory has one, which no role knows.

    Raises:
        PochadeError: a catalog, model folder, broker or setting that is not right, before anything is consumed.
    """
    logs.set_up(settings.logs, roles)
    check_properties(settings, roles)
    write_up_to(settings.schemas.write_up_to)
    health = Health(roles)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(served(health, settings.http))
        stack.enter_context(announced(settings.home, settings.kafka.prefix, roles, address))
        stack.enter_context(traced(settings))
        catalog = catalogs.load(settings.catalog, settings.published)
        stack.enter_context(refreshed(settings))
        producer = KafkaRecordProducer(settings, extra=batching())
        stack.callback(producer.close)
        views = Views(settings, "+".join(sorted(roles)), catalog, producer, stack)
        process = Process(health)
        probes: dict[str, tuple[Probe, Probe]] = {}
        for role in sorted(roles):
            if role == "router":
                beside = settings, catalog, producer, views.plans, views.ended, views.fleet, views.waiting
                for name, run in ((SWEEPER, rerouter_of(*beside).run), (FORWARDER, forwarder_of(*beside).run)):
                    process.threaded[name] = run
                    probes[name] = (lambda: "", partial(not_alive, name))
            if role in STREAM_ROLES:
                from streams.faust.host import AgentHost

                hosted = classic_settings(settings)
                for logic in _logics(role, settings, catalog, views, process, facts):
                    settle(settings, logic.source, f"{settings.kafka.prefix}.{logic.role}")
                    host = AgentHost(hosted, logic, producer)
                    process.hosts.append(host)
                    probes[logic.role] = (partial(_not_ready, role, host, views), host.not_alive)
            else:
                threaded = _threaded(role, settings, catalog, views, producer, stack)
                process.threaded[role] = threaded.run
                probes[role] = (threaded.not_ready, partial(_not_alive, role, threaded))
        for role, (ready, alive) in probes.items():  # all at once: their threads begin when the last is assembled
            health.watch(role, ready=ready, alive=alive)
        yield process


def _not_ready(role: str, host: "AgentHost", views: Views) -> str:
    return host.not_ready() or (views.plans.not_ready() if role in PLANNED else "")


def _not_alive(role: str, threaded: Threaded) -> str:
    return not_alive(role) or threaded.not_alive()


def _logics(
    role: str, settings: Settings, catalog: Catalog, views: Views, process: Process, facts: "Facts | None" = None
) -> "list[StreamLogic]":
    if role == "classifier":
        from agents.classifier.batch_gate import BatchClassifier
        from agents.classifier.judges import open_judge
        from agents.classifier.role import Classifier

        judge = open_judge(catalog)  # first: it asks no broker
        classifier = Classifier(judge, catalog, settings.requests, views.ended, views.in_flight)
        leaves = partial(process.must_hand_over, BatchClassifier.role)
        batch = BatchClassifier(classifier, catalog, views.fleet, views.ended, leaves)
        return [classifier, batch]
    from agents.router.dispatcher import Dispatcher

    if role == "router":
        from agents.router.role import Router
        from agents.router.tenants import Tenants
        from planner.serving.admission.quotas import Quota
        from planner.serving.routing.routing import RoutingLogic, backlog_limits

        tenants = Tenants({name: Quota(**limits.model_dump()) for name, limits in settings.tenants.items()})
        views.ended.on_end.append(tenants.ended)
        dispatcher = Dispatcher(catalog, views.fleet, role, views.waiting)
        limits = backlog_limits(settings.admission.max_backlog_s, settings.admission.interactive_headroom)
        start_ms = 1000 * settings.planner.scale.start_s
        routing = RoutingLogic(catalog, limits, tenants, views.ended, start_ms, _soft_slo_ms(settings, catalog))
        return [Router(routing, views.plans, dispatcher)]
    from agents.discriminator.fact_sample import FactSample
    from agents.discriminator.role import Discriminator
    from agents.discriminator.scorers import open_scorers
    from planner.serving.routing.escalation import EscalationLogic

    store, scorers = open_store(settings), open_scorers(catalog)
    dispatcher = Dispatcher(catalog, views.fleet, role, views.waiting)
    logic = EscalationLogic(catalog, _soft_slo_ms(settings, catalog))
    share = settings.quality.checked_share
    sample = None if facts is None or not share else FactSample(share, facts, catalog, store)
    attempts = settings.worker.max_attempts
    return [Discriminator(logic, views.plans, views.ended, dispatcher, store, scorers, sample, attempts)]


def _soft_slo_ms(settings: Settings, catalog: Catalog) -> float:
    admitted = settings.admission
    return soft_slo_ms(settings.planner.slo_s, catalog, admitted.max_backlog_s, admitted.interactive_headroom)


def ledger_of(settings: Settings, producer: RecordProducer) -> "Ledger":
    """The ledger of a process."""
    from agents.ledger.role import Ledger, LedgerRules

    grace_ms = round(settings.ledger.deadline_grace_s * 1000)
    most_ahead_ms = round(settings.requests.max_deadline_s * 1000) + SKEW_MS
    rules = LedgerRules(grace_ms, most_ahead_ms, settings.results.format)
    return Ledger(settings, rules, partial(member_config, settings), producer)


def _threaded(
    role: str,
    settings: Settings,
    catalog: Catalog,
    views: Views,
    producer: KafkaRecordProducer,
    stack: contextlib.ExitStack,
) -> Threaded:
    if role == "ledger":
        views.need_topics()
        settle(settings, OUTCOMES, f"{settings.kafka.prefix}.{role}")
        ledger = ledger_of(settings, producer)
        return Threaded(ledger.run, ledger.not_ready)
    if role == "planner":
        return _planner_of(settings, views, stack)
    if role == "indexer":
        from agents.indexer.role import indexer_of

        indexer = indexer_of(settings, catalog, open_store(settings), views.plans)
        return Threaded(indexer.run, indexer.not_ready)
    if role == "gateway":
        from agents.gateway.server import gateway_of

        views.need_topics()
        gateway = gateway_of(settings, catalog, producer, stack)
        return Threaded(gateway.run, gateway.not_ready)
    if role == "console":
        from agents.console.server import console_of

        views.need_topics()
        console = console_of(settings, catalog, producer, stack)
        return Threaded(console.run, console.not_ready)
    return _worker_of(settings, catalog, views, producer)


def _planner_of(settings: Settings, views: Views, stack: contextlib.ExitStack) -> Threaded:
    from agents.planner.loop import PlannerLoop
    from planner.policies import DEFAULT, named
    from streams.kafka.transactions.lease import KafkaLease

    named(settings.planner.policy or DEFAULT)
    lease = KafkaLease(settings)
    stack.callback(lease.close)
    known = catalogs.measured(settings.catalog, settings.published)
    planner = PlannerLoop(settings, known, lease, views.plans, views.fleet)
    return Threaded(planner.run, planner.not_ready)


def _worker_of(settings: Settings, catalog: Catalog, views: Views, producer: KafkaRecordProducer) -> Threaded:
    from agents.engines import check_models
    from agents.worker.reuse import opener
    from agents.worker.role import Worker
    from agents.worker.safety import open_check

    check_models(catalog, settings.worker.engine)
    if settings.worker.variant:
        catalog.level(settings.worker.variant)
    worker_id = settings.worker.id or f"{socket.gethostname()}-{os.getpid()}"
    store = open_store(settings)
    worker = Worker(
        settings, catalog, producer, store, views.plans, views.ended, views.fleet, worker_id,
        opens_lookups=opener(settings, store), check=open_check(settings), poison=views.poison,
        slo_ms=_soft_slo_ms(settings, catalog),
    )  # fmt: skip
    return Threaded(worker.run, worker.not_ready, worker.not_alive)
