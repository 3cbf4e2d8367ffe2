"""Real routers under a plan that pulls: a busy variant holds up no other, and a kill -9 loses no job that waits."""

import pathlib
import threading
from collections.abc import Callable, Iterator

import pytest

from replay.local.processes import role_process
from schemas.messages import GenerateJob, GenerateOptions
from schemas.record import Incoming, Outgoing
from schemas.topics import CLASSIFIED, FLEET, PLAN, PLAN_KEY, full_name, jobs_topic, waiting_group, waiting_topic
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.consumers.offsets import unread
from streams.kafka.groups.members import members_of
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.processes.children import Child, end_all
from streams.settings import Settings
from tests.builders import a_classified, a_heartbeat, a_plan, a_request, owned
from tests.integration.forked import ROLE_SERVER
from tests.integration.waiting import poll_until

pytestmark = pytest.mark.broker

BUSY_MS = 600_000
VARIANTS = ("light", "heavy")
SILENT_MS = 60_000  # the test's workers beat when it says so


class Routers:
    """Router processes, and the test in the place of all other roles."""

    def __init__(self, settings: Settings, logs: pathlib.Path) -> None:
        self.settings, self._logs = settings, logs
        self._lock, self.jobs = threading.Lock(), list[tuple[str, GenerateJob]]()
        self.producer = KafkaRecordProducer(settings)
        self.processes: dict[str, Child] = {}
        self._follower = TopicTailer(settings, [jobs_topic(variant, 1).name for variant in VARIANTS], self._receive)
        self._follower.start()

    def _receive(self, record: Incoming) -> None:
        with self._lock:
            self.jobs.append((record.topic, decode(record.value, GenerateJob)))

    def start(self, name: str) -> None:
        options = [
            "--home", str(self.settings.home), "--set", f"kafka.prefix={self.settings.kafka.prefix}",
            "--set", "catalog=profile", "--set", f"planner.worker_timeout_ms={SILENT_MS}",
            "--set", "kafka.session_timeout_ms=3000", "--set", "admission.max_backlog_s=3600",
        ]  # fmt: skip
        command = role_process(name, ["router"], options, {}).command
        self.processes[name] = ROLE_SERVER.fork(command, self._logs / f"{name}.log")

    def write(self, topic: str, value: bytes, key: str, partition: int | None = None) -> None:
        send_all(self.producer, [Outgoing(topic=topic, key=key.encode(), value=value, partition=partition)])

    def beat(self, worker: str, variant: str, remaining_ms: int = 0) -> None:
        heartbeat = a_heartbeat(
            worker_id=worker, variant=variant, partitions=(owned(0, 0, remaining_ms),), sent_ms=now_ms()
        )
        self.write(FLEET, encode(heartbeat), worker)

    def ask(self, request_id: str, variant: str, tier: str = "standard") -> None:
        """Ask for an image of a variant, all by one partition."""
        options = GenerateOptions(model=variant)
        request = a_request(request_id=request_id, options=options, tier=tier, created_ms=now_ms())
        classified = a_classified(request, received_ms=now_ms(), classified_ms=now_ms())
        self.write(CLASSIFIED, encode(classified), request_id, partition=0)

    def came(self, variant: str) -> list[str]:
        with self._lock:
            return [job.classified.request.request_id for _, job in self.jobs if job.variant == variant]

    def behind(self, topic: str, group: str) -> int:
        """Records of a topic that a group has not committed."""
        prefix = self.settings.kafka.prefix
        spans = unread(self.settings, full_name(prefix, topic), group)
        return sum(span.end - span.start for span in spans.values())

    def until(self, condition: Callable[[], bool], what: str) -> None:
        poll_until(condition, lambda: f"{what}: {self.jobs}\n{self._tails()}")

    def _tails(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()[-1500:]}" for log in sorted(self._logs.glob("*.log")))

    def close(self) -> None:
        end_all(self.processes.values())
        self._follower.close()
        self.producer.close()


@pytest.fixture
def routers(settings: Settings, tmp_path: pathlib.Path) -> Iterator[Routers]:
    create_topics(settings, list(VARIANTS))
    running = Routers(settings, tmp_path)
    plan = a_plan(version=1, policy="octoai", dispatch="pull", cascades=(), created_ms=now_ms())
    running.write(PLAN, encode(plan), PLAN_KEY)
    running.beat("w-1", "light", BUSY_MS)
    running.beat("w-2", "heavy")
    try:
        yield running
    finally:
        running.close()


def test_jobs_wait_without_holding_up_another_variant_and_outlive_the_router_that_queued_them(
    routers: Routers, settings: Settings
) -> None:
    prefix, group = settings.kafka.prefix, waiting_group(settings.kafka.prefix)
    light, heavy = (waiting_topic(variant).name for variant in VARIANTS)
    routers.start("router-1")
    batch, urgent = ["b-1", "b-2"], [f"r-{n}" for n in range(6)]
    for name in batch:
        routers.ask(name, "light", tier="batch")
    for name in urgent:
        routers.ask(name, "light")
    routers.ask("other", "heavy")
    routers.until(lambda: routers.came("heavy") == ["other"], "the job of the variant that is idle")
    assert routers.came("light") == []

    routers.start("router-2")
    routers.until(lambda: len(members_of(settings, group)) == 2, "two members that forward")
    routers.until(lambda: not routers.behind(CLASSIFIED, f"{prefix}.router"), "requests committed")
    routers.until(lambda: (routers.behind(light, group), routers.behind(heavy, group)) == (8, 0), "what waits")
    routers.processes["router-1"].kill()
    routers.processes["router-1"].wait()
    routers.beat("w-1", "light")
    routers.until(lambda: len(routers.came("light")) >= 8, "all that waited")
    assert routers.came("light") == urgent + batch
    routers.until(lambda: not routers.behind(light, group), "all committed")
    assert routers.came("light") == urgent + batch
    assert routers.came("heavy") == ["other"]
    assert {job.worker_id for _, job in routers.jobs} == {"w-1", "w-2"}
