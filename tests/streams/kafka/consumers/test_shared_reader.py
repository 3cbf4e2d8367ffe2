# ruff: noqa: ARG002  the client's own names
"""The one client that reads on for all followers of a process, on a scripted log."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from streams.kafka.consumers import consumer_factory, shared_reader
from streams.kafka.consumers.shared_reader import Place, SharedReader, Subscription
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

EVENTS, PLAN = "p.events", "p.plan"
CONFIG = {"bootstrap.servers": "127.0.0.1:1"}


class Log:
    """A client that reads lists of values, and whose log grows and breaks when the test says so."""

    opened: ClassVar[list["Log"]] = []
    values: ClassVar[dict[Place, list[bytes]]] = {}

    def __init__(self, config: dict[str, Any]) -> None:
        self.assigned: list[dict[Place, int]] = []
        self.errors = queue.SimpleQueue[Message]()
        self.is_refusing = False
        self.is_closed = False
        self._positions: dict[Place, int] = {}
        self._lock = threading.Lock()
        self.opened.append(self)

    def assign(self, places: list[TopicPartition]) -> None:
        if self.is_refusing:
            self.is_refusing = False
            raise KafkaException(KafkaError(KafkaError._STATE))
        with self._lock:
            self._positions = {(tp.topic, tp.partition): tp.offset for tp in places}
            self.assigned.append(dict(self._positions))

    def begin_anew(self, place: Place, *values: bytes) -> None:
        """Make the topic anew: its offsets begin at 0."""
        with self._lock:
            self.values[place], self._positions[place] = list(values), 0

    def poll(self, timeout: float) -> Message | None:
        if not self.errors.empty():
            return self.errors.get()
        with self._lock:
            for (topic, partition), offset in self._positions.items():
                if offset < len(self.values[topic, partition]):
                    self._positions[topic, partition] += 1
                    value = self.values[topic, partition][offset]
                    return Message(topic=topic, partition=partition, offset=offset, value=value)
        return None

    def consume(self, most: int, timeout: float) -> list[Message]:
        return []

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(consumer_factory, "Consumer", Log)
    monkeypatch.setattr(Log, "opened", [])
    monkeypatch.setattr(Log, "values", {(EVENTS, 0): [b"a", b"b", b"c"], (PLAN, 0): [b"1", b"2"]})
    yield
    assert not shared_reader._READERS
    assert all(each.is_closed for each in Log.opened)


class Follower:
    """One that keeps what it is given, until it leaves."""

    def __init__(self, begins: dict[Place, int]) -> None:
        self.inbox = queue.SimpleQueue[Message | None]()
        self.heard: list[bytes] = []
        self.subscription = Subscription(begins, self.inbox)
        self.reader = SharedReader.join(CONFIG, self.subscription)

    def hear(self, *values: bytes) -> None:
        """Take what comes, which is just this."""
        for value in values:
            message = self.inbox.get(timeout=PATIENCE_S)
            assert message is not None
            assert message.value() == value

    def leave(self) -> None:
        if self.subscription in self.reader._subscriptions:
            self.reader.leave(self.subscription)
        assert self.inbox.empty(), self.inbox.get()


@pytest.fixture
def follow() -> Iterator[Callable[..., Follower]]:
    all_of_them: list[Follower] = []

    def new(begins: dict[Place, int]) -> Follower:
        all_of_them.append(Follower(begins))
        return all_of_them[-1]

    yield new
    for each in all_of_them:
        each.leave()


def test_followers_share_one_client_which_closes_with_the_last(follow: Callable[..., Follower]) -> None:
    events, plans = follow({(EVENTS, 0): 1}), follow({(PLAN, 0): 0})
    events.hear(b"b", b"c")
    plans.hear(b"1", b"2")
    (client,) = Log.opened
    events.leave()
    poll_until(lambda: client.assigned[-1] == {(PLAN, 0): 2}, "the topic that nobody follows any more is not read")
    assert not client.is_closed
    plans.leave()
    assert client.is_closed


def test_who_follows_a_topic_that_is_read_already_gets_what_it_lacks_and_the_other_nothing_twice(
    follow: Callable[..., Follower],
) -> None:
    first = follow({(EVENTS, 0): 0})
    first.hear(b"a", b"b", b"c")
    behind, ahead = follow({(EVENTS, 0): 1}), follow({(EVENTS, 0): 3})
    behind.hear(b"b", b"c")
    Log.values[EVENTS, 0].append(b"d")
    for each in (first, behind, ahead):
        each.hear(b"d")
    assert len(Log.opened) == 1


def test_who_lets_too_much_wait_is_cut_off_and_goes_on_where_it_stood_and_the_others_get_all(
    follow: Callable[..., Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_reader, "MAX_WAITING", 2)
    frozen = follow({(EVENTS, 0): 0})
    poll_until(lambda: frozen.subscription.is_cut, "it is cut off")
    monkeypatch.setattr(shared_reader, "MAX_WAITING", 100)
    other = follow({(EVENTS, 0): 0})
    Log.values[EVENTS, 0] += [b"d", b"e"]
    other.hear(b"a", b"b", b"c", b"d", b"e")
    frozen.hear(b"a", b"b")
    assert frozen.inbox.get(timeout=PATIENCE_S) is None
    follow({(PLAN, 0): 2})
    assert poll_until(lambda: Log.opened[0].assigned[2:], "it is read") == [{(EVENTS, 0): 5, (PLAN, 0): 2}]
    again = follow(frozen.subscription.positions)
    again.hear(b"c", b"d", b"e")
    other.leave()  # it got nothing twice


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(follow: Callable[..., Follower]) -> None:
    follower, other = follow({(EVENTS, 0): 0}), follow({(PLAN, 0): 0})
    follower.hear(b"a", b"b", b"c")
    other.hear(b"1")  # both are read
    Log.opened[0].begin_anew((EVENTS, 0), b"x", b"y")
    follower.hear(b"x", b"y")
    other.hear(b"2")


def test_an_error_of_a_topic_reaches_its_followers_alone(
    follow: Callable[..., Follower], caplog: pytest.LogCaptureFixture
) -> None:
    events, plans = follow({(EVENTS, 0): 3}), follow({(PLAN, 0): 0})
    poll_until(lambda: Log.opened[0].assigned[-1:] == [{(EVENTS, 0): 3, (PLAN, 0): 0}], "both are read")
    for code, topic in ((KafkaError._TRANSPORT, EVENTS), (KafkaError.TOPIC_AUTHORIZATION_FAILED, EVENTS)):
        Log.opened[0].errors.put(Message(topic=topic, partition=0, error=KafkaError(code)))
    Log.opened[0].errors.put(Message(error=KafkaError(KafkaError._AUTHENTICATION)))
    denied = events.inbox.get(timeout=PATIENCE_S)
    assert denied is not None
    assert denied.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED  # type: ignore[union-attr]
    plans.hear(b"1", b"2")
    poll_until(lambda: "cannot read what this process follows" in caplog.text, "the error of no topic")


def test_a_client_that_refuses_to_begin_is_asked_again(
    follow: Callable[..., Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = follow({(PLAN, 0): 0})
    first.hear(b"1", b"2")
    monkeypatch.setattr(shared_reader, "ERROR_PAUSE_S", 0)
    Log.opened[0].is_refusing = True
    follow({(EVENTS, 0): 2}).hear(b"c")
