"""A whole pipeline of real processes on the real broker, each role in its own, for tests that kill them."""

import contextlib
import json
import pathlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from replay.local.processes import RoleProcess, role_process
from schemas.ids import new_request_id
from schemas.messages import GenerateRequest, Heartbeat, Plan, Result, Status
from schemas.record import Incoming, Outgoing
from schemas.topics import DLQ, FLEET, PLAN, PLAN_KEY, PROMPTS, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode, decode_result, encode
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.processes.children import Child, end_all, spawn
from streams.settings import Settings
from tests.integration.forked import ROLE_SERVER
from tests.integration.waiting import ask, poll_until

ROLES = {
    "classifier": ["classifier"],
    "router": ["router"],
    "worker-1": ["worker"],
    "worker-2": ["worker"],
    "discriminator": ["discriminator"],
    "ledger": ["ledger"],
    "planner": ["planner"],
}


def all_completed(results: list[Result]) -> list[Result]:
    """These results, all COMPLETED; says why others are not."""
    others = [f"{r.request_id} {r.status}: {r.code}: {r.reason}" for r in results if r.status is not Status.COMPLETED]
    assert not others, f"{len(others)} of {len(results)} did not complete: {others[:5]}"
    return results


class Pipeline:
    """Starts, kills and stops roles; submits prompts; follows results, plans, heartbeats and dead letters."""

    def __init__(
        self,
        settings: Settings,
        logs: pathlib.Path,
        catalog: str = "profile",
        extra: Sequence[str] = (),
        roles: Mapping[str, list[str]] = ROLES,
        *,
        is_forked: bool = True,
        has_models: bool = False,
    ) -> None:
        """`extra`: settings of every process, as name=value; `roles`: process -> what it serves.

        `is_forked`: from a process that has imported the roles, and the libraries of models if it `has_models`; False:
        each process starts anew.
        """
        self.settings, self._logs, self._roles, self._is_forked = settings, logs, roles, is_forked
        self._has_models = has_models
        self._options = [
            "--home", str(settings.home), "--set", f"kafka.prefix={settings.kafka.prefix}",
            "--set", f"results.format={settings.results.format}", "--set", f"catalog={catalog}",
            "--set", f"kafka.session_timeout_ms={settings.kafka.session_timeout_ms}",
            "--set", f"planner.policy={settings.planner.policy}",
            "--set", "planner.load_shedding=false", "--set", "admission.max_backlog_s=3600",  # however slow the machine
            *(part for each in extra for part in ("--set", each)),
            *(part for name, value in settings.kafka.properties.items()
              for part in ("--set", f"kafka.properties.{name}={value}")),
        ]  # fmt: skip
        self._processes: dict[str, Child] = {}
        self._lock = threading.Lock()
        self._results: dict[str, list[Result]] = {}
        self.plans: list[tuple[int, Plan]] = []  # (broker time, plan)
        self.dead_letters: list[Incoming] = []
        self.heartbeats: dict[str, tuple[int, Heartbeat]] = {}
        self.producer = KafkaRecordProducer(settings)
        self._follower = TopicTailer(settings, [RESULTS, PLAN, DLQ, FLEET], self._receive)

    def _receive(self, record: Incoming) -> None:
        with self._lock:
            if record.topic == RESULTS:
                result = decode_result(record.value)
                self._results.setdefault(result.request_id, []).append(result)
            elif record.topic == DLQ:
                self.dead_letters.append(record)
            elif record.topic == FLEET:
                beat = decode(record.value, Heartbeat)
                self.heartbeats[beat.worker_id] = (record.timestamp_ms, beat)
            elif record.key == PLAN_KEY.encode():
                self.plans.append((record.timestamp_ms, decode(record.value, Plan)))

    def start(self) -> "Pipeline":
        """Start every role and wait until a plan with both workers is obeyed."""
        self._follower.start()
        for name in self._roles:
            self.start_role(name)
        self.until(self.is_ready, "a plan, both workers and all roles ready")
        return self

    def is_ready(self) -> bool:
        """All workers serve what the newest plan allocates to them, and every role that lives says it is ready."""
        return self._workers_serve() and all(
            self._says_ready(name) for name, process in self._processes.items() if process.poll() is None
        )

    def _says_ready(self, name: str) -> bool:
        addresses = re.findall(r"health and metrics on (\S+)/livez", self.log(name))
        return bool(addresses) and ask(f"{addresses[-1]}/readyz")[0] == 200

    def _workers_serve(self) -> bool:
        workers = sum(roles == ["worker"] for roles in self._roles.values())
        with self._lock:
            serving = {
                name: beat.variant
                for name, (_, beat) in self.heartbeats.items()
                if beat.state in ("ready", "painting") and beat.partitions  # without them no job is sent to it
            }
            return bool(self.plans) and self.plans[-1][1].allocation == serving and len(serving) == workers

    def process(self, name: str) -> RoleProcess:
        """What to run for one role."""
        own = {"worker.id": name} if name.startswith("worker") else {}
        return role_process(name, self._roles[name], self._options, own)

    def start_role(self, name: str) -> None:
        """Start one role's process."""
        start = partial(ROLE_SERVER.fork, has_models=self._has_models) if self._is_forked else spawn
        self._processes[name] = start(self.process(name).command, self._logs / f"{name}.log")

    def process_ids(self) -> dict[str, int | None]:
        """Of each role; None: it has ended."""
        return {name: process.pid if process.poll() is None else None for name, process in self._processes.items()}

    def kill(self, name: str) -> None:
        """kill -9."""
        self._processes[name].kill()
        self._processes[name].wait()

    def heal(self) -> None:
        """Start again whatever is dead."""
        for name, process in list(self._processes.items()):
            if process.poll() is not None:
                self.start_role(name)

    def submit(self, count: int, rate: float = 40.0) -> list[str]:
        """Submit prompts at a rate; ids in order."""
        ids = [new_request_id() for _ in range(count)]
        begun = time.monotonic()
        for n, request_id in enumerate(ids):
            threading.Event().wait(max(0.0, begun + n / rate - time.monotonic()))
            request = GenerateRequest(request_id=request_id, prompt=f"prompt number {n}", created_ms=now_ms())
            self.write(encode(request), request_id.encode())
        return ids

    def write(self, value: bytes | None, key: bytes | None = None) -> None:
        """Write raw bytes to `prompts`."""
        send_all(self.producer, [Outgoing(topic=PROMPTS, key=key, value=value)])

    @property
    def results(self) -> list[Result]:
        """Each result that has come so far, also a second one of a request; an HTTP answer may come before it."""
        with self._lock:
            return [result for results in self._results.values() for result in results]

    def ended(self, ids: list[str]) -> int:
        """How many of these have a result."""
        with self._lock:
            return sum(request_id in self._results for request_id in ids)

    def wait_all(self, ids: list[str]) -> list[Result]:
        """The only result of each; fails when one is lost, repeated or missing in time."""
        self.until(lambda: self.ended(ids) == len(ids), lambda: f"{self.ended(ids)} of {len(ids)} ended")
        with self._lock:
            repeated = {i: len(self._results[i]) for i in ids if len(self._results[i]) != 1}
            assert not repeated, f"requests with more than one result: {repeated}"
            return [self._results[i][0] for i in ids]

    def completed(self, ids: list[str]) -> list[Result]:
        """The only result of each, all COMPLETED; says why others are not."""
        return all_completed(self.wait_all(ids))

    def until(self, condition: Callable[[], bool], what: "str | Callable[[], str]") -> None:
        """Wait for it; a failure shows the roles' last words."""
        poll_until(condition, lambda: f"{what if isinstance(what, str) else what()}\n{self.tails()}")

    def log(self, name: str) -> str:
        """All that a process has logged."""
        return (self._logs / f"{name}.log").read_text()

    def tails(self) -> str:
        """The last lines of each log."""
        logs = sorted(self._logs.glob("*.log"))
        return "\n".join(f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-6:]) for log in logs)

    def statuses(self, ids: list[str]) -> Counter[str]:
        """How the ended ones ended."""
        with self._lock:
            return Counter(self._results[i][0].status for i in ids if i in self._results)

    def close(self) -> None:
        """Stop everything; no process is left."""
        end_all(self._processes.values())
        self._follower.close()
        self.producer.close()


@contextlib.contextmanager
def running_pipeline(settings: Settings, logs: pathlib.Path) -> Iterator[Pipeline]:
    """A pipeline on its own topics, from ready to stopped."""
    create_topics(settings, ["light", "heavy"])
    pipeline = Pipeline(settings, logs)
    try:
        yield pipeline.start()
    finally:
        pipeline.close()


def path_of(result: Result) -> list[dict[str, object]]:
    """The stages of a result."""
    stages: list[dict[str, object]] = json.loads(result.path)
    return stages
