"""Faults by others: records that no role of ours wrote, a member of our group that serves nothing, deleted records."""

import dataclasses
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from planner.control.validity import MAX_AHEAD as VERSIONS_AHEAD
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import Purged, Steps, World
from schemas.later import MAX_AHEAD
from schemas.messages import Heartbeat, Plan
from schemas.record import Outgoing
from schemas.registry import by_id
from schemas.topics import CLASSIFIED, FLEET, IMAGES, OUTCOMES, PLAN, PLAN_KEY, PROMPTS, full_name, jobs_topic
from streams.codec.avro import decode, encode
from streams.kafka.clients import client_config

TOPICS: Final = (CLASSIFIED, IMAGES, OUTCOMES, FLEET, PLAN, jobs_topic("light", 1).name, jobs_topic("heavy", 1).name)
GROUPS: Final = {"ledger": OUTCOMES, "worker.light": jobs_topic("light", 1).name}  # of the protocol that any client has
ACCUMULATES_S: Final = 3.0  # of requests that lie unread when they are deleted
POLL_S: Final = 0.5


def _framed(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"\x02\x04\xff"


VALUES: Final[Mapping[str, Callable[[World], bytes | None]]] = {
    "no value": lambda _world: None,
    "bytes that are no record": lambda _world: b"\xff" * 40,
    "a schema id above any release's": lambda _world: _framed(len(by_id()) + MAX_AHEAD + 1),
    "another message's schema": lambda _world: _framed(1),
    "a worker that is not there": lambda _world: encode(
        Heartbeat(worker_id=f"ghost-{uuid.uuid4().hex[:6]}", state="ready", variant="heavy", plan_version=1, sent_ms=0)
    ),
    "a plan of the highest version": lambda world: _highest_plan(world),
}


def _highest_plan(world: World) -> bytes | None:
    """Return the plan in force under the highest version that readers take; None before there is one."""
    if world.plan is None:
        return None
    return encode(dataclasses.replace(decode(world.plan.value, Plan), version=world.plan.offset + VERSIONS_AHEAD))


def record(world: World, fault: Fault) -> Steps:
    """Write one record that no role of ours wrote to each of some internal topics."""
    dice = fault.draw()
    written = []
    for topic in dice.sample(TOPICS, k=3):
        name = dice.choice([*VALUES][:4]) if topic not in (FLEET, PLAN) else dice.choice([*VALUES])
        value = VALUES[name](world)
        key = PLAN_KEY.encode() if topic == PLAN else uuid.uuid4().hex.encode()
        world.producer.send(Outgoing(topic=topic, key=key, value=value, partition=0))
        written.append(f"{name} on {topic}")
    yield 0.0
    return f"wrote {', '.join(written)}"


def stranger(world: World, fault: Fault) -> Steps:
    """Let a foreign consumer join a role's group, hold partitions, and serve none of their records."""
    group, left = fault.draw().choice([*GROUPS]), threading.Event()
    held = world.aside(lambda: _squat(world, group, left))
    try:
        yield fault.lasts_ms / 1000
    finally:
        left.set()
    while not held.done():
        yield POLL_S
    return f"a stranger held partitions {held.result()} of the group {group} for {fault.lasts_ms / 1000:.1f} s"


def _squat(world: World, group: str, left: threading.Event) -> list[int]:
    """Be a member of a group until `left`; return the partitions that it was given."""
    prefix, held = world.settings.kafka.prefix, set[int]()
    own = {"group.id": f"{prefix}.{group}", "group.protocol": "consumer", "enable.auto.commit": False}
    consumer = Consumer({**client_config(world.settings), **own})
    consumer.subscribe([full_name(prefix, GROUPS[group])])
    try:
        while not left.is_set():
            consumer.poll(POLL_S)
            held |= {each.partition for each in consumer.assignment()}
    finally:
        consumer.close()
    return sorted(held)


def purge(world: World, _fault: Fault) -> Steps:
    """Delete what lies unread on `prompts`, as a retention shorter than the queue does.

    This loses requests that the broker had acknowledged: no role can know what they were. The run holds that the audit
    says so.
    """
    world.child("classifier")
    yield from world.leave("classifier")
    yield ACCUMULATES_S
    purged = yield from world.beside(lambda: _delete(world))
    world.purged += purged
    world.back(world.processes["classifier"])
    spans = ", ".join(f"{each.partition}@{each.begin} to {each.end - 1}" for each in purged)
    return f"deleted {sum(each.end - each.begin for each in purged)} records of {PROMPTS} unread: {spans or 'none'}"


def _delete(world: World) -> list[Purged]:
    """Delete all of `prompts` that the classifier has not committed; return what that was."""
    settings = world.settings
    topic = full_name(settings.kafka.prefix, PROMPTS)
    config = {**client_config(settings), "group.id": f"{settings.kafka.prefix}.classifier", "enable.auto.commit": False}
    consumer = Consumer(config)
    try:
        known = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        partitions = [TopicPartition(topic, each) for each in known]
        begun = {each.partition: max(0, each.offset) for each in consumer.committed(partitions, timeout=20)}
        ends = {each.partition: consumer.get_watermark_offsets(each, timeout=20)[1] for each in partitions}
    finally:
        consumer.close()
    spans = [Purged(partition=each, begin=begun[each], end=end) for each, end in ends.items() if end > begun[each]]
    admin = AdminClient(client_config(settings))  # kept: with it its answers would be gone
    for future in admin.delete_records([TopicPartition(topic, each.partition, each.end) for each in spans]).values():
        future.result()
    return spans
