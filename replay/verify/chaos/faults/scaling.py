"""Faults of a fleet that grows and shrinks: its supervisor or its workers killed within a scale-up or a scale-down."""

import os
import signal
from collections.abc import Callable, Generator
from typing import Final

from planner.observation.workers import SERVING
from planner.scaling.supply import wanted_workers_of
from replay.local.owned_worker import SUFFIX, FoundWorker, holder
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import POLL_S, Do, NotThere, Steps, World
from streams.processes.children import end_all
from streams.settings import Settings

SCALER: Final = "scale"  # the process of `pochade scale`
WORKERS: Final = "worker"  # begins the ids of its workers
AMBUSH_S: Final = 130.0  # for the fleet to grow or to shrink: two bursts, as a busy machine hardly pauses between them
STARTING: Final = ("starting", "loading")
STOP_S: Final = 10.0  # for workers that are left over to end after SIGTERM

Find = Callable[[World], str | None]
"""Which worker is in a state, if any."""


def workers_of(settings: Settings) -> dict[str, int]:
    """Worker -> its process, of those that run."""
    files = sorted((settings.home / "scale").glob(f"{WORKERS}-*{SUFFIX}"))
    found = {file.name.removesuffix(SUFFIX): holder(file) for file in files}
    return {name: pid for name, pid in found.items() if pid is not None}


def end_workers(settings: Settings) -> int:
    """End the workers that a supervisor left behind, as it was killed last; return how many."""
    left = []
    for pid in workers_of(settings).values():
        try:
            left.append(FoundWorker(pid))
        except ProcessLookupError:
            continue
    end_all(left, STOP_S)
    return len(left)


def is_growing(world: World) -> str | None:
    """Return a worker that starts, while more are wanted than serve."""
    states, wanted = world.hosted.ready.states(), _wanted(world)
    running = workers_of(world.settings)
    serving = sum(states.get(name) in SERVING for name in running)
    return next((name for name in running if states.get(name) in STARTING), None) if wanted > serving else None


def is_shrinking(world: World) -> str | None:
    """Return a worker that no plan names any more, while fewer are wanted than run."""
    plans, wanted, running = world.hosted.ready.plans(), _wanted(world), workers_of(world.settings)
    if not plans or not 0 <= wanted < len(running):
        return None
    return next((name for name in running if name not in plans[-1].allocation), None)


def is_serving(world: World) -> str | None:
    """Return a worker that serves."""
    states = world.hosted.ready.states()
    return next((name for name in workers_of(world.settings) if states.get(name) in SERVING), None)


def _wanted(world: World) -> int:
    """The number of workers that the plan in force wants; -1: it scales none."""
    plans = world.hosted.ready.plans()
    wanted = wanted_workers_of(plans[-1]) if plans else None
    return -1 if wanted is None else wanted


def _supervisor(find: Find, when: str) -> Do:
    def kill(world: World, _fault: Fault) -> Steps:
        """kill -9 of the supervisor, which is started again and finds its workers."""
        name = yield from _awaited(world, find, when)
        running = len(workers_of(world.settings))
        world.child(SCALER).kill()
        yield 0.0
        return f"SIGKILL of the supervisor of {running} workers {when} ({name})"

    return kill


def _worker(find: Find, when: str) -> Do:
    def kill(world: World, _fault: Fault) -> Steps:
        """kill -9 of a worker, which its supervisor starts again where it is still wanted."""
        name = yield from _awaited(world, find, when)
        pid = workers_of(world.settings).get(name)
        if pid is None or pid in world.killed:
            raise NotThere(f"{name} ended {when} before it was killed")
        world.killed.add(pid)
        os.kill(pid, signal.SIGKILL)
        yield 0.0
        return f"SIGKILL of {name} {when}"

    return kill


def _awaited(world: World, find: Find, when: str) -> Generator[float, None, str]:
    for _ in range(round(AMBUSH_S / POLL_S)):
        if (name := find(world)) is not None:
            return name
        yield POLL_S
    raise NotThere(f"no worker was met {when} within {AMBUSH_S:g} s")


UP, DOWN = "as the fleet grew", "as the fleet shrank"
scale_up_kill, scale_down_kill = _supervisor(is_growing, UP), _supervisor(is_shrinking, DOWN)
starting_kill, draining_kill = _worker(is_growing, UP), _worker(is_shrinking, DOWN)
serving_kill = _worker(is_serving, "as it served")
