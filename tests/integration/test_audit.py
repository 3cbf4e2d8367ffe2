"""An audit of topics on the real broker."""

import dataclasses

import pytest

from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import expired
from replay.verify.audit.figures import verdict
from replay.verify.audit.reading import audit
from schemas.messages import Result
from schemas.record import Outgoing
from schemas.topics import PROMPTS, RESULTS
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.settings import Settings
from tests.builders import a_classified, a_request
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

DAY_MS = 24 * 60 * 60 * 1000


def an_end(name: str, created_ms: int) -> Result:
    """As a ledger ends what nobody ended by its deadline."""
    classified = a_classified(a_request(request_id=name))
    result = result_of(expired(classified, reason="late", by="ledger", now_ms=now_ms()))
    return dataclasses.replace(result, created_ms=created_ms)


def write(producer: KafkaRecordProducer, *results: Result) -> None:
    records = [Outgoing(topic=RESULTS, key=r.request_id.encode(), value=encode(r)) for r in results]
    send_all(producer, records, 30)


def test_a_late_second_result_is_found_though_the_first_lies_before_the_time_audited(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    long_ago = now_ms() - 10 * DAY_MS
    write(producer, an_end("old", long_ago), an_end("once", long_ago))
    written_ms = now_ms()
    poll_until(lambda: now_ms() > written_ms + 1, "a millisecond")  # by which the broker's clock distinguishes both
    since_ms = now_ms()
    request = a_request(request_id="new")
    send_all(producer, [Outgoing(topic=PROMPTS, key=b"new", value=encode(request))], 30)
    write(producer, an_end("old", long_ago), an_end("new", now_ms()))
    found = audit(settings, since_ms=since_ms, asked=["gone"], with_images=False).figures
    assert (found.accepted, found.doubled, found.lost) == (2, {"old": 1}, ("gone",))
    assert "1 results came beyond a request's first (old)" in (verdict(found) or "")


def test_each_record_of_prompts_is_a_request_or_repeats_one(settings: Settings, producer: KafkaRecordProducer) -> None:
    prompt = Outgoing(topic=PROMPTS, key=b"user-42", value=b'{"prompt": "a red heart"}')
    requests = [a_request(request_id="one", prompt=each) for each in ("a", "a", "b")]
    named = [Outgoing(topic=PROMPTS, key=b"one", value=encode(each)) for each in requests]
    *_, first, _, _ = [producer.send(record).result(PATIENCE_S) for record in (prompt, prompt, *named)]
    write(producer, an_end("one", now_ms()))
    found = audit(settings, with_images=False).figures
    assert (found.accepted, found.records, found.repetitions) == (3, 5, 2)
    assert (found.open, found.lost) == (2, ()), "no classifier has committed anything"
    assert found.differing == (f"one at {PROMPTS} {first.partition}@{first.offset}",)
