"""Messages that a consumer polled and cannot read yet, as a newer release wrote them, and those behind them."""

import contextlib
from collections.abc import Collection, Iterable, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streams.codec.avro import awaited_schema
from streams.codec.schema_wait import SchemaWait


class HeldBack:
    """Of one consumer, in its thread. A partition waits as a whole: it is paused, and its order stays.

    The consumer is polled on meanwhile, so that it stays in its group and a newer member may take the partition over.
    """

    def __init__(self, consumer: Consumer, prefix: str, wait: SchemaWait) -> None:
        """`prefix` of the deployment's topics; `wait` tells who asks what is waited for."""
        self._consumer, self._prefix, self._wait = consumer, prefix, wait
        self._held: list[Message] = []

    def readable(self, polled: Sequence[Message]) -> list[Message]:
        """What can be read now, of these and of those held back."""
        if not self._held and not any(awaited_schema(message.value()) for message in polled):
            return list(polled)
        before, blocked = _partitions(self._held), set[tuple[str, int]]()
        ready, held = list[Message](), list[Message]()
        for message in (*self._held, *polled):
            place = _place(message)
            schema_id = None if place in blocked else awaited_schema(message.value())
            if schema_id is not None:
                blocked.add(place)
                topic, partition = place
                at = message.offset() or 0
                self._wait.for_schema(topic.removeprefix(self._prefix + "."), partition, at, schema_id)
            (held if place in blocked else ready).append(message)
        self._held = held
        self._pause(blocked - before, before - blocked)
        return ready

    def _pause(self, held: Collection[tuple[str, int]], goes_on: Collection[tuple[str, int]]) -> None:
        if held:
            self._consumer.pause([TopicPartition(*place) for place in held])
        if goes_on:
            self._consumer.resume([TopicPartition(*place) for place in goes_on])
        if not self._held:
            self._wait.ends()

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """These are taken away: what lies there is the new owner's."""
        if not self._held:
            return
        with contextlib.suppress(KafkaException):  # lost, not revoked: there is nothing to resume
            self._consumer.resume(list(partitions))  # else it would still be paused when it comes back
        lost = {(each.topic, each.partition) for each in partitions}
        self._held = [message for message in self._held if _place(message) not in lost]
        if not self._held:
            self._wait.ends()


def _place(message: Message) -> tuple[str, int]:
    return message.topic() or "", message.partition() or 0


def _partitions(messages: Iterable[Message]) -> set[tuple[str, int]]:
    return {_place(message) for message in messages}
