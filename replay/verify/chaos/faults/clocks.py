"""A wrong clock on one role, which is started again for it."""

import signal

from replay.verify.chaos.launching import skewed
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import Steps, World

MAX_OFFSET_MS = 30_000  # ahead or behind


def skew(world: World, fault: Fault) -> Steps:
    """Ends a role and lets it run with a wrong clock for a while, then with the right one again."""
    right, by_ms = world.processes[fault.target], fault.draw().randint(-MAX_OFFSET_MS, MAX_OFFSET_MS)
    world.child(fault.target)
    yield from world.leave(fault.target)
    world.back(skewed(right, by_ms))
    yield fault.lasts_ms / 1000
    yield from world.leave(fault.target, fault.draw().choice([signal.SIGTERM, signal.SIGKILL]))
    world.back(right)
    return f"the clock {by_ms / 1000:+.1f} s off for {fault.lasts_ms / 1000:.1f} s"
