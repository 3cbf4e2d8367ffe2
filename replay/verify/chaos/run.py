"""Runs chaos once: starts a deployment, sends numbered requests, causes faults meanwhile, and audits in the end."""

import pathlib
import shutil
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from planner.catalog.entries import Variant
from replay.demo import state_of
from replay.load.driver import TICK_S, Driver
from replay.local.hosting import LocalDeployment, epoch_ms, follow
from replay.local.readiness import GeneratedCounter
from replay.local.supervisor import RestartLimit
from replay.reports.progress import ProgressReporter
from replay.traces.trace import Overrides
from replay.verify.audit.reading import Audited, audit
from replay.verify.chaos import oracle, recovery
from replay.verify.chaos.brokers import BrokerCluster
from replay.verify.chaos.doing import Faults
from replay.verify.chaos.faults import cluster
from replay.verify.chaos.faults.components import points_of
from replay.verify.chaos.faults.disks import hang_mark
from replay.verify.chaos.faults.scaling import end_workers
from replay.verify.chaos.garbage import collect
from replay.verify.chaos.kinds import (
    PURGE,
    component_catalogue,
    fault_catalogue,
    kinds,
    reuse_catalogue,
    scale_catalogue,
)
from replay.verify.chaos.lookups import LookupWatch
from replay.verify.chaos.options import (
    SESSION_MS,
    ChaosOptions,
    deployment_of,
    from_remote,
    on_cluster,
    processes_of,
    share_jars,
)
from replay.verify.chaos.oracle import Acknowledged
from replay.verify.chaos.schedule import (
    LAST,
    Card,
    Fault,
    draw_faults,
    draw_requests,
    in_bursts,
    killers,
    ordinary,
    with_last,
)
from replay.verify.chaos.story import report_of
from replay.verify.chaos.weights.checks import Checked, check
from replay.verify.chaos.weights.orders import store_outline, with_components
from replay.verify.chaos.weights.remote import BUCKET, WeightsRemote
from replay.verify.chaos.weights.tiers import TierWatch
from replay.verify.chaos.world import World
from schemas.topics import FLEET, IMAGES, RESULTS, full_name
from streams.broker.address import kafka_home
from streams.catalogs import load as load_catalog
from streams.catalogs import measured
from streams.kafka.clients import client_config
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.operator.client import RequestClient
from streams.settings import Settings
from streams.store.open import open_store
from streams.vectors import lite_server

TIRELESS = RestartLimit(restarts=100_000, first_s=0.5, most_s=1.0)  # what an orchestrator does with a dead role


ONCE = 0.8  # share of a run of several brokers after which one is lost for good, as the last fault


def _faults(options: ChaosOptions, *, can_exit: bool) -> list[Fault]:
    cards = fault_catalogue(options.worker_ids, SESSION_MS, can_exit=can_exit, brokers=options.brokers)
    if options.reuses:
        cards += reuse_catalogue(SESSION_MS, options.span_ms)
    if options.moves_components:
        cards += component_catalogue(options.worker_ids, options.span_ms)
    if options.scales:
        cards += scale_catalogue(SESSION_MS)
    cards += [Card(kind=PURGE)] if PURGE in options.only else []
    chosen = [card for card in cards if not options.only or card.kind in options.only]
    has_last = options.brokers > 1 and options.faults > 0 and (not options.only or cluster.LOST in options.only)
    count = options.faults - has_last if chosen else 0
    last = ONCE if options.brokers > 1 else LAST
    faults = draw_faults(chosen, count, options.span_ms, options.seed, last) if count else []
    return with_last(faults, cluster.LOST, options.span_ms, ONCE, options.seed) if has_last else faults


class ChaosRun:
    """`run` may be called once."""

    def __init__(
        self, settings: Settings, inherited: Settings, options: ChaosOptions, name: str, teller: ProgressReporter
    ) -> None:
        self._options, self._teller, self._usual, self._name = options, teller, settings, name
        self.settings = deployment_of(settings, options, name)
        self._cluster = BrokerCluster(kafka_home(self.settings), options.brokers) if options.brokers > 1 else None
        if self._cluster is not None:
            self.settings = on_cluster(self.settings, self._cluster.bootstrap)
        self._faults = _faults(options, can_exit=self.settings.worker.engine == "chaos")
        self._due = draw_requests(
            f"chaos-{name}", options.requests, options.rate, options.seed, self._faults, repeat=options.reuses
        )
        self._remote: WeightsRemote | None = None
        if options.moves_components:
            self._remote = WeightsRemote(self.settings.home / "remote" / BUCKET, self._styles.components)
            self.settings = from_remote(self.settings, self._remote.endpoint_url)
        if options.scales:
            self._due = in_bursts(self._due)
        make = partial(
            processes_of, hang_mark(self.settings), with_twins=options.brokers > 1, with_indexer=options.reuses,
            points=points_of(self.settings) if options.moves_components else None, is_scaled=options.scales,
        )  # fmt: skip
        self._lookups, self._tiers = LookupWatch(), TierWatch()
        self._kinds = kinds(
            options.brokers, with_reuse=options.reuses, with_components=options.moves_components,
            is_scaled=options.scales,
        )  # fmt: skip
        self._hosted = LocalDeployment(self.settings, inherited, options.worker_ids, teller, make, TIRELESS)

    def run(self) -> dict[str, Any]:
        """Run, and return the report. Raises PochadeError where something cannot be started or read."""
        share_jars(self._usual, self.settings)
        pathlib.Path(self.settings.store.folder).mkdir(parents=True, exist_ok=True)
        began_s = time.time()
        with ExitStack() as stack:
            client, world = self._start(stack)
            driver = Driver(self._due, world.submit, epoch_ms)
            follow(client, driver, stack)
            stack.callback(client.follow(world.on_result).close)
            faults, start_ms = self._break(driver, world, stack)
            self._teller.phase("stopping all roles")
            self._hosted.roles.stop()
            end_workers(self.settings)
            if self._options.reuses:  # a fault may have given up before it was back
                lite_server.ensure(self.settings)
            self._teller.phase("reading everything again")
            found = self._audit(driver, start_ms)
            counted = self._count(world)
            components = self._check_components(found, world)
            left = collect(self.settings)
        recovered = recovery.of(
            found.tally, faults, SESSION_MS, self.settings.worker.job_timeout_s, accepted_ms=world.accepted_ms,
            become_new_record=len(world.doubled), killers=killers(self._due) | world.killers(),
            ordinary=ordinary(self._due), brokers=self._options.brokers,
        )  # fmt: skip
        return report_of(
            self._options, found, faults, recovered, left,
            endings=self._hosted.roles.endings, start_ms=start_ms, seconds=time.time() - began_s,
            lookups=self._lookups if self._options.reuses else None, components=components, counted=counted,
            gone=world.gone(), last_ms=faults.last_ms(start_ms, self._due),
        )  # fmt: skip

    def _start(self, stack: ExitStack) -> tuple[RequestClient, World]:
        """Start brokers, stores, roles and workers, and serve a first request; `stack` ends all of them."""
        if self._cluster is not None:
            self._teller.phase(f"starting {self._options.brokers} brokers")
            stack.callback(self._cluster.stop_all)
            self._cluster.start_all()
        if self._options.reuses:
            stack.callback(lite_server.stop, self.settings)
            lite_server.ensure(self.settings, self._teller.note)
        if self._remote is not None:
            stack.enter_context(self._remote.serving())
            self._name_components()
        if self._options.scales:
            stack.callback(end_workers, self.settings)
        self._hosted.start(stack)
        producer = KafkaRecordProducer(self.settings)
        stack.callback(producer.close)
        client = RequestClient(self.settings, producer)
        acknowledged = Acknowledged(self.settings.home / "acknowledged.jsonl")
        stack.callback(acknowledged.close)
        world = World(self._hosted, client, producer, self._cluster, self._remote, acknowledged)
        world.start(stack, sorted(measured(self.settings.catalog).variants))
        world.serving = self._hosted.ready.serving
        self._hosted.warm_up(client, f"warm-up-{self._name}", self._options.seed)
        return client, world

    @property
    def _styles(self) -> Variant:
        """The variant that requests of a run with components name components of."""
        variants = load_catalog(self.settings.catalog).on_request.values()
        return next(each for each in variants if each.bases)

    def _name_components(self) -> None:
        styles = self._styles
        outline = store_outline(open_store(self.settings), styles.width, styles.height, Overrides().tenant)
        self._due = with_components(self._due, styles, outline, self._options.seed)

    def _check_components(self, found: Audited, world: World) -> Checked | None:
        if self._remote is None:
            return None
        self._teller.phase("generating again what named components")
        asked, results = dict(world.asked), found.tally.first_results()
        found_components = check(self.settings.catalog, self._styles, asked, results, open_store(self.settings))
        return replace(found_components, tiers=self._tiers.report())

    def _audit(self, driver: Driver, start_ms: float) -> Audited:
        """Audit from the first request on, without the requests that warmed the deployment up."""
        return audit(
            self.settings, since_ms=int(start_ms), asked=driver.accepted(), orphan_ms=0,
            has_all_sources=True, has_marks=self._options.engine == "profile",
        )  # fmt: skip

    def _count(self, world: World) -> oracle.Counted:
        """Count the ends of acknowledged requests by a consumer that is not the product's."""
        results = full_name(self.settings.kafka.prefix, RESULTS)
        found = oracle.read(client_config(self.settings)["bootstrap.servers"], results)
        return oracle.count(self.settings.home / "acknowledged.jsonl", found, world.gone())

    def _break(self, driver: Driver, world: World, stack: ExitStack) -> tuple[Faults, float]:
        """Requests and faults until both are over, or nothing moves any more."""
        generated, faults = GeneratedCounter(), Faults(self._faults, self._kinds, world)
        stack.callback(TopicTailer(self.settings, [IMAGES], generated.on_record).start().close)
        if self._options.reuses:
            stack.callback(TopicTailer(self.settings, [FLEET], self._lookups.on_record, since_ms=None).start().close)
        if self._remote is not None:
            stack.callback(TopicTailer(self.settings, [FLEET], self._tiers.on_record, since_ms=None).start().close)
        stack.callback(faults.close)
        start_ms = epoch_ms()
        while not (driver.is_finished() and faults.are_over and world.is_over(epoch_ms())):
            driver.publish_due()
            for note in faults.tick(start_ms, epoch_ms()):
                self._teller.note(note)
            self._hosted.supervise()
            self._teller.state(state_of(driver, generated, (0, 0)))
            if faults.are_over and driver.is_stuck():
                self._teller.note("nothing has moved for two minutes: giving up waiting")
                break
            time.sleep(TICK_S)
        return faults, start_ms

    def clear(self) -> None:
        """Delete what the run left on the disk."""
        shutil.rmtree(self.settings.home, ignore_errors=True)
