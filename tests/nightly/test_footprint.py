"""What nine idle roles, and 20 workers beside seven, hold, one process each: memory, clients of Kafka, threads."""

import pathlib
import re
import time
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.pipeline import ROLES, Pipeline
from tests.integration.threads import CLIENT, thread_names

pytestmark = pytest.mark.broker

NINE = {**ROLES, "gateway": ["gateway"], "console": ["console"]}
TWENTY = {name: roles for name, roles in NINE.items() if roles != ["worker"]} | {
    f"worker-{number}": ["worker"] for number in range(1, 21)
}
IDLE_S = 20.0  # of which the processor time is counted, once all are ready
EXTRA = ["gateway.port=0", "console.port=0", "kafka.jobs_partitions=20", "worker.engine=profile"]


class Footprint(NamedTuple):
    """What processes hold."""

    pss_mb: float
    rss_mb: float
    clients: int  # of librdkafka
    threads: int
    cpu_s: float  # since they began

    @classmethod
    def of(cls, pid: int) -> "Footprint":
        """Return what one process holds."""
        folder = pathlib.Path(f"/proc/{pid}")
        memory = dict(re.findall(r"^(Pss|Rss): +(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE))
        names = thread_names(pid)
        used = (folder / "stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(used[11]) + int(used[12])) / 100
        return cls(int(memory["Pss"]) / 1024, int(memory["Rss"]) / 1024, names.count(CLIENT), len(names), cpu_s)

    @classmethod
    def total(cls, each: Iterable["Footprint"]) -> "Footprint":
        """Return the sum."""
        return cls(*map(sum, zip(*each, strict=True)))

    def __str__(self) -> str:
        return (
            f"PSS {self.pss_mb:4.0f} MB, RSS {self.rss_mb:4.0f} MB, "
            f"{self.clients:3} clients, {self.threads:4} threads, {self.cpu_s:5.2f} CPU s"
        )


def measured(pipeline: Pipeline) -> dict[str, Footprint]:
    """Return what each process holds now."""
    return {name: Footprint.of(pid) for name, pid in pipeline.process_ids().items() if pid is not None}


@pytest.mark.parametrize(
    ("roles", "most"), [(NINE, (600, 30, 230)), (TWENTY, (1700, 105, 780))], ids=["nine", "twenty"]
)
def test_what_idle_roles_hold(
    settings: Settings, tmp_path: pathlib.Path, roles: dict[str, list[str]], most: tuple[int, int, int]
) -> None:
    create_topics(settings, ["light", "heavy"])
    pipeline = Pipeline(settings, tmp_path, extra=EXTRA, roles=roles, is_forked=False)
    try:
        begun_s = time.monotonic()
        pipeline.start()
        ready_s = time.monotonic() - begun_s
        before = measured(pipeline)
        time.sleep(IDLE_S)
        after = measured(pipeline)
        for name, each in after.items():
            print(f"{name:15} {each}, {(each.cpu_s - before[name].cpu_s) / IDLE_S:.1%} of a core while idle")
        total = Footprint.total(after.values())
        idle = (total.cpu_s - Footprint.total(before.values()).cpu_s) / IDLE_S
        print(f"{'all':15} {total}, {idle:.1%} of a core while idle; ready after {ready_s:.1f} s")
        held = total.pss_mb, total.clients, total.threads
        assert all(each <= limit for each, limit in zip(held, most, strict=True)), (held, most)
    finally:
        pipeline.close()
