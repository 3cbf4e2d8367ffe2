"""What a command that hosts a deployment says as it begins."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from replay.local import hosting
from streams.broker.address import Address
from streams.settings import load


@pytest.mark.parametrize("is_running", [False, True])
def test_a_broker_that_runs_is_not_said_to_start(monkeypatch: pytest.MonkeyPatch, *, is_running: bool) -> None:
    broker = Address("127.0.0.1:1", None)
    stopped, phases = list[object](), list[str]()
    monkeypatch.setattr(hosting.address, "find", lambda _settings: broker if is_running else None)
    monkeypatch.setattr(hosting.embedded, "ensure", lambda _settings, _say: broker)
    monkeypatch.setattr(hosting.embedded, "stop", stopped.append)
    monkeypatch.setattr(hosting, "create_topics", lambda _settings: None)
    teller = SimpleNamespace(phase=phases.append, note=phases.append)
    with ExitStack() as stack:
        hosting.start_broker(load({}), stack, teller)  # type: ignore[arg-type]
    assert ("starting the broker" in phases) != is_running
    assert bool(stopped) != is_running
