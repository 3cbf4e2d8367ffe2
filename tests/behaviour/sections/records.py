"""Every kind of record that the roles and the command line write: topic, key, partition, headers and content.

Stubs surround the roles. Random values and times of the clock are replaced by a word that says what they are.
"""

import asyncio
import dataclasses
import datetime
import io
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any
from unittest import mock

import fastavro
import numpy as np
from PIL import Image

from agents.classifier.judges import Judgement
from agents.classifier.role import Classifier
from agents.discriminator.role import Discriminator
from agents.features.tenants import Tenants
from agents.ledger.partition import LedgerPartition
from agents.router.dispatcher import Dispatcher
from agents.router.role import Router
from agents.runtime.records import event_record, fitted_dead_letter, job_record, outcome_record, outgoing, refused
from agents.worker.heartbeat import Heart, WorkerState
from agents.worker.jobs import Taken
from planner.serving.routing.escalation import EscalationLogic
from planner.serving.routing.routing import RoutingLogic, backlog_limits
from schemas import topics
from schemas.messages import Admission, GenerateRequest, ImageGenerated, Plan, Result, Status
from schemas.record import Incoming, Outgoing
from schemas.registry import by_id
from streams.clock import now_ms
from streams.codec import schema_topic
from streams.control import topic as control
from streams.operator import dead_letters as letters
from streams.operator.client import RequestClient
from streams.settings import Admission as Limits
from streams.settings import Requests, Settings, load
from tests.agents.planner.office import Office
from tests.agents.stubs import StubEngine, StubFleet, StubPlans, a_record
from tests.agents.worker.driving import a_driver, answers
from tests.builders import (
    NOW_MS,
    a_cascade,
    a_catalog,
    a_classified,
    a_heartbeat,
    a_job,
    a_plan,
    a_request,
    a_variant,
    an_image,
    an_image_ref,
    an_outcome,
    owned,
)
from tests.memory_kafka import MemoryRecordProducer
from tests.memory_store import MemoryImageStore
from tests.stateful.broker import Broker, Group, connected

DAY_MS = 86_400_000
TRACE = "a" * 32
CAUSE = {"x-own": b"travels", "traceparent": f"00-{TRACE}-{'b' * 16}-00".encode()}
HEX = re.compile(r"[0-9a-f]+")
MOMENT = re.compile(r"\b1[0-9]{12}\b")  # epoch ms in a text


def written() -> dict[str, list[Any]]:
    """Situation -> the records that were written in it."""
    return {
        **_records(_client()),
        **_records(_orders()),
        **_records(_classifier()),
        **_records(_router()),
        **_records(_worker()),
        **_records(_discriminator()),
        **_records(_ledger()),
        **_records(_planner()),
        **_records(_letters()),
    }


Done = Iterable[tuple[str, Iterable[Outgoing]]]


def _records(done: Done) -> dict[str, list[Any]]:
    return {what: [_described(record) for record in records] for what, records in done}


def _described(record: Outgoing) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "key": (record.key or b"").decode(errors="replace"),
        "partition": record.partition,
        "headers": {name: _header(name, value) for name, value in record.headers.items()},
        "value": _value(record.value or b""),
    }


def _header(name: str, value: bytes) -> str:
    text = value.decode(errors="replace")
    if name == "traceparent":
        version, trace, span, flags = text.split("-")
        return f"{version}-{'its cause' if trace == TRACE else f'new: {len(trace)} digits'}-{_digits(span)}-{flags}"
    if name == "ce_id":
        return _digits(text)
    if name == "ce_time":
        at_ms = round(datetime.datetime.fromisoformat(text).timestamp() * 1000)
        return "now" if _is_now(at_ms) else text
    return _without_moments(text)


def _digits(text: str) -> str:
    return f"{len(text)} digits" if HEX.fullmatch(text) else text


def _is_now(at_ms: int) -> bool:
    return abs(at_ms - now_ms()) < DAY_MS


def _without_moments(text: str) -> str:
    return MOMENT.sub(lambda found: "now" if _is_now(int(found.group())) else found.group(), text)


def _value(value: bytes) -> Any:
    """The content as JSON, decoded by the schema it was written with. Other bytes are shown as text."""
    entry = by_id().get(int.from_bytes(value[1:5])) if value.startswith(b"\0") else None
    if entry is None:
        return _without_moments(value.decode(errors="replace"))
    content = fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(entry.schema), None)
    return {"schema id": entry.id, "content": _plain(content)}


def _plain(content: Any) -> Any:
    """The content in types that JSON has, with the current time replaced by the word now."""
    if isinstance(content, dict):
        drawn = ("salt", "digest") if "salt" in content else ()  # the salt is drawn anew, and the digest with it
        return {name: _digits(_plain(value)) if name in drawn else _plain(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_plain(value) for value in content]
    if isinstance(content, bytes):
        return content.hex()
    if isinstance(content, str):
        return _without_moments(content)
    return "now" if isinstance(content, int) and _is_now(content) else content


def _settings(**more: Any) -> Settings:
    return load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}, **more})


def _incoming(message: Any, **changes: Any) -> Incoming:
    return a_record(message, **{"headers": CAUSE, "timestamp_ms": NOW_MS + 1, **changes})


def _sent(producer: MemoryRecordProducer) -> list[Outgoing]:
    return [record for records in producer.topics.values() for record in records]


def _client() -> Done:
    for tier in ("standard", "batch"):
        producer = MemoryRecordProducer()
        RequestClient(_settings(), producer, clock_ms=lambda: NOW_MS).submit(a_request(tier=tier))
        yield f"client submits {tier}", _sent(producer)
    producer = MemoryRecordProducer()
    RequestClient(_settings(), producer, clock_ms=lambda: NOW_MS).cancel("r-1", "not needed")
    yield "client cancels", _sent(producer)


def _orders() -> Done:
    """Records of `plan pin`, `plan unpin` and `plan rollback`, and the records of the topic `schemas`."""
    for name, order in {
        "pin": {"policy": "p", "parameters": {"threshold": 0.5}}, "unpin": {}, "rollback": {"plan_version": 3},
    }.items():  # fmt: skip
        producer = MemoryRecordProducer()
        with (
            mock.patch.object(control, "KafkaRecordProducer", lambda _settings, made=producer: made),
            mock.patch.object(control, "announce"),
            mock.patch("getpass.getuser", return_value="me"),
        ):
            control.order(_settings(), **order)  # type: ignore[arg-type]
        yield f"operator orders {name}", _sent(producer)
    yield "a release tells its schemas", schema_topic.announcements((GenerateRequest, Result))


class _Judge:
    name = "judge-1"

    def classify(self, prompt: str) -> Judgement:  # noqa: ARG002  the port names its argument
        return Judgement(0.9, {"models": "heavy"}, None)


def _answered(role: Any, record: Incoming) -> list[Outgoing]:
    """Records that the host would write: the answer to the record, or to the error that it caused."""
    try:
        return list(asyncio.run(role.on_record(record)))
    except Exception as error:
        return list(role.on_error(record, error))


def _classifier() -> Done:
    role = Classifier(_Judge(), a_catalog(), Requests(max_prompt_bytes=100))
    for name, record in {
        "a request": _incoming(a_request()),
        "a request with a deadline and its own tier": _incoming(
            a_request(deadline_ms=now_ms() + 3_600_000, tier="interactive", tenant="t")
        ),
        "JSON without an id": _incoming(None, value=b'{"prompt": "a red heart"}', key=None),
        "a batch request": _incoming(a_request(tier="batch")),
        "a late request": _incoming(a_request(deadline_ms=NOW_MS + 1)),
        "an empty prompt": _incoming(a_request(prompt=" ")),
        "what nobody can read": _incoming(None, value=b"\0nothing", key=b"\xff"),
    }.items():
        yield f"classifier meets {name}", _answered(role, record)


def _fleet() -> StubFleet:
    fleet = StubFleet().receive(a_heartbeat(partitions=(owned(2),)), now_ms())
    return fleet.receive(a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(3),)), now_ms())


def _router() -> Done:
    shed = Admission(shares={"standard": 0.0}, reason="too few workers", retry_after_ms=7)
    plans = {"a plan": a_plan(version=9), "a plan that sheds": a_plan(version=9, admission=shed)}
    requests = {
        "a request": a_request(),
        "a late request": a_request(deadline_ms=NOW_MS + 5),
        "a request of high quality": a_request(quality="high"),
    }
    for name, plan in plans.items():
        for asked, request in requests.items():
            role = _a_router(plan, _fleet())
            yield f"router under {name} meets {asked}", _answered(role, _incoming(a_classified(request)))
    role = _a_router(a_plan(), StubFleet())
    yield "router without workers meets a request", _answered(role, _incoming(a_classified()))
    yield "router meets what nobody can read", _answered(role, _incoming(None, value=b"\0nothing"))


def _a_router(plan: Plan, fleet: StubFleet) -> Router:
    limits = backlog_limits(Limits().max_backlog_s, Limits().interactive_headroom)
    logic = RoutingLogic(a_catalog(), limits, Tenants({}))
    return Router(logic, StubPlans(plan), Dispatcher(a_catalog(), fleet, "router"))


def _worker() -> Done:
    for name, engine, attempt in (
        ("a job", StubEngine(), 1),
        ("a job that breaks its engine", StubEngine(lambda _tasks: True), 1),
        ("a job that breaks its engine again", StubEngine(lambda _tasks: True), 3),
        ("a job that ended too many workers", StubEngine(), 4),
    ):
        generator = a_driver("w-9", engine, a_variant(), MemoryImageStore(), set(), 3, judged_ms=0)
        yield f"worker meets {name}", answers(generator, [Taken(_incoming(a_job(attempt=attempt)), attempt)])
    yield "worker beats first and last", _beats()


def _beats() -> list[Outgoing]:
    producer = MemoryRecordProducer()
    heart = Heart(WorkerState("w-9", state="ready", variant=a_variant(), plan_version=4), producer, 1).start()
    while not _sent(producer):
        time.sleep(0.01)
    heart.close()
    beats = _sent(producer)
    return [beats[0], beats[-1]]


class _Scorer:
    def __init__(self, confidence: float) -> None:
        self._confidence = confidence

    def score(self, requests: Sequence[GenerateRequest], pictures: Sequence[np.ndarray]) -> list[float]:  # noqa: ARG002  the port's names
        return [self._confidence] * len(requests)


def _stored(store: MemoryImageStore) -> ImageGenerated:
    out = io.BytesIO()
    Image.new("RGB", (2, 2)).save(out, "PNG")
    return an_image(image=an_image_ref(uri=store.put("j-1", out.getvalue())))


def _discriminator() -> Done:
    over = a_plan(cascades=(a_cascade(refine_from_step=24),))
    for name, confidence, plan in (
        ("a good draft", 0.8, a_plan()),
        ("a poor draft", 0.2, a_plan()),
        ("a poor draft to begin with", 0.2, over),
    ):
        store, fleet, logic = MemoryImageStore(), _fleet(), EscalationLogic(a_catalog())
        dispatcher, scorers = Dispatcher(a_catalog(), fleet, "discriminator"), {"look": _Scorer(confidence)}
        role = Discriminator(logic, StubPlans(plan), set(), dispatcher, store, scorers)
        yield f"discriminator meets {name}", _answered(role, _incoming(_stored(store)))


def _ledger() -> Done:
    for form in ("avro", "json"):
        broker = Broker(now_ms=NOW_MS)
        with connected(broker):
            lane = LedgerPartition(_settings(), 0, result_format=form)
            classified = a_classified(a_request(request_id="done"))
            outcomes = [
                an_outcome(request_id="done", status=Status.COMPLETED, classified=classified),
                an_outcome(request_id="failed"),
                an_outcome(request_id="twice"),
                an_outcome(request_id="twice", status=Status.CANCELLED),
            ]  # fmt: skip
            records = [_incoming(each, key=each.request_id.encode()) for each in outcomes]
            lane.serve([*records, _incoming(an_outcome(), key=b"foreign")], Group(broker))
            lane.expire([_incoming(a_classified(a_request(request_id="late", deadline_ms=5)), key=b"late")])
        yield f"ledger writes {form}", _committed(broker)
        yield f"ledger opens {form}: transactional ids", [_named(name) for name in sorted(broker.epochs)]


def _committed(broker: Broker) -> list[Outgoing]:
    return [
        Outgoing(topic=topic, key=each.key, value=each.value, headers=dict(each.headers), partition=partition)
        for (topic, partition), log in sorted(broker.logs.items())
        for each in log
        if each.is_committed
    ]


def _named(name: str) -> Outgoing:
    return Outgoing(topic="", key=name.encode(), value=None)


def _planner() -> Done:
    office = Office().receive("w-1", variant="light").receive("w-2", variant="heavy").step()
    yield "planner publishes a plan", office.records


def _letters() -> Done:
    record, error = _incoming(a_job(), topic="jobs.light.v1", offset=12), ValueError("no such colour")
    letter = fitted_dead_letter(record, error=error, role="worker", request_id="r-1")
    yield "a dead letter", [letter]
    yield (
        "a dead letter that is cut",
        [_cut(fitted_dead_letter(record, error=error, role="worker", request_id="r-1", most=600))],
    )
    lies = Incoming(
        topic=topics.DLQ, partition=0, offset=1, timestamp_ms=NOW_MS, key=letter.key, value=letter.value,
        headers=letter.headers,
    )  # fmt: skip
    yield "a letter sent again", [letters.redrive_record(letters.dead_letter_of(lies), {})]
    yield (
        "a letter sent again, its request having ended",
        [letters.redrive_record(letters.dead_letter_of(lies), {"r-1": "FAILED"})],
    )
    yield "a role refuses a record", refused(record, an_outcome(), error, NOW_MS)
    yield "an event", [event_record("r-1", "escalated", "discriminator", NOW_MS, to="heavy")]
    yield "a job for nobody", [job_record(a_job(), None, CAUSE, "router", NOW_MS)]
    yield "an outcome", [outcome_record(an_outcome(), CAUSE, NOW_MS)]
    image = outgoing(
        topics.IMAGES, an_image(), request_id="r-1", cause={}, role="worker", now_ms=NOW_MS, facts={"worker": "w-1"}
    )
    yield "an image without a cause", [image]


def _cut(letter: Outgoing) -> Outgoing:
    """Replace the value, which is only the beginning of a message, by its length."""
    return dataclasses.replace(letter, value=b"%d bytes" % len(letter.value or b""))
