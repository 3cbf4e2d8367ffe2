"""A group's offsets have gone, as after a week without a member: what has ended is not done again, what is open is."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient

from agents.worker import resuming
from agents.worker.jobs import JobSource, Taken
from agents.worker.resuming import settle
from schemas import topics
from schemas.record import Outgoing
from schemas.topics import full_name, jobs_topic, worker_group
from streams.clock import now_ms
from streams.kafka import clients
from streams.kafka.consumers.offsets import Unread, unread
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

JOBS = jobs_topic("light", 1)


@pytest.fixture(autouse=True)
def everything_is_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "REMEMBERED_MS", -60_000)


@pytest.fixture
def own(settings: Settings, producer: KafkaRecordProducer) -> Settings:  # noqa: ARG001  makes the topics
    create_topics(settings, ["light"])
    return settings


def ask(producer: KafkaRecordProducer, *names: str, partition: int = 0) -> None:
    send_all(producer, [Outgoing(topic=JOBS.name, key=n.encode(), value=b"job", partition=partition) for n in names])


def end(producer: KafkaRecordProducer, *names: str) -> None:
    send_all(producer, [Outgoing(topic=topics.RESULTS, key=name.encode(), value=b"result") for name in names])


@contextlib.contextmanager
def served(settings: Settings) -> Iterator[Callable[[int], list[Taken]]]:
    with contextlib.closing(JobSource(settings, "light")) as source:

        def take(count: int) -> list[Taken]:
            taken: list[Taken] = []

            def more() -> bool:
                taken.extend(source.take(count - len(taken), 0.1))
                return len(taken) == count

            poll_until(more, lambda: f"{count} jobs, not {len(taken)}")
            source.begin(taken)
            source.commit(taken)
            return taken

        yield take


def names(taken: list[Taken]) -> list[str]:
    return [(each.record.key or b"").decode() for each in taken]


def forget_offsets(settings: Settings) -> None:
    group = worker_group(settings.kafka.prefix, "light")
    client = AdminClient(clients.client_config(settings))
    client.delete_consumer_groups([group])[group].result(PATIENCE_S)


def left(settings: Settings) -> dict[int, Unread]:
    prefix = settings.kafka.prefix
    return unread(settings, full_name(prefix, JOBS.name), worker_group(prefix, "light"))


def test_a_variant_whose_offsets_have_expired_begins_with_what_is_open(
    own: Settings, producer: KafkaRecordProducer
) -> None:
    done = [f"done-{n}" for n in range(20)]
    ask(producer, *done)
    with served(own) as take:
        assert names(take(20)) == done
    end(producer, *done)
    forget_offsets(own)
    ask(producer, "late-1", "done-late", "late-2")
    end(producer, "done-late")
    with served(own) as take:
        taken = take(3)
    assert [(name, each.has_ended) for name, each in zip(names(taken), taken, strict=True)] == [
        ("late-1", False), ("done-late", True), ("late-2", False),
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_where_all_has_ended_nothing_is_read_and_the_group_has_offsets_again(
    own: Settings, producer: KafkaRecordProducer, protocol: str
) -> None:
    kafka = own.kafka.model_copy(update={"group_protocol": protocol})
    own = own.model_copy(update={"kafka": kafka})
    ask(producer, "a", "b", partition=1)
    end(producer, "a", "b")
    assert left(own) == {1: Unread(0, 2)}
    with contextlib.closing(JobSource(own, "light")) as source:
        poll_until(lambda: not left(own) or source.take(1, 0.1), "the group's offsets")
        assert source.take(1, 0.5) == []
        assert source.is_empty()
    assert left(own) == {}


def test_jobs_of_a_variant_that_no_worker_ever_served_are_all_open(
    own: Settings, producer: KafkaRecordProducer
) -> None:
    ask(producer, "a", "b", "c")
    end(producer, "other")
    with served(own) as take:
        taken = take(3)
    assert names(taken) == ["a", "b", "c"]
    assert not any(each.has_ended for each in taken)


@pytest.mark.parametrize(
    ("topic", "prompt"),
    [(topics.CLASSIFIED, b"a classified request"), (topics.PROMPTS, b'{"prompt": "x", "request_id": "%s"}')],
)
def test_a_role_that_was_away_for_a_week_begins_with_what_is_open(
    own: Settings, producer: KafkaRecordProducer, topic: str, prompt: bytes
) -> None:
    group, name = f"{own.kafka.prefix}.role", full_name(own.kafka.prefix, topic)
    for request_id in (b"a", b"b", b"open", b"c"):
        value = prompt % request_id if b"%s" in prompt else prompt
        key = None if b"%s" in prompt else request_id
        send_all(producer, [Outgoing(topic=topic, key=key, value=value, partition=2)])
    end(producer, "a", "b", "c")
    settle(own, topic, group)
    assert unread(own, name, group) == {2: Unread(2, 4)}
    end(producer, "open")
    settle(own, topic, group)  # what is committed stays
    assert unread(own, name, group) == {2: Unread(2, 4)}


def test_a_clock_of_ours_that_is_days_ahead_takes_nothing_open_for_too_old(
    own: Settings, producer: KafkaRecordProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(producer, "open", "done")
    end(producer, "done")
    monkeypatch.setattr(resuming, "now_ms", lambda: now_ms() + 9 * topics.DAY_MS)
    with served(own) as take:
        assert [each.has_ended for each in take(2)] == [False, True]
