"""A broker that stops and comes back: every role goes on, and requests of before and after end once."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import pytest

from schemas.record import Outgoing
from schemas.topics import EVENTS, PLAN
from streams.broker import address, embedded
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from tests.integration.following import await_reading_on
from tests.integration.pipeline import Pipeline, all_completed, running_pipeline
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker


@pytest.fixture
def settings(new_home: Callable[[], pathlib.Path]) -> Iterator[Settings]:
    home = new_home()
    settings = load({"home": home, "kafka": {"prefix": "restart", "session_timeout_ms": 3000}})
    try:
        embedded.ensure(settings)
        yield settings
    finally:
        embedded.stop(settings)
        assert address.find(settings) is None, f"a broker still runs in {home}"


@pytest.fixture
def pipeline(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with running_pipeline(settings, tmp_path_factory.mktemp("logs")) as pipeline:
        yield pipeline


def test_requests_of_before_and_after_a_restart_of_the_broker_end_once(pipeline: Pipeline) -> None:
    all_completed(pipeline.wait_all(pipeline.submit(10)))
    before = pipeline.submit(10)
    embedded.stop(pipeline.settings)
    embedded.ensure(pipeline.settings)
    pipeline.until(pipeline.is_ready, "all roles back")
    all_completed(pipeline.wait_all([*before, *pipeline.submit(20)]))


def test_what_a_process_follows_reads_on_by_one_client_after_a_restart_of_the_broker(settings: Settings) -> None:
    create_topics(settings)
    producer = KafkaRecordProducer(settings)
    heard: dict[str, list[bytes | None]] = {EVENTS: [], PLAN: []}

    def write(value: bytes) -> None:
        send_all(producer, [Outgoing(topic=topic, key=b"k", value=value) for topic in heard], PATIENCE_S)

    with contextlib.ExitStack() as stack:
        stack.callback(producer.close)
        followers: list[TopicTailer] = []
        for topic, values in heard.items():
            follower = TopicTailer(settings, [topic], lambda record, values=values: values.append(record.value))  # type: ignore[misc]
            stack.callback(follower.start().close)
            follower.wait_caught_up(PATIENCE_S)
            followers.append(follower)
        write(b"before")
        poll_until(lambda: all(values == [b"before"] for values in heard.values()), "the records before")
        await_reading_on(*followers)
        embedded.stop(settings)
        embedded.ensure(settings)
        write(b"after")
        poll_until(lambda: all(values == [b"before", b"after"] for values in heard.values()), "the records after")
