"""A vector store that is frozen for a while goes on whatever happens."""

import math
import pathlib
import signal

import pytest

from replay.local.freezing import StoreFreezer, lite_pid
from schemas.errors import PochadeError
from streams.settings import load


class Signals:
    """Signals as they were sent, and a clock that only a test moves."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, signal.Signals]] = []
        self.now_ms = 1000.0

    def send(self, pid: int, number: signal.Signals) -> None:
        self.sent.append((pid, number))


def freezer(signals: Signals, lasts_s: float = 20.0) -> StoreFreezer:
    return StoreFreezer(lambda: 42, lasts_s, lambda: signals.now_ms, signals.send)


def test_a_frozen_store_goes_on_when_its_time_is_over_and_not_before() -> None:
    signals = Signals()
    one = freezer(signals)
    assert one.is_to_come
    one.begin()
    signals.now_ms += 19_999
    assert not one.check()
    assert signals.sent == [(42, signal.SIGSTOP)]
    signals.now_ms += 1
    assert one.check()
    assert signals.sent == [(42, signal.SIGSTOP), (42, signal.SIGCONT)]
    assert one.frozen == (1000.0, 21_000.0)
    assert not one.is_to_come
    assert not one.check()
    one.close()
    assert len(signals.sent) == 2


def test_a_run_that_ends_early_lets_the_store_go_on() -> None:
    signals = Signals()
    one = freezer(signals)
    one.begin()
    one.close()
    assert [number for _, number in signals.sent] == [signal.SIGSTOP, signal.SIGCONT]


def test_a_store_that_is_never_to_be_frozen_gets_no_signal() -> None:
    signals = Signals()
    one = freezer(signals, lasts_s=0.0)
    assert not one.is_to_come
    one.close()
    assert signals.sent == []
    assert math.isnan(one.frozen.began_ms)


def test_without_a_milvus_lite_there_is_nothing_to_freeze(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match="no Milvus Lite runs in"):
        lite_pid(load({"home": tmp_path}))
