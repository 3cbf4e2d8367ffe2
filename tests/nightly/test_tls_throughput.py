"""What TLS and SCRAM cost a router: the same broker process with two listeners, runs taking turns."""

import json
import pathlib
import resource
import statistics
from collections.abc import Callable, Iterator

import pytest

from replay.bench import router
from replay.bench.environment import traffic
from replay.bench.environment.site import open_site
from streams.settings import load
from tests.integration.conftest import PROJECT_KAFKA
from tests.integration.secure_broker import ADMIN, ADMIN_PASSWORD, SecureBroker

MOST_LOST = 0.2  # share of the throughput that TLS may cost
COUNT = 8_000  # records a run
REPEATS = 3


@pytest.fixture
def broker(new_home: Callable[[], pathlib.Path], tmp_path: pathlib.Path) -> Iterator[SecureBroker]:
    assert new_home()
    (tmp_path / "broker").mkdir()
    started = SecureBroker(tmp_path / "broker", PROJECT_KAFKA, is_open=True)
    try:
        yield started.start()
    finally:
        started.stop()


def test_tls_costs_a_router_at_most_a_fifth_of_its_throughput(
    broker: SecureBroker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listeners = {"open": ("OPEN", {}), "tls": ("SASL", broker.scram(ADMIN, ADMIN_PASSWORD))}
    rates: dict[str, list[float]] = {name: [] for name in listeners}
    requests = traffic.requests("tls", COUNT)
    for number in range(REPEATS):
        for name, (listener, properties) in listeners.items():
            monkeypatch.setenv("POCHADE_KAFKA__PROPERTIES", "{}")  # the run before left its children's there
            kafka = {"bootstrap_servers": broker.address(listener), "prefix": f"{name}{number}"}
            settings = load({"home": tmp_path, "kafka": {**kafka, "properties": properties}})
            with open_site(settings) as site:
                used_s = children_s()
                rate, lost, _duplicates = router._router(site, requests)
                used_s = children_s() - used_s
            assert lost == 0
            rates[name].append(round(rate))
            with capsys.disabled():
                print(f"{name}: {rate:.0f} records/s, {used_s:.1f} CPU-s of the router, its start included")
    share = statistics.median(rates["tls"]) / statistics.median(rates["open"])
    with capsys.disabled():
        print(json.dumps({"records_per_s": rates, "share_with_tls": round(share, 3)}))
    assert share >= 1 - MOST_LOST


def children_s() -> float:
    """CPU seconds of the children that have ended: less shaken by what else runs than throughput is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
