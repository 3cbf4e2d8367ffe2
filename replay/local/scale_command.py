"""The run of `pochade scale`: its fork server, what it reads, and its loop until a signal."""

import os
import pathlib
import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import FrameType

from rich.console import Console

from replay.local.deployment import child_environment, child_options
from replay.local.forked import engine_modules
from replay.local.scaling import MODULES, SupplyState, WorkerSupply
from replay.reports.progress import open_reporter
from schemas.topics import FLEET, PLAN
from streams import catalogs, metrics
from streams.clock import now_ms
from streams.control.plan_and_fleet import PlanAndFleet
from streams.kafka.consumers.consumer import TopicTailer
from streams.observing.cards import AS_NVML, ORDER, VISIBLE, check_there, open_cards
from streams.observing.health import Health, served
from streams.processes import signals
from streams.processes.forkserver import ForkedChild, LastingForkServer
from streams.settings import Settings, load
from streams.visible import counted

ROLE = "scale"
STEP_S = 0.2  # between two looks at the plan and the processes
OWNED = "replay.local.owned_worker:main"
CAUGHT_UP_S = 60.0  # for reading plan and fleet to their end


class Starter:
    """Forks workers that go on when this process ends, each of which sees one card alone where `cards` has one for it.

    So libraries that choose a device by themselves choose that one, which is cuda:0 there.
    """

    def __init__(self, settings: Settings, stack: ExitStack, cards: Mapping[str, int]) -> None:
        """`cards`: worker id -> index of its card on this machine, as nvidia-smi counts."""
        self._cards = cards
        self._logs = settings.home.resolve() / "logs"
        self._options = child_options(settings, load())
        os.environ.update(child_environment(settings, load()))
        self._server = LastingForkServer(partial(modules_of, settings), self._logs / "scale-server.log")
        stack.callback(self._server.close)

    def __call__(self, name: str, lock: pathlib.Path) -> ForkedChild:
        """Start a worker. Raises ForkFailed."""
        own = [str(lock.resolve()), *self._options, "--set", f"worker.id={name}"]
        environment = None
        if name in self._cards:
            own += ["--set", "worker.device=cuda:0"]
            environment = {**os.environ, VISIBLE: str(self._cards[name]), ORDER: AS_NVML}
        log = self._logs / f"{name}.log"
        return self._server.spawn([*own, "serve", "worker"], log, environment, target=OWNED, is_detached=True)


def modules_of(settings: Settings) -> list[str]:
    """Return what a worker of this deployment imports before it can load a model."""
    return [*MODULES, *engine_modules(settings, catalogs.load(settings.catalog))]


def show(state: SupplyState) -> None:
    """Set the gauges that Prometheus reads."""
    counts = state._asdict() | {"wanted": state.wanted or 0}
    for name, count in counts.items():
        metrics.SCALE_WORKERS.labels(name).set(count)


def run(settings: Settings, name: str, devices: Sequence[int] = (), *, is_kept: bool) -> None:
    """Supervise until SIGTERM, SIGINT or SIGHUP, then drain the workers unless they are kept.

    `devices`: the indices of the cards that get a worker each; (): workers choose. Raises PochadeError, also for a card
    that is not there.
    """
    cards = {f"{name}-gpu{index}": index for index in devices}
    check_there(devices, open_cards() if cards else None)
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in signals.ending():
        signal.signal(number, stop)
    with ExitStack() as stack:
        reporter = stack.enter_context(open_reporter(Console(stderr=True)))
        topics, health = PlanAndFleet(), Health([ROLE])
        address = stack.enter_context(served(health, settings.http))
        follower = TopicTailer(settings, [PLAN, FLEET], topics.on_record).start()
        stack.callback(follower.close)
        reporter.phase("reading the plan and the fleet")
        follower.wait_caught_up(CAUGHT_UP_S)
        if len(cards) > settings.kafka.jobs_partitions:
            reporter.note(
                f"at most {counted(settings.kafka.jobs_partitions, 'worker')} serve one variant (kafka.jobs_partitions)"
            )
        starter = Starter(settings, stack, cards)
        supply = WorkerSupply(settings.home.resolve() / "scale", name, starter, places=tuple(cards))
        for note in supply.find():
            reporter.note(note)
        health.watch(ROLE, ready=lambda: "" if topics.plan() else "has seen no plan yet", alive=lambda: "")
        if address:
            reporter.note(f"health and metrics on {address}/livez, /readyz, /metrics")
        while not stopping.is_set():
            plan = topics.plan()
            for note in supply.step(plan, topics.live(now_ms(), settings.planner.worker_timeout_ms)):
                reporter.note(note)
            state = supply.state(plan)
            show(state)
            reporter.phase(state.words())
            stopping.wait(STEP_S)
        health.stop()
        counts = ", ".join(f"{count} {what}" for what, count in sorted(supply.counts.items())) or "nothing to do"
        if is_kept:
            reporter.note(f"left running: {counted(len(supply.ids), 'worker')}; in all {counts}")
        else:
            reporter.phase(f"draining {counted(len(supply.ids), 'worker')}")
            supply.close(settings.shutdown_timeout_s + 5.0)
            reporter.note(f"all workers have ended; in all {counts}")
