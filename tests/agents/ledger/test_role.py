"""The ledger: sessions, the partitions that they open, and what a member of the group waits for before it is ready."""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents.ledger import role as ledger
from agents.ledger.broker_clock import MAX_OFFSET_MS, BrokerClock, ClockOff
from agents.ledger.partition import LedgerPartition
from agents.ledger.role import SPARE_AFTER_S, Ledger, LedgerRules, Membership, Session, act_on, open_partitions
from schemas.record import Incoming
from schemas.topics import DAY_MS, RESULTS
from streams.settings import load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, an_outcome
from tests.memory_kafka import MemoryRecordProducer
from tests.patience import PATIENCE_S, Clock
from tests.stateful.broker import Broker, Group, connected

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
RULES = LedgerRules(grace_ms=2000, most_ahead_ms=3 * DAY_MS, result_format="avro")


def test_partitions_are_opened_together_as_requests_wait_meanwhile() -> None:
    # one after the other took 4 s for four: the first result after a broker's restart came 9 s late
    all_begun = threading.Barrier(4, timeout=PATIENCE_S)

    def open_one(partition: int) -> LedgerPartition:
        all_begun.wait()
        return cast(LedgerPartition, SimpleNamespace(partition=partition))

    opened = open_partitions([0, 1, 2, 3], open_one)
    assert {partition: lane.partition for partition, lane in opened.items()} == {0: 0, 1: 1, 2: 2, 3: 3}


def test_partitions_that_are_handed_over_at_the_end_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    # librdkafka assigns from within `close`, seen with workers: a partition opened there fences its new owner
    class Group:
        def __init__(self, _member: object, _own: object) -> None: ...

        def subscribe(self, _topics: object, on_assign: Callable[..., None], **_callbacks: object) -> None:
            self.gain = on_assign

        def close(self) -> None:
            self.gain(self, [TopicPartition("outcomes", 0)])

    opened: list[list[int]] = []
    monkeypatch.setattr(ledger, "open_member", Group)
    monkeypatch.setattr(Session, "_opened", lambda _self, numbers: opened.append(numbers) or {})
    stopping = threading.Event()
    stopping.set()
    Ledger(SETTINGS, RULES, lambda _group: {}, MemoryRecordProducer())._session(stopping)
    assert opened == []


class BreakingLane(LedgerPartition):
    """The broker goes away in its first transaction."""

    code = 0

    def serve(self, records: Sequence[Incoming], group: Consumer) -> list[str]:
        code, self.code = self.code, 0
        if code:
            raise KafkaException(KafkaError(code))
        return super().serve(records, group)


def served(code: int) -> Broker:
    broker = Broker(now_ms=NOW_MS)
    group, records = (
        cast(Consumer, Group(broker)),
        [a_record(an_outcome(request_id="r"), key=b"r", timestamp_ms=NOW_MS)],
    )
    with connected(broker):
        breaking = BreakingLane(SETTINGS, 0)
        breaking.code = code
        act_on(breaking, lambda lane: lane.serve(records, group))
    return broker


def test_a_transaction_that_a_brokers_death_broke_is_made_again_within_the_session() -> None:
    # a session that begins again waits until the group has missed its former member: seconds after a broker's restart
    broker = served(KafkaError._TIMED_OUT)
    assert [each.key for each in broker.visible(RESULTS)] == [b"r"]
    assert broker.epochs["pochade.ledger.0"] == 2, "a new producer, that fences the one before"


def test_a_ledger_that_was_overtaken_does_not_take_its_partition_back() -> None:
    with pytest.raises(KafkaException):
        served(KafkaError._FENCED)


def test_a_ledger_whose_clock_is_off_serves_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    # nine days ahead it forgot all that had ended, and ended 40 of 40 a second time
    broker, role = Broker(now_ms=NOW_MS), Ledger(SETTINGS, RULES, lambda _group: {}, MemoryRecordProducer())
    with connected(broker):
        for off_ms in (9 * DAY_MS, -MAX_OFFSET_MS - 1):
            clock = BrokerClock(lambda off_ms=off_ms: NOW_MS + off_ms, lambda: 0)  # type: ignore[misc]
            with pytest.raises(ClockOff, match="run NTP"):
                LedgerPartition(SETTINGS, 0, clock=clock)
        LedgerPartition(SETTINGS, 0, clock=BrokerClock(lambda: NOW_MS + MAX_OFFSET_MS, lambda: 0))
    stopping = threading.Event()

    def session(_stopping: threading.Event) -> None:
        stopping.set()
        raise ClockOff("this machine's clock is off")

    monkeypatch.setattr(role, "_session", session)
    role._try_session(stopping)
    assert role.membership.not_ready() == "waits for the broker: this machine's clock is off"


# membership


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def member(clock: Clock) -> Membership:
    return Membership(clock)


def test_it_waits_for_the_broker_then_partitions_then_what_it_must_read(member: Membership) -> None:
    seen = [member.not_ready()]
    member.has(0)
    seen.append(member.not_ready())
    member.reads("the end of results, partition 3")
    seen.append(member.not_ready())
    member.has(1)
    assert seen == ["waits for the broker", "waits for partitions", "waits for the end of results, partition 3"]
    assert member.not_ready() == ""


def test_a_spare_member_is_ready_after_a_while_so_that_a_rollout_does_not_hang(
    member: Membership, clock: Clock
) -> None:
    member.has(0)
    clock.now_s = SPARE_AFTER_S
    assert member.not_ready() == "waits for partitions"
    clock.now_s = SPARE_AFTER_S + 1
    assert member.not_ready() == ""


def test_a_spare_member_that_gains_a_partition_is_not_ready_until_it_has_read(member: Membership, clock: Clock) -> None:
    member.has(0)
    clock.now_s = SPARE_AFTER_S + 1
    member.reads("results")
    assert member.not_ready() == "waits for results"


def test_a_broken_session_is_not_ready(member: Membership) -> None:
    member.has(2)
    member.leaves()
    assert member.not_ready() == "waits for the broker"
