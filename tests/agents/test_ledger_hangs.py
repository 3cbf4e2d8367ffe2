"""A transaction that never comes back, found by `pochade chaos --only broker --only second --seed 32`."""

import threading

import pytest

from agents import lane
from agents.watchdog import Watchdog
from streams.settings import load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, an_outcome
from tests.models.broker import Broker, Group, connected

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})


@pytest.mark.parametrize("call", ["send_offsets_to_transaction", "commit_transaction"])
def test_a_ledger_whose_transaction_hangs_ends_its_process(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(lane, "HUNG_S", 0.01)
    bitten = threading.Event()
    with connected(Broker(now_ms=NOW_MS)):
        served = lane.Lane(SETTINGS, 0, bitten.set)
        monkeypatch.setattr(served._producer, call, lambda *_: bitten.wait(10) or pytest.fail("nobody ended it"))
        served.serve([a_record(an_outcome(request_id="r"), key=b"r")], Group())  # type: ignore[arg-type]
    assert bitten.is_set()


def test_what_is_watched_as_a_block_is_not_bitten_after_it() -> None:
    bitten = threading.Event()
    dog = Watchdog(60, bitten.set)
    with dog:
        timer = dog._armed
    assert timer is not None
    timer.join(5)
    assert (dog.since, bitten.is_set()) == (None, False)
