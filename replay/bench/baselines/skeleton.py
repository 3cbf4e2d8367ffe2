"""The baseline: the pipeline's clients, hops, acks and transaction with handlers that only copy.

`python -m replay.bench.baselines.skeleton [--home ...] [--set ...] ROLE...` serves copying roles in one process until
SIGTERM. What it takes is what Kafka and its clients take; what a role takes beyond it is the role's own.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Sequence

import click
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from schemas import topics
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import full_name, jobs_topic
from streams.cli import nested
from streams.faust.host import AgentHost
from streams.kafka.clients import client_config
from streams.kafka.consumers.consumer_factory import open_member
from streams.kafka.consumers.polling import incoming, take
from streams.kafka.groups.groups import member_config
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.settings import Settings, load

VARIANT = "light"
JOBS = jobs_topic(VARIANT, 1).name
TOPICS = {
    "classifier": (topics.PROMPTS, topics.CLASSIFIED),
    "router": (topics.CLASSIFIED, JOBS),
    "discriminator": (topics.IMAGES, topics.OUTCOMES),
}
BATCH = 1000  # as the ledger's
TRANSACTION_S = 30.0


class Copying:
    """`StreamLogic` that writes what it reads."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.source, self._target = TOPICS[role]

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """Copy the record to the next topic."""
        return [copy_of(record, self._target)]

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Nothing to remember."""

    def on_undelivered(self, record: Outgoing) -> None:
        """Nothing to remember."""

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:  # noqa: ARG002  the port's shape
        """Answer nothing, as copying does not fail."""
        raise error


def copy_of(record: Incoming, topic: str) -> Outgoing:
    """A record with this key, value and headers for another topic."""
    return Outgoing(topic=topic, key=record.key, value=record.value, headers=record.headers)


def work(settings: Settings, stopping: threading.Event) -> None:
    """The worker's loop: take one, commit the attempt, produce, wait for the ack, commit."""
    group, prefix = f"{settings.kafka.prefix}.worker", settings.kafka.prefix
    producer = KafkaRecordProducer(settings)
    consumer = _consumer(settings, group, {"queued.min.messages": 1, "fetch.queue.backoff.ms": 10})
    consumer.subscribe([full_name(prefix, JOBS)])
    while not stopping.is_set():
        for message in take(consumer, 1, 0.1):
            consumer.commit(offsets=[_position(message, 0, "attempt=1")], asynchronous=False)
            send_all(producer, [copy_of(incoming(message, prefix), topics.IMAGES)])
            consumer.commit(offsets=[_position(message, 1, "")], asynchronous=False)
    consumer.close()
    producer.close()


def settle(settings: Settings, stopping: threading.Event) -> None:
    """The ledger's loop: consume, produce and commit the offsets in one transaction."""
    group, prefix = f"{settings.kafka.prefix}.ledger", settings.kafka.prefix
    producer = Producer({**client_config(settings), "transactional.id": group, "linger.ms": 1})
    producer.init_transactions(TRANSACTION_S)
    consumer = _consumer(settings, group, {"isolation.level": "read_committed"})
    consumer.subscribe([full_name(prefix, topics.OUTCOMES)])
    target = full_name(prefix, topics.RESULTS)
    while not stopping.is_set():
        batch = take(consumer, BATCH, 0.1)
        if not batch:
            continue
        producer.begin_transaction()
        for message in batch:
            producer.produce(target, message.value(), message.key(), headers=message.headers())
        past = {message.partition(): _position(message, 1, "") for message in batch}
        producer.send_offsets_to_transaction(list(past.values()), consumer.consumer_group_metadata(), TRANSACTION_S)
        producer.commit_transaction(TRANSACTION_S)
    consumer.close()


def _consumer(settings: Settings, group: str, own: dict[str, str | int]) -> Consumer:
    return open_member(member_config(settings, group), own)


def _position(message: Message, past: int, metadata: str) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0, (message.offset() or 0) + past, metadata)


LOOPS: dict[str, Callable[[Settings, threading.Event], None]] = {"worker": work, "ledger": settle}


async def _host(hosts: Sequence[AgentHost], stopping: threading.Event) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    for host in hosts:
        await host.app.start()
    await stopped.wait()
    stopping.set()
    await asyncio.gather(*(host.app.stop() for host in hosts))


@click.command()
@click.option("--home", required=True)
@click.option("--set", "assignments", multiple=True)
@click.argument("roles", nargs=-1, required=True, type=click.Choice([*TOPICS, *LOOPS]))
def main(home: str, assignments: tuple[str, ...], roles: tuple[str, ...]) -> None:
    """Serve copying roles until SIGTERM."""
    settings = load({**nested(assignments), "home": home})
    stopping = threading.Event()
    loops = [threading.Thread(target=LOOPS[role], args=(settings, stopping)) for role in roles if role in LOOPS]
    for loop in loops:
        loop.start()
    hops = [role for role in roles if role in TOPICS]
    producer = KafkaRecordProducer(settings) if hops else None
    hosts = [AgentHost(settings, Copying(role), producer) for role in hops] if producer else []
    asyncio.run(_host(hosts, stopping))
    for loop in loops:
        loop.join()
    if producer:
        producer.close()


if __name__ == "__main__":
    main()
