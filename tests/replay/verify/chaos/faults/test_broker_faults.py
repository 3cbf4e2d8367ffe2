"""A broker that dies, is terminated, or stops: a process of the test's own in its place."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from replay.verify.chaos.faults import broker
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, Steps, World
from streams.broker.process import Process
from streams.settings import load
from tests.patience import PATIENCE_S

LASTS_MS = 10


class BrokerAndPort:
    """What is known of a broker: its process, and a port on which somebody listens once it was started again."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self.port = process, socket.socket()
        self.port.bind(("127.0.0.1", 0))

    def record(self, _settings: object) -> SimpleNamespace:
        address = f"127.0.0.1:{self.port.getsockname()[1]}"
        return SimpleNamespace(
            broker=Process(self.process.pid, psutil.Process(self.process.pid).create_time()), bootstrap=address
        )

    def ensure(self, _settings: object) -> None:
        self.port.listen()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerAndPort]:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], text=True) as process:
        found = BrokerAndPort(process)
        monkeypatch.setattr(broker.address, "record", found.record)
        monkeypatch.setattr(broker.embedded, "ensure", found.ensure)
        yield found
        process.kill()
        found.port.close()


def world() -> World:
    hosted: Any = SimpleNamespace(settings=load({}), processes=[])
    return World(hosted, cast(Any, None), cast(Any, None))


def done(steps: Steps) -> str:
    """What a fault says in the end, its waits cut short."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            return str(over.value)
        time.sleep(0.001)


def fault(kind: str) -> Fault:
    return Fault(number=0, at_ms=0, kind=kind, target="", lasts_ms=LASTS_MS, dice=1)


@pytest.mark.parametrize(("do", "number"), [(broker.kill, signal.SIGKILL), (broker.restart, signal.SIGTERM)])
def test_a_broker_that_ended_is_started_again_and_it_is_known_when_its_port_accepts(
    found: BrokerAndPort, do: Any, number: signal.Signals
) -> None:
    met, before_ms = world(), time.time() * 1000
    assert done(do(met, fault("broker"))).startswith(number.name)
    assert found.process.wait(PATIENCE_S) == -number
    (at_ms,) = met.accepted_ms
    assert before_ms < at_ms <= time.time() * 1000


def test_a_broker_that_stops_goes_on_again(found: BrokerAndPort) -> None:
    steps = broker.freeze(world(), fault("broker-freeze"))
    assert next(steps) == LASTS_MS / 1000
    os.waitid(os.P_PID, found.process.pid, os.WSTOPPED)
    with contextlib.suppress(StopIteration):
        next(steps)
    os.waitid(os.P_PID, found.process.pid, os.WCONTINUED)


def test_a_broker_that_does_not_run_cannot_die(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker.address, "record", lambda _settings: SimpleNamespace(broker=None))
    with pytest.raises(NotThere):
        next(broker.kill(world(), fault("broker")))
