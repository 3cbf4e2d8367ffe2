"""The context of faults: processes, the broker, the topics, the store, and what the run knows so far."""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple, TypeVar

from replay.load.driver import STUCK_MS
from replay.local.hosting import LocalDeployment
from replay.local.processes import RoleProcess, role_process
from replay.verify.chaos.brokers import BrokerCluster
from replay.verify.chaos.oracle import Acknowledged
from replay.verify.chaos.schedule import PROMPTED, Fault
from replay.verify.chaos.weights.remote import WeightsRemote
from schemas.errors import PochadeError
from schemas.messages import GenerateRequest, Result
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import CLASSIFIED, IMAGES, OUTCOMES, PLAN, PLAN_KEY, PROMPTS, PROMPTS_BATCH, jobs_topic
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.operator.client import RequestClient
from streams.processes.children import Child
from streams.settings import Settings

T = TypeVar("T")
Ambush = Callable[[Incoming], None]  # acts, in the thread that reads, on the record that it waits for
Steps = Generator[float, None, str]  # seconds to wait before the next step; in the end, what was done

MAX_REMEMBERED = 500  # records of a run that an old one is taken from
POLL_S = 0.05
STOP_S = 12.0  # for a process to end after SIGTERM


class NotThere(PochadeError):
    """The target of a fault does not exist now."""


class Purged(NamedTuple):
    """Records of `prompts` that a fault deleted before they were read: the offsets from `begin` to below `end`."""

    partition: int
    begin: int
    end: int


class World:
    """The run as faults see it. All but `beside` is called by the thread that starts processes (Linux's rule)."""

    def __init__(
        self,
        hosted: LocalDeployment,
        client: RequestClient,
        producer: KafkaRecordProducer,
        cluster: BrokerCluster | None = None,
        remote: WeightsRemote | None = None,
        log: Acknowledged | None = None,
    ) -> None:
        """`cluster`: of a run with several brokers; `remote`: of one whose requests name components.

        `log`: the file of acknowledged requests; None if it is not written.
        """
        self.hosted, self.client, self.producer, self.cluster, self.remote = hosted, client, producer, cluster, remote
        self.settings: Settings = hosted.settings
        self.processes: dict[str, RoleProcess] = {each.name: each for each in hosted.processes}
        self.asked: dict[str, GenerateRequest] = {}
        self.ended: dict[str, str] = {}  # request id -> status
        self.placed: dict[str, tuple[int, int]] = {}  # request id -> partition and offset on `prompts`
        self.acknowledged: set[str] = set()
        self.purged: list[Purged] = []
        self._left, self._moved_ms = 0, 0.0  # acknowledged and open, and since when (epoch ms)
        self.plan: Incoming | None = None  # the newest of the planner
        self._log = log
        self.old: deque[Incoming] = deque(maxlen=MAX_REMEMBERED)
        self.serving: Callable[[], dict[str, str]] = lambda: {}  # worker -> variant
        self.accepted_ms: list[float] = []  # when a broker that had ended accepted connections again
        self.doubled: set[str] = set()  # open requests whose records were written again
        self.ambushes: list[Ambush] = []
        self.killed: set[int] = set()  # processes of scaled workers
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="fault")

    def start(self, stack: ExitStack, variants: Sequence[str]) -> None:
        """Keep records that may be written again; until `stack` closes."""
        stack.callback(self._threads.shutdown, wait=False, cancel_futures=True)
        topics = [CLASSIFIED, IMAGES, OUTCOMES, *(jobs_topic(variant, 1).name for variant in variants)]
        stack.callback(TopicTailer(self.settings, topics, self._on_record, since_ms=None).start().close)
        stack.callback(TopicTailer(self.settings, [PLAN], self._on_plan).start().close)

    def _on_plan(self, record: Incoming) -> None:
        if record.key == PLAN_KEY.encode() and record.value:
            self.plan = record

    def on_result(self, result: Result) -> None:
        """Remember how a request ended."""
        self.ended.setdefault(result.request_id, str(result.status))

    def _on_record(self, record: Incoming) -> None:
        self.old.append(record)
        for ambush in tuple(self.ambushes):
            ambush(record)

    def submit(self, request: GenerateRequest) -> Future[Delivered]:
        """Submit a request as the client does, and remember its id; that it was acknowledged, too."""
        self.asked[request.request_id] = request
        future = self.client.submit(request)
        future.add_done_callback(lambda done: self._acknowledged(request, done))
        return future

    def _acknowledged(self, request: GenerateRequest, done: Future[Delivered]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        topic, at = PROMPTS_BATCH if request.tier == "batch" else PROMPTS, done.result()
        self.acknowledged.add(request.request_id)
        if topic == PROMPTS:
            self.placed[request.request_id] = at.partition, at.offset
        if self._log is not None:
            self._log.acknowledged(request.request_id, topic, at.partition, at.offset)

    def is_over(self, now_ms: float) -> bool:
        """Whether all that was acknowledged has ended, but what a fault deleted; or none has for STUCK_MS."""
        left = self.acknowledged - self.ended.keys() - self.gone()
        if not left or len(left) != self._left:
            self._left, self._moved_ms = len(left), now_ms
        return not left or now_ms - self._moved_ms > STUCK_MS

    def killers(self) -> set[str]:
        """Return the ids of requests that end the process which generates them."""
        return {name for name, request in self.asked.items() if request.prompt.startswith(tuple(PROMPTED.values()))}

    def gone(self) -> frozenset[str]:
        """Return the ids of the requests whose records a fault deleted before they were read."""
        return frozenset(
            name
            for name, (partition, offset) in self.placed.items()
            if any(each.partition == partition and each.begin <= offset < each.end for each in self.purged)
        )

    def is_open(self, record: Incoming) -> bool:
        """Whether a record is about one of our requests, which has not ended."""
        name = (record.key or b"").decode(errors="replace")
        return name in self.asked and name not in self.ended

    def rewrite(self, records: Sequence[Incoming]) -> None:
        """Write records as they were read, those of jobs and outcomes to their own partition."""
        self.doubled |= {(each.key or b"").decode() for each in records if self.is_open(each)}
        for each in records:
            self.producer.send(
                Outgoing(
                    topic=each.topic, key=each.key, value=each.value, headers=each.headers, partition=each.partition
                )
            )

    def child(self, name: str) -> Child:
        """Return a running process by name. Raises NotThere."""
        child = self.hosted.roles.child(name)
        if child is None:
            raise NotThere(f"{name} was not running")
        return child

    def name_of(self, pid: int) -> str:
        """Return the name of a running process."""
        running = ((name, self.hosted.roles.child(name)) for name in self.processes)
        return next((name for name, child in running if child is not None and child.pid == pid), f"process {pid}")

    def join(self, name: str, roles: Sequence[str]) -> RoleProcess:
        """Start one more process."""
        own = {"worker.id": name} if list(roles) == ["worker"] else {}
        process = role_process(name, roles, self.hosted.options, own)
        self.hosted.roles.add(process)
        return process

    def leave(self, name: str, number: signal.Signals = signal.SIGTERM) -> Iterator[float]:
        """End a process for good, or until it is added again."""
        child = self.hosted.roles.hold(name)
        if child.poll() is None:
            os.kill(child.pid, number)
        yield from awaited(child)

    def back(self, process: RoleProcess) -> None:
        """Start again what has left, unless another fault has done so."""
        if self.hosted.roles.is_paused(process.name):
            self.hosted.roles.add(process)

    def beside(self, act: Callable[[], T]) -> Generator[float, None, T]:
        """Run something that blocks, while everything else goes on, as steps. Raises what it raises."""
        future = self.aside(act)
        while not future.done():
            yield POLL_S
        return future.result()

    def aside(self, act: Callable[[], T]) -> "Future[T]":
        """Run something that blocks in a thread of its own."""
        return self._threads.submit(act)


def awaited(child: Child, most_s: float = STOP_S) -> Iterator[float]:
    """Wait in steps until a process has ended; kill it after `most_s` seconds."""
    waited_s = 0.0
    while child.poll() is None:
        if waited_s >= most_s:
            child.kill()
        waited_s += POLL_S
        yield POLL_S


Do = Callable[[World, Fault], Steps]
