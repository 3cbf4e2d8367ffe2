"""A deployment of one's own on this machine, as a run needs it: broker, topics, roles, and a first image."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from fcntl import LOCK_EX, LOCK_SH
from functools import partial

from replay.load.driver import Driver, drive, schedule
from replay.local.deployment import child_environment, child_options, roles_of
from replay.local.forked import RoleForks, modules_of
from replay.local.processes import RoleProcess
from replay.local.readiness import Readiness
from replay.local.supervisor import USUAL, RestartLimit, Supervisor
from replay.reports.progress import ProgressReporter
from schemas.errors import PochadeError
from schemas.topics import FLEET, PLAN
from streams import catalogs
from streams.broker import address, embedded
from streams.broker.record import make_private
from streams.extras import check_roles
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.topics import create_topics
from streams.locks import try_lock
from streams.operator.client import RequestClient
from streams.settings import Settings
from streams.vectors import lite, lite_server

READY_LIMIT_S = 240.0  # five processes load torch at once: 20 s on two cores
TICK_S = 0.05
PROBE = "a red heart"
WARM_UP_MS = 500.0  # between two of them


class LocalDeployment:
    """A deployment on this machine: a broker and all roles, which are stopped as `stack` closes."""

    def __init__(
        self,
        settings: Settings,
        inherited: Settings,
        worker_ids: Sequence[str],
        teller: ProgressReporter,
        make: Callable[[Sequence[str], Sequence[str]], list[RoleProcess]] | None = None,
        patience: RestartLimit = USUAL,
    ) -> None:
        """`make`: the processes, from the options of a child and the ids of the workers; None for `roles_of`."""
        make = make or partial(roles_of, has_index=bool(settings.vectors.url))
        self.settings, self._teller = settings, teller
        self.options = child_options(settings, inherited)
        os.environ.update(child_environment(settings, inherited))
        self.processes = make(self.options, worker_ids)
        logs = settings.home / "logs"
        self._forks = RoleForks(partial(modules_of, settings), logs / "fork-server.log")
        self.roles = Supervisor(self.processes, logs, spawn=self._forks, patience=patience)
        self.ready = Readiness(worker_ids)
        self.owns_vectors = False  # whether a Milvus Lite was started here, for this run alone

    def start(self, stack: ExitStack) -> None:
        """Start everything and wait until requests can be served. Raises PochadeError with what failed to start."""
        catalog = catalogs.load(self.settings.catalog)
        check_roles(self.settings, catalog, ("classifier", "discriminator", "worker"))
        start_broker(self.settings, stack, self._teller)
        self.owns_vectors = start_vectors(self.settings, stack, self._teller)
        stack.callback(self._forks.close)
        stack.enter_context(self.roles).start()
        stack.callback(TopicTailer(self.settings, [PLAN, FLEET], self.ready.on_record).start().close)
        self._await_ready()

    def _await_ready(self) -> None:
        end_s = time.monotonic() + READY_LIMIT_S
        while missing := self.ready.missing():
            self._teller.phase("waiting for " + ", ".join(missing))
            self.supervise(is_starting=True)
            if time.monotonic() > end_s:
                raise PochadeError(
                    f"not ready after {READY_LIMIT_S:g} s: still waiting for {', '.join(missing)}; "
                    f"see the logs in {self.settings.home / 'logs'}"
                )
            time.sleep(TICK_S)

    def supervise(self, *, is_starting: bool = False) -> None:
        """Restart roles that died, and report it. Raises RoleFailed."""
        for note in self.roles.check(is_starting=is_starting):
            self._teller.note(note)

    def warm_up(self, client: RequestClient, name: str, seed: int, count: int = 1) -> Driver:
        """Send a prompt through the whole pipeline first, so that a measurement is of serving, not of starting.

        `count`: how often, every WARM_UP_MS. None of them is looked up, as each states a seed.
        """
        self._teller.phase("waiting for a first image")
        arrivals_ms = [WARM_UP_MS * number for number in range(count)]
        probe = Driver(schedule(name, [PROBE], arrivals_ms, seed), client.submit, epoch_ms)
        with ExitStack() as stack:
            follow(client, probe, stack)
            if not drive(probe, self.supervise, time.sleep):
                raise PochadeError(
                    f"the first prompt has no result after two minutes; see the logs in {self.settings.home / 'logs'}"
                )
        return probe


def start_broker(settings: Settings, stack: ExitStack, teller: ProgressReporter) -> None:
    """A broker, stopped with `stack` if it was started here, and the deployment's topics.

    Raises PochadeError: it cannot be started, or another run has started it and stops it at its end.
    """
    if not address.is_foreign(settings):
        home = address.kafka_home(settings)
        make_private(home)
        with ExitStack() as held:
            run = held.enter_context(open(home / "run.lock", "w"))
            is_running = address.find(settings) is not None
            if not try_lock(run.fileno(), LOCK_SH if is_running else LOCK_EX):
                why = f"another run has started the broker of {home.parent} and stops it: wait or give another --home"
                raise PochadeError(why)
            if not is_running:
                teller.phase("starting the broker")
                stack.push(held.pop_all())  # who stops the broker holds the lock until then
                stack.callback(embedded.stop, settings)
    running = embedded.ensure(settings, teller.note)
    teller.phase(f"broker at {running.bootstrap}; creating topics {settings.kafka.prefix}.*")
    create_topics(settings)


def start_vectors(settings: Settings, stack: ExitStack, teller: ProgressReporter) -> bool:
    """Start Milvus Lite where `vectors.url` is lite, stopped with `stack` if it was started here; whether it was.

    Raises PochadeError: it is not installed, or does not start.
    """
    if settings.vectors.url != "lite":
        return False
    teller.phase("starting the vector store")
    is_ours = lite.running(settings) is None
    if is_ours:
        stack.callback(lite_server.stop, settings)
    lite_server.ensure(settings, teller.note)
    return is_ours


def open_client(settings: Settings, stack: ExitStack) -> RequestClient:
    """A client of the deployment, closed with `stack`."""
    producer = KafkaRecordProducer(settings)
    stack.callback(producer.close)
    return RequestClient(settings, producer)


def follow(client: RequestClient, driver: Driver, stack: ExitStack, since_ms: int = 0) -> None:
    """Hand a driver the results since a moment and those that come, until `stack` closes."""
    following = client.follow(driver.on_result, since_ms)
    stack.callback(following.close)
    following.wait_caught_up(60)


def epoch_ms() -> float:
    """Return the current time in epoch milliseconds, with fractions."""
    return time.time() * 1000
