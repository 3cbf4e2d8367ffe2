"""A wrong clock on one role: it is started again by a launcher that moves Python's clock before anything is loaded."""

import signal
import time

from replay.chaos.schedule import Fault
from replay.chaos.world import Steps, World
from replay.processes import RoleProcess

MOST_MS = 30_000  # ahead or behind


def skew(world: World, fault: Fault) -> Steps:
    """Ends a role and lets it run with a wrong clock for a while, then with the right one again."""
    right, by_ms = world.processes[fault.target], fault.draw().randint(-MOST_MS, MOST_MS)
    world.child(fault.target)
    yield from world.leave(fault.target)
    world.back(skewed(right, by_ms))
    yield fault.lasts_ms / 1000
    yield from world.leave(fault.target, fault.draw().choice([signal.SIGTERM, signal.SIGKILL]))
    world.back(right)
    return f"the clock {by_ms / 1000:+.1f} s off for {fault.lasts_ms / 1000:.1f} s"


def skewed(process: RoleProcess, by_ms: int) -> RoleProcess:
    """The same process with a wrong clock."""
    python, option, start, *rest = process.command
    moved = f"from replay.chaos.clocks import move; move({by_ms}); {start}"
    return RoleProcess(name=process.name, command=(python, option, moved, *rest))


def move(by_ms: int) -> None:
    """Move Python's wall clock in this process; monotonic time goes on."""
    right_ns = time.time_ns
    time.time_ns = lambda: right_ns() + by_ms * 1_000_000
    time.time = lambda: time.time_ns() / 1e9
