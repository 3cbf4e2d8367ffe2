"""Counts the jobs that wait for idle workers, as routers and discriminators reckon with the queues before a level."""

import contextlib
import logging
import threading
from collections.abc import Sequence
from typing import Self

from confluent_kafka import KafkaException, TopicPartition

from agents.router.waiting.progress import Committed
from agents.runtime.views import PlanView, WaitingCounts
from planner.serving.dispatch.dispatch import holds
from schemas.topics import full_name, waiting_group, waiting_topic
from streams import metrics
from streams.kafka.consumers.offsets import Asked, asking
from streams.settings import Settings

log = logging.getLogger(__name__)

COUNT_S = 0.25
ANSWER_S = 5.0


class CountedWaiting(WaitingCounts):
    """The counts of a process, each COUNT_S while its plan pulls or jobs wait; a planner's if it holds. Thread-safe."""

    def __init__(self, settings: Settings, variants: Sequence[str], plans: PlanView, role: str) -> None:
        super().__init__()
        self._settings, self._plans, self._role = settings, plans, role
        prefix = settings.kafka.prefix
        self._places = {v: TopicPartition(full_name(prefix, waiting_topic(v).name), 0) for v in variants}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waiting-counts", daemon=True)

    def start(self) -> Self:
        """Begin to count."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop counting."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with contextlib.ExitStack() as stack:
            client: Asked | None = None  # most plans hold no jobs back, and need none
            while not self._closing.wait(COUNT_S):
                plan = self._plans.plan
                if (plan is not None and holds(plan, self._role == "planner")) or self.any():
                    group = waiting_group(self._settings.kafka.prefix)
                    client = client or stack.enter_context(asking(self._settings, group))
                    self._count(client)

    def _count(self, client: Asked) -> None:
        try:
            self.counted(self._on_topics(client))
        except KafkaException as error:
            metrics.FALLBACKS.labels(self._role, "waiting-uncounted").inc()
            log.warning("cannot count the jobs that wait for idle workers: %s", error.args[0].str())

    def _on_topics(self, client: Asked) -> dict[str, int]:
        found = client.committed(list(self._places.values()), timeout=ANSWER_S)
        counts = {}
        for (variant, place), each in zip(self._places.items(), found, strict=True):
            if each.error is not None:
                raise KafkaException(each.error)
            first, end = client.get_watermark_offsets(place, timeout=ANSWER_S)
            committed = Committed.of(max(each.offset, first), each.metadata if each.offset >= first else None)
            counts[variant] = committed.waiting(end)
        return counts
