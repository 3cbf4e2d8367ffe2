"""Record batches as other clients than ours write them, bytes that no client of ours can be made to write."""

import asyncio
import struct
from collections.abc import Sequence

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

Headers = Sequence[tuple[bytes, bytes | None]]
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


class _Name(str):
    """A header's name that is encoded as the bytes that it was made of."""

    raw: bytes

    def encode(self, *_: str) -> bytes:  # type: ignore[override]
        return self.raw


def _name(raw: bytes) -> _Name:
    name = _Name("name")
    name.raw = raw
    return name


def a_batch(*records: tuple[bytes | None, bytes | None, Headers], codec: int = 0, base_offset: int = 0) -> bytes:
    """A batch of (key, value, headers)."""
    builder = _DefaultRecordBatchBuilderPy(2, codec, 0, -1, -1, -1, 1 << 20)
    for offset, (key, value, headers) in enumerate(records):
        builder.append(offset, 1_000, key, value, [(_name(raw), content) for raw, content in headers])
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, base_offset)  # the checksum begins behind it
    return bytes(built)


def write_batch(bootstrap: str, topic: str, batch: bytes, partition: int = 0) -> None:
    """Have a broker append a batch. `topic` with its prefix."""
    asyncio.run(_write_batch(bootstrap, topic, batch, partition))


async def _write_batch(bootstrap: str, topic: str, batch: bytes, partition: int) -> None:
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        await client.set_topics([topic])
        (node,) = {client.cluster.leader_for_partition(tp) for tp in _partitions(client, topic) if tp[1] == partition}
        request = ProduceRequest(
            required_acks=-1, timeout=30_000, topics=[(topic, [(partition, batch)])], transactional_id=None
        )
        response = await client.send(node, request)
        code = response.topics[0][1][0][1]
        if code:
            raise for_code(code)(f"{topic}/{partition} did not take the batch")
    finally:
        await client.close()


def _partitions(client: AIOKafkaClient, topic: str) -> list[tuple[str, int]]:
    from aiokafka.structs import TopicPartition

    return [TopicPartition(topic, partition) for partition in client.cluster.partitions_for_topic(topic) or ()]
