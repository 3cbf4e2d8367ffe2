# ruff: noqa: ARG005  the ports name their arguments
"""What a role knows besides its input, without a broker; an engine and records to feed it."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from PIL import Image

from agents.engines import Generated, GenerationTask
from planner.catalog.options import ResolvedOptions
from planner.observation.workers import ReceivedHeartbeat
from planner.serving.dispatch.dispatch import Retry
from planner.serving.dispatch.lacking import Need
from planner.serving.dispatch.worker_loads import Load, LoadView, Sent, WorkerPool
from schemas.avro import Message
from schemas.messages import GenerateRequest, Heartbeat, Pin, Plan
from schemas.record import Incoming, Outgoing
from schemas.topics import PROMPTS
from streams.codec.avro import decode, encode
from streams.control.records import NO_PIN, Place
from streams.kafka.transactions.barrier import Barrier

SILENT_MS = 3000


class StubPlans:
    """`PlanView` of one plan; `in_force` waits while there is none."""

    def __init__(self, plan: Plan | None = None, pin: Pin | None = None) -> None:
        self.plan, self.pin, self.place = plan, pin, Place()
        self.is_disputed, self.answered_at = False, NO_PIN
        self.topic_newest = 0  # highest version that lies there, obeyed or not
        self.topic: list[Plan] = []  # what lies on it

    async def in_force(self) -> Plan:
        while self.plan is None:
            await asyncio.sleep(0)
        return self.plan

    @property
    def newest(self) -> int:
        return max(self.topic_newest, self.plan.version if self.plan else 0)

    def obey(self, plan: Plan) -> None:
        self.plan, self.is_disputed = plan, False

    def catch_up(self, _barrier: Barrier) -> None:
        if self.topic:
            self.plan = self.topic[-1]

    def find(self, version: int) -> Plan | None:
        return next((plan for plan in self.topic if plan.version == version), None)


class StubFleet:
    """`FleetView` of the heartbeats that a test gives it."""

    def __init__(self) -> None:
        self.heartbeats: dict[str, ReceivedHeartbeat] = {}
        self._loads = LoadView()
        self.acknowledged_at: list[int] = []

    def receive(self, heartbeat: Heartbeat, seen_ms: int) -> "StubFleet":
        self.heartbeats[heartbeat.worker_id] = ReceivedHeartbeat(heartbeat, seen_ms)
        self._loads.on_heartbeat(heartbeat, seen_ms)
        return self

    def obey(self, plan: Plan) -> None:
        self._loads.obey(plan)

    def loads(self, variant: str, at_ms: int) -> list[Load]:
        return self._loads.loads(variant, at_ms, SILENT_MS)

    def wait_ms(self, variant: str, at_ms: int, queued_ms: float = 0.0, *, holds: bool = False) -> float:
        return self._loads.pool(variant, at_ms, SILENT_MS).wait_ms(at_ms, queued_ms, holds=holds)

    def ready_ms(self, variant: str, need: Need, at_ms: int) -> float:
        return self._loads.pool(variant, at_ms, SILENT_MS).ready_ms(need, at_ms)

    def slowness(self, variant: str, at_ms: int) -> float:
        return self._loads.pool(variant, at_ms, SILENT_MS).slowness

    def serving(self, variants: Iterable[str], at_ms: int) -> int:
        return sum(len(self.loads(variant, at_ms)) for variant in variants)

    def choose(
        self, variant: str, at_ms: int, choice: Callable[[WorkerPool], int | Retry | None]
    ) -> Load | Retry | None:
        pool = self._loads.pool(variant, at_ms, SILENT_MS)
        place = choice(pool)
        return pool.load(place, at_ms) if isinstance(place, int) else place

    def sent(self, variant: str, partition: int, run_ms: float, at_ms: int, need: Need | None = None) -> Sent:
        return self._loads.on_sent(variant, partition, None, run_ms, at_ms, need)

    def acknowledged(self, sent: Sent, offset: int) -> None:
        self.acknowledged_at.append(offset)
        self._loads.on_acknowledged(sent, offset)


class StubEngine:
    """Generates a plain card a task; raises when `breaks` says so of a batch; asks should_stop once.

    Red is the seed; green, where there is a draft, that of the draft plus the step.
    """

    def close(self) -> None: ...

    def __init__(self, breaks: Callable[[Sequence[GenerationTask]], bool] = lambda tasks: False) -> None:
        self._breaks = breaks
        self.batches: list[list[str]] = []
        self.hows: list[ResolvedOptions] = []
        self.before_stop_is_asked: Callable[[], None] = lambda: None

    def cuts(self, prompt: str, negative_prompt: str) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: Callable[[], bool]
    ) -> Generated | None:
        self.hows.append(how)
        self.batches.append([task.request_id for task in tasks])
        if self._breaks(tasks):
            raise ValueError("no such colour")
        self.before_stop_is_asked()
        if should_stop():
            return None
        images = [Image.new("RGB", (4, 4), (task.seed % 256, _green(task, how), 0)) for task in tasks]
        return Generated(images, [None] * len(images))


def _green(task: GenerationTask, how: ResolvedOptions) -> int:
    if not isinstance(task.over, Image.Image):
        return 0
    pixel = task.over.getpixel((0, 0))
    assert isinstance(pixel, tuple)
    return int(pixel[1]) + how.refine_from_step


def a_record(message: Message | None = None, **changes: Any) -> Incoming:
    topic = PROMPTS if isinstance(message, GenerateRequest) else "in.v1"
    values: dict[str, Any] = {
        "topic": topic, "partition": 0, "offset": 7, "timestamp_ms": 1_760_000_000_001, "key": b"r-1",
        "value": None if message is None else encode(message), "headers": {"x-own": b"travels"},
    }  # fmt: skip
    return Incoming(**(values | changes))


def read(record: Outgoing, kind: type[Any]) -> Any:
    return decode(record.value, kind)


def topics_of(records: Sequence[Outgoing]) -> list[str]:
    return [record.topic for record in records]
