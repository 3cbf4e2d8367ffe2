"""The records a bench preloads: plausible messages, each with the headers that a role would have given it."""

from collections.abc import Iterable, Iterator

from confluent_kafka import KafkaError, Producer

from planner.serving.ending.ledger import result_of
from replay.load.prompts import builtin_prompts
from schemas import ids
from schemas.avro import Message
from schemas.errors import PochadeError
from schemas.messages import (
    ClassifiedRequest,
    GenerateJob,
    GenerateRequest,
    ImageRef,
    Outcome,
    Result,
    Stage,
    Status,
)
from schemas.record import Outgoing
from schemas.topics import full_name
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.codec.headers import stamp
from streams.kafka.clients import client_config
from streams.settings import Settings


def requests(name: str, count: int) -> list[GenerateRequest]:
    """`count` requests; ids, prompts and seeds follow from `name` and the number."""
    made = now_ms()
    return [
        GenerateRequest(request_id=f"{name}-{n:07d}", prompt=prompt, created_ms=made, seed=n)
        for n, prompt in enumerate(builtin_prompts(count))
    ]


def classified(request: GenerateRequest, level: str) -> ClassifiedRequest:
    """A request with a hardness that its id draws, so that routes by hardness split it."""
    return ClassifiedRequest(
        request=request,
        hardness=ids.draw(request.request_id, "bench"),
        classes={"models": level},
        classifier="bench/1",
        received_ms=request.created_ms,
        classified_ms=request.created_ms,
    )


def job(request: GenerateRequest, variant: str) -> GenerateJob:
    """A first attempt at one image."""
    return GenerateJob(
        job_id=ids.job_id(request.request_id, 0, variant),
        classified=classified(request, variant),
        level=variant,
        variant=variant,
        stage=0,
        attempt=1,
        probability=1.0,
        plan_version=1,
        worker_id="",
        routed_ms=request.created_ms,
    )


def outcome(request: GenerateRequest) -> Outcome:
    """A COMPLETED one with a path of one stage: the commonest."""
    image = ImageRef(uri=f"file:///images/{'ab' * 32}.png", sha256="ab" * 32, width=32, height=32, bytes=2000)
    step = Stage(
        stage=0, level="light", worker_id="worker-1", plan_version=1, queue_ms=2, generate_ms=20, batch=1, attempt=1,
        confidence=0.75, threshold=0.5, image=image,
    )  # fmt: skip
    return Outcome(
        request_id=request.request_id, status=Status.COMPLETED, reason="confidence 0.750 >= threshold 0.500",
        by="discriminator", ended_ms=request.created_ms + 30, request=request,
        classified=classified(request, "light"), path=(step,), policy="bench",
    )  # fmt: skip


def result(outcome: Outcome) -> Result:
    """A result of the size that the ledger writes."""
    return result_of(outcome)


def record(topic: str, message: Message, request_id: str, partition: int | None = None) -> Outgoing:
    """A message as a role would write it."""
    headers = stamp({}, kind=type(message).__name__, source="bench", subject=request_id, time_ms=now_ms())
    return Outgoing(topic=topic, key=request_id.encode(), value=encode(message), headers=headers, partition=partition)


def copies(topic: str, message: Message, name: str, count: int) -> Iterator[Outgoing]:
    """Yield one message under `count` keys, for benches with millions of records of which only the key is read."""
    one = record(topic, message, name)
    for n in range(count):
        yield Outgoing(topic=topic, key=f"{name}-{n:07d}".encode(), value=one.value, headers=one.headers)


def write(settings: Settings, records: Iterable[Outgoing]) -> int:
    """Write many records quickly; how many. Raises PochadeError when the broker did not take them all."""
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            **client_config(settings), "enable.idempotence": True, "acks": "all", "partitioner": "murmur2_random",
            "linger.ms": 20, "queue.buffering.max.messages": 200_000,
        }
    )  # fmt: skip
    count = 0
    for each in records:
        count += 1
        where = {} if each.partition is None else {"partition": each.partition}
        while True:
            try:
                producer.produce(
                    full_name(settings.kafka.prefix, each.topic), each.value, each.key,
                    headers=list(each.headers.items()), on_delivery=on_delivery, **where,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    left = producer.flush(120)
    if failures or left:
        raise PochadeError(f"of {count} records {len(failures)} were refused and {left} not written: {failures[:1]}")
    return count
