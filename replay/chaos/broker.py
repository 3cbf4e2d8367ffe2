"""The broker dies: kill -9, and started again on its data."""

import os
import signal
import time

from replay.chaos.schedule import Fault
from replay.chaos.world import NotThere, Steps, World
from schemas.errors import PochadeError
from streams import broker
from streams.broker_process import Process

TRIES = 3


def kill_broker(world: World, fault: Fault) -> Steps:
    """kill -9 and a pause without a broker; then it reads its data again."""
    known = broker.record(world.settings)
    if known is None or not isinstance(known.broker, Process) or not known.broker.is_alive():
        raise NotThere("the broker was not running as a process of ours")
    os.kill(known.broker.pid, signal.SIGKILL)
    while known.broker.is_alive():
        yield 0.05
    yield fault.lasts_ms / 1000
    begun_s = time.monotonic()
    for tries_left in reversed(range(TRIES)):
        try:
            yield from world.beside(lambda: broker.ensure(world.settings))
            break
        except PochadeError:
            if not tries_left:
                raise
    return f"SIGKILL, started after {fault.lasts_ms / 1000:.1f} s, answered {time.monotonic() - begun_s:.1f} s later"
