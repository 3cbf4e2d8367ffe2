"""What a command that hosts a deployment says as it begins."""

import pathlib
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from replay.local import hosting
from schemas.errors import PochadeError
from streams.broker.address import Address
from streams.settings import load

ADDRESS = Address("127.0.0.1:1", None)


class Broker:
    """A broker that runs once it was started; what was said and done is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: pathlib.Path, *, is_running: bool) -> None:
        self.settings, self.is_running = load({"home": home}), is_running
        self.said, self.stops = list[str](), 0
        monkeypatch.setattr(hosting.address, "find", lambda _settings: ADDRESS if self.is_running else None)
        monkeypatch.setattr(hosting.embedded, "ensure", self._ensure)
        monkeypatch.setattr(hosting.embedded, "stop", self._stop)
        monkeypatch.setattr(hosting, "create_topics", lambda _settings: None)

    def _ensure(self, _settings: object, _say: object) -> Address:
        self.is_running = True
        return ADDRESS

    def _stop(self, _settings: object) -> None:
        self.is_running, self.stops = False, self.stops + 1

    def start(self, stack: ExitStack) -> None:
        teller = SimpleNamespace(phase=self.said.append, note=self.said.append)
        hosting.start_broker(self.settings, stack, teller)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_running", [False, True])
def test_a_broker_that_runs_is_not_said_to_start(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, *, is_running: bool
) -> None:
    broker = Broker(monkeypatch, tmp_path, is_running=is_running)
    with ExitStack() as stack:
        broker.start(stack)
    assert ("starting the broker" in broker.said) != is_running
    assert bool(broker.stops) != is_running


def test_a_run_is_refused_while_the_one_that_will_stop_the_broker_lasts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(monkeypatch, tmp_path, is_running=False)
    with ExitStack() as first:
        broker.start(first)
        with ExitStack() as second, pytest.raises(PochadeError, match="another run has started the broker"):
            broker.start(second)
        assert broker.is_running
    with ExitStack() as third:
        broker.start(third)
    assert broker.stops == 2


def test_runs_share_a_broker_that_none_of_them_stops(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, tmp_path, is_running=True)
    with ExitStack() as first, ExitStack() as second:
        broker.start(first)
        broker.start(second)
    assert broker.is_running
