"""A worker whose device, or driver, is broken for a while, as the engine `chaos` has it; then it has another one."""

import signal
from collections.abc import Mapping
from typing import Final

from replay.verify.chaos.launching import broken
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import Steps, World

MAX_CALLS = 10  # that a device serves until it is broken
HOW: Final[Mapping[str, str]] = {
    "device-dead": "each process loses its device",
    "driver-hangs": "a call never ends",
    "nan": "images are black",
    "out-of-memory": "no image fits",
}  # kind -> what happens


def break_device(world: World, fault: Fault) -> Steps:
    """End a worker and let it run with a broken device for a while, then with another one."""
    right, calls = world.processes[fault.target], fault.draw().randint(0, MAX_CALLS)
    after = 0 if fault.kind == "out-of-memory" else calls
    world.child(fault.target)
    yield from world.leave(fault.target)
    world.back(broken(right, f"{fault.kind}:{after}"))
    yield fault.lasts_ms / 1000
    yield from world.leave(fault.target, signal.SIGKILL)
    (world.settings.home / "workers" / f"{fault.target}.faults").unlink(missing_ok=True)  # as an operator does
    world.back(right)
    return f"{HOW[fault.kind]} after {after} calls, for {fault.lasts_ms / 1000:.1f} s"
