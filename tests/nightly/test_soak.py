"""A month at a sped-up clock: retention, segments and windows scaled together; nothing twice, memory flat."""

import contextlib
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest

from replay.local.processes import RoleProcess
from replay.verify.audit.figures import verdict
from replay.verify.audit.reading import audit
from replay.verify.chaos.brokers import lasting_ports
from schemas.ids import new_request_id
from schemas.messages import GenerateRequest
from schemas.record import Outgoing
from schemas.topics import PROMPTS
from streams.broker import java as broker_java
from streams.broker import probe
from streams.broker.config import properties
from streams.broker.node import HOST
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.settings import Settings, load
from tests.integration.pipeline import Pipeline
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

MINUTES = float(os.environ.get("TEST_SOAK_MINUTES", "20"))
MONTH_DAYS = 30
BY = MONTH_DAYS * 24 * 60 / MINUTES
DAY_S = 86_400 / BY
RATE = float(os.environ.get("TEST_SOAK_RATE", "20"))  # requests per second
SAMPLE_S = 2.0
WARM = 0.4  # of the soak: by then the ledger's window of 8 days has passed once, and a third
FLAT_MB, FLAT_SHARE = 10.0, 0.1  # growth in the rest of the soak that counts as none
KILLS, APART_S = 5, 10.0  # of the ledger, when everything lies there that a month leaves
HASTY = {  # a broker looks for what to delete every five minutes, which are shorter here
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "500",
}
ROLES = {
    "classifier": ["classifier"],
    "router": ["router"],
    "discriminator": ["discriminator"],
    "ledger": ["ledger"],
    "planner": ["planner"],
    "worker-1": ["worker"],
    "worker-2": ["worker"],
}
BEFORE = f"from tests.nightly import hastened; hastened.hasten({BY}); "


@pytest.fixture
def bootstrap(new_home: Callable[[], pathlib.Path]) -> Iterator[str]:
    folder = new_home() / "kafka"
    (ports,) = lasting_ports(1).values()
    java, jars = broker_java.prepare(folder, print)
    settings = {**properties(ports, str(folder / "data")), **HASTY}
    process = broker_java.launch(java, jars, folder, settings, "AAAAAAAAAAAAAAAAAAAAAQ")
    try:
        address = f"{HOST}:{ports.broker}"
        probe.probe(probe.starting_config(address), PATIENCE_S, process.is_alive)
        yield address
    finally:
        process.stop(PATIENCE_S)


class Hastened(Pipeline):
    """Roles whose days are short."""

    def process(self, name: str) -> RoleProcess:
        whole = super().process(name)
        python, option, start, *rest = whole.command
        return RoleProcess(name=name, command=(python, option, BEFORE + start, *rest))

    def rss_mb(self) -> dict[str, float]:
        """Resident memory of each role that lives."""
        found = {}
        for name, process in self._processes.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                found[name] = psutil.Process(process.pid).memory_info().rss / 2**20
        return found


class Load(threading.Thread):
    """Requests at a rate, a third of them with deadlines, until asked to stop."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self._pipeline, self._dice = pipeline, random.Random(30)
        self.ending = threading.Event()
        self.asked: list[str] = []

    def run(self) -> None:
        begun_s = time.monotonic()
        while not self.ending.wait(max(0.0, begun_s + len(self.asked) / RATE - time.monotonic())):
            name, now = new_request_id(), now_ms()
            deadline_ms = now + round(DAY_S * 1000 * self._dice.uniform(0.5, 2.5))
            has_one = self._dice.random() < 1 / 3
            request = GenerateRequest(
                request_id=name, prompt=f"prompt {len(self.asked)}", created_ms=now,
                deadline_ms=deadline_ms if has_one else None,
            )  # fmt: skip
            self._pipeline.producer.send(Outgoing(topic=PROMPTS, key=name.encode(), value=encode(request)))
            self.asked.append(name)


def growth_mb(samples: list[tuple[float, float]]) -> float:
    """From a line through what was seen after the warm-up: how much more there is at its end."""
    at_s, mb = np.array(samples).T
    later = at_s >= WARM * at_s[-1]
    slope, _ = np.polyfit(at_s[later], mb[later], 1)
    return float(slope * (at_s[-1] - at_s[later][0]))


@pytest.mark.timeout(7200)
def test_after_a_month_nothing_has_ended_twice_and_memory_is_flat(bootstrap: str, tmp_path: pathlib.Path) -> None:
    settings = load({"home": tmp_path, "kafka": {"bootstrap_servers": bootstrap, "prefix": "soak"}})
    scaled = [f"kafka.bootstrap_servers={bootstrap}", f"requests.max_deadline_s={3 * DAY_S:g}"]
    create(settings, scaled)
    pipeline = Hastened(settings, tmp_path / "logs", extra=scaled, roles=ROLES)
    seen: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    try:
        pipeline.start()
        requests, begun_s = Load(pipeline), time.monotonic()
        requests.start()
        while (at_s := time.monotonic() - begun_s) < 60 * MINUTES:
            for name, mb in pipeline.rss_mb().items():
                seen[name].append((at_s, mb))
            time.sleep(SAMPLE_S)
        for _ in range(KILLS):
            pipeline.kill("ledger")
            pipeline.start_role("ledger")
            time.sleep(APART_S)
        requests.ending.set()
        requests.join()
        poll_until(lambda: pipeline.ended(requests.asked) == len(requests.asked), "the end of all")
    finally:
        pipeline.close()
    asked = set(requests.asked)
    counts = Counter(Counter(each.request_id for each in pipeline.results if each.request_id in asked).values())
    grown = {name: round(growth_mb(samples), 1) for name, samples in seen.items()}
    last = {name: round(samples[-1][1]) for name, samples in seen.items()}
    print(f"{len(requests.asked)} requests; results of each: {dict(counts)}; {pipeline.statuses(requests.asked)}")
    print(f"MB at the end {last}; grown after the warm-up {grown}")
    assert counts == {1: len(requests.asked)}
    found = audit(settings, with_images=False)
    assert found.figures.accepted < len(requests.asked), "the oldest have been deleted"
    assert verdict(found.figures) is None
    for name, mb in grown.items():
        assert mb < max(FLAT_MB, FLAT_SHARE * last[name]), f"{name} grew by {mb} MB"


def create(settings: Settings, scaled: list[str]) -> None:
    """The topics, by a process whose days are as short as the roles'."""
    start = BEFORE + "from streams.cli import main; main(prog_name='pochade')"
    options = ["--home", str(settings.home), "--set", f"kafka.prefix={settings.kafka.prefix}"]
    options += [part for each in scaled for part in ("--set", each)]
    subprocess.run([sys.executable, "-c", start, *options, "up"], check=True, timeout=PATIENCE_S)
