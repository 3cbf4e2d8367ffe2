"""Heartbeats of workers that own their partitions and have nothing left to do: what a router must see to choose."""

import threading
from collections.abc import Mapping

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from replay.bench.environment.traffic import record
from schemas.messages import Heartbeat, OwnedPartition
from schemas.topics import FLEET, full_name, jobs_topic
from streams.clock import now_ms
from streams.kafka.clients import client_config
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.settings import Settings


class StandIns:
    """Stand-ins for workers, one per partition of each variant's topic, that send heartbeats until closed."""

    def __init__(self, settings: Settings, workers: Mapping[str, str]) -> None:
        self._settings, self._workers = settings, workers  # worker -> variant
        self._producer = KafkaRecordProducer(settings)
        self._admin = AdminClient(client_config(settings))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stand-ins", daemon=True)
        self._beat()
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.worker.heartbeat_ms / 1000):
            self._beat()

    def _beat(self) -> None:
        count = self._settings.kafka.jobs_partitions
        for variant in set(self._workers.values()):
            mine = [worker for worker, serves in self._workers.items() if serves == variant]
            topic = full_name(self._settings.kafka.prefix, jobs_topic(variant, 1).name)
            asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(count)}
            ends = {tp.partition: future.result().offset for tp, future in self._admin.list_offsets(asked).items()}
            for number, worker in enumerate(mine):
                self._say(worker, variant, {p: end for p, end in ends.items() if p % len(mine) == number})

    def _say(self, worker: str, variant: str, ends: Mapping[int, int]) -> None:
        owned = [OwnedPartition(partition=p, end_offset=end, remaining_ms=0) for p, end in ends.items()]
        beat = Heartbeat(
            worker_id=worker, state="ready", variant=variant, plan_version=1, sent_ms=now_ms(),
            partitions=tuple(owned),
        )  # fmt: skip
        self._producer.send(record(FLEET, beat, worker))

    def __enter__(self) -> "StandIns":
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.close()
