"""Faults of the broker: killed, terminated, or stopped for a while; a broker that ended is restarted on its data."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Generator

from replay.local.hosting import epoch_ms
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, Steps, World
from schemas.errors import PochadeError
from streams.broker import address, embedded
from streams.broker.process import Process

TRIES = 3
STOP_S = 15.0  # for a broker to end after SIGTERM
ACCEPTS_S = 120.0


def kill(world: World, fault: Fault) -> Steps:
    """Kill the broker with SIGKILL."""
    running = _running(world)
    os.kill(running.pid, signal.SIGKILL)
    return f"SIGKILL, {(yield from _back(world, fault, running))}"


def restart(world: World, fault: Fault) -> Steps:
    """SIGTERM: it closes its logs and leaves."""
    running = _running(world)
    yield from world.beside(lambda: running.stop(STOP_S))
    return f"SIGTERM, {(yield from _back(world, fault, running))}"


def freeze(world: World, fault: Fault) -> Steps:
    """SIGSTOP, then SIGCONT: connections stay, and no call is answered."""
    running = _running(world)
    os.kill(running.pid, signal.SIGSTOP)
    try:
        yield fault.lasts_ms / 1000
    finally:
        with contextlib.suppress(ProcessLookupError):  # another fault killed it meanwhile
            os.kill(running.pid, signal.SIGCONT)
    return f"SIGSTOP, SIGCONT after {fault.lasts_ms / 1000:.1f} s"


def _running(world: World) -> Process:
    known = address.record(world.settings)
    if known is None or not isinstance(known.broker, Process) or not known.broker.is_alive():
        raise NotThere("the broker was not running as a process of ours")
    return known.broker


def _back(world: World, fault: Fault, ended: Process) -> Generator[float, None, str]:
    """Wait until the broker has ended, pause without a broker, and restart it on its data."""
    while ended.is_alive():
        yield 0.05
    yield fault.lasts_ms / 1000
    known, begun_s = address.record(world.settings), time.monotonic()
    assert known is not None, "it has run"
    accepting = world.aside(lambda: _accepts_at(known.bootstrap))
    for tries_left in reversed(range(TRIES)):
        try:
            yield from world.beside(lambda: embedded.ensure(world.settings))
            break
        except PochadeError:
            if not tries_left:
                raise
    at_ms = accepting.result()
    world.accepted_ms.append(at_ms)
    return f"started after {fault.lasts_ms / 1000:.1f} s, answered {time.monotonic() - begun_s:.1f} s later"


def _accepts_at(address: str) -> float:
    """Return when a port accepts connections (epoch ms). Raises NotThere."""
    host, port = address.rsplit(":", 1)
    end_s = time.monotonic() + ACCEPTS_S
    while time.monotonic() < end_s:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return epoch_ms()
        time.sleep(0.01)
    raise NotThere(f"no process listens on {address}")
