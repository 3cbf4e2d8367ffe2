"""The ledger on the real broker: one result a request, whoever owns the partition."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from agents.ledger.partition import LedgerPartition
from agents.runtime.assembly import ledger_of
from schemas.messages import Outcome, Result, Status
from schemas.record import Incoming, Outgoing
from schemas.topics import CLASSIFIED, DLQ, OUTCOMES, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.codec.headers import DEADLINE
from streams.kafka.clients import client_config, topic_name
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.builders import a_classified, a_request, an_outcome
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

PARTITION = 1


class Books:
    """What a reader of committed transactions finds, and the ledger's group."""

    def __init__(self, settings: Settings) -> None:
        create_topics(settings)
        self.settings = settings
        self.group = Consumer({**client_config(settings), "group.id": f"{settings.kafka.prefix}.ledger"})
        self.results: list[Incoming] = []
        self.dead: list[Incoming] = []
        self._follower = TopicTailer(settings, [RESULTS, DLQ], self._receive).start()

    def _receive(self, record: Incoming) -> None:
        (self.results if record.topic == RESULTS else self.dead).append(record)

    def lane(self) -> LedgerPartition:
        return LedgerPartition(self.settings, PARTITION)

    def said(self) -> list[Result]:
        return [decode(record.value, Result) for record in self.results]

    def committed(self) -> int:
        (found,) = self.group.committed(
            [TopicPartition(topic_name(self.settings, OUTCOMES), PARTITION)], timeout=PATIENCE_S
        )
        return int(found.offset)

    def close(self) -> None:
        self._follower.close()
        self.group.close()


@pytest.fixture
def books(settings: Settings) -> Iterator[Books]:
    books = Books(settings)
    yield books
    books.close()


def outcome(request_id: str, offset: int, **changes: object) -> Incoming:
    return raw(encode(an_outcome(request_id=request_id, **changes)), offset, request_id)


def raw(value: bytes, offset: int, key: str = "k") -> Incoming:
    return Incoming(
        topic=OUTCOMES, partition=PARTITION, offset=offset, timestamp_ms=now_ms(), key=key.encode(), value=value
    )  # fmt: skip


def test_a_result_and_the_input_offset_are_there_together(books: Books) -> None:
    books.lane().serve([outcome("r-1", 4, status=Status.REJECTED), outcome("r-2", 5)], books.group)
    poll_until(lambda: len(books.results) == 2, "both results")
    assert [(r.request_id, r.status) for r in books.said()] == [("r-1", Status.REJECTED), ("r-2", Status.FAILED)]
    assert {record.partition for record in books.results} == {PARTITION}
    poll_until(lambda: books.committed() == 6, "the commit, which is not waited for")


def test_the_first_of_several_outcomes_counts(books: Books) -> None:
    lane = books.lane()
    lane.serve([outcome("r-1", 0, reason="first"), outcome("r-1", 1, reason="second")], books.group)
    lane.serve([outcome("r-1", 2, reason="third"), outcome("end", 3)], books.group)
    poll_until(lambda: len(books.results) == 2, "the end")
    assert [r.reason for r in books.said()] == ["first", "test"]


def test_a_former_owner_cannot_commit(books: Books) -> None:
    former = books.lane()
    former.serve([outcome("r-1", 0)], books.group)
    owner = books.lane()
    with pytest.raises(KafkaException) as refused:
        former.serve([outcome("r-2", 1, reason="former")], books.group)
    assert refused.value.args[0].fatal()
    owner.serve([outcome("r-2", 1, reason="owner")], books.group)
    poll_until(lambda: len(books.results) == 2, "both results")
    assert [(r.request_id, r.reason) for r in books.said()] == [("r-1", "test"), ("r-2", "owner")]
    poll_until(lambda: books.committed() == 2, "the commit, which is not waited for")


def test_what_a_dead_owner_left_open_is_aborted_and_served_by_the_next(books: Books) -> None:
    dead = Producer(
        {**client_config(books.settings), "transactional.id": f"{books.settings.kafka.prefix}.ledger.{PARTITION}"}
    )
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(topic_name(books.settings, RESULTS), b"half", b"r-1", partition=PARTITION)
    dead.flush(30)
    books.lane().serve([outcome("r-1", 0)], books.group)
    poll_until(lambda: books.results, "the result")
    assert [r.request_id for r in books.said()] == ["r-1"]


def test_a_request_that_ended_before_a_restart_does_not_end_again(books: Books) -> None:
    books.lane().serve([outcome("r-1", 0), outcome("r-2", 1)], books.group)
    books.lane().serve([outcome("r-2", 1), outcome("r-3", 2)], books.group)
    poll_until(lambda: len(books.results) == 3, "three results")
    assert [r.request_id for r in books.said()] == ["r-1", "r-2", "r-3"]


@pytest.mark.parametrize(
    ("poison", "key"),
    [(b"\0poison", "k"), (b"[" * 100_000, "k"), (b"x" * 1_040_000, "k"), (b"x" * 600_000, "k" * 400_000)],
    ids=["bytes", "nested", "megabyte", "long-key"],
)
def test_a_poison_outcome_is_kept_and_the_next_is_served(books: Books, poison: bytes, key: str) -> None:
    books.lane().serve([raw(poison, 0, key), outcome("r-1", 1)], books.group)
    poll_until(lambda: books.results and books.dead, "the result and the dead letter")
    assert [r.request_id for r in books.said()] == ["r-1"]
    assert [r.headers["pochade_error_role"] for r in books.dead] == [b"ledger"]
    assert poison.startswith(books.dead[0].value or b"-")
    poll_until(lambda: books.committed() == 2, "the commit, which is not waited for")


@pytest.mark.parametrize("what", ["a time out of range", "a prompt that no topic takes"])
def test_an_outcome_of_which_no_result_can_be_made_ends_its_request_as_failed(books: Books, what: str) -> None:
    bad, ended_ms = (a_request(), -(2**63)) if "time" in what else (a_request(prompt="x" * 995_000), 5)
    said = an_outcome(status=Status.COMPLETED, request=bad, ended_ms=ended_ms)
    books.lane().serve([raw(encode(said), 0, "r-1"), outcome("r-2", 1)], books.group)
    poll_until(lambda: len(books.results) == 2 and books.dead, "both results and the dead letter")
    assert [(r.request_id, r.status) for r in books.said()] == [("r-1", Status.FAILED), ("r-2", Status.FAILED)]
    assert "makes no result" in books.said()[0].reason
    assert encode(said).startswith(books.dead[0].value or b"-")


def test_two_ledgers_share_the_work_and_one_goes_on_alone(books: Books) -> None:
    producer = KafkaRecordProducer(books.settings)
    stops = [threading.Event(), threading.Event()]
    ids = [f"r-{n}" for n in range(200)]

    def write(some: list[str]) -> None:
        outcomes: list[Outcome] = [an_outcome(request_id=name) for name in some for _ in range(2)]
        send_all(producer, [Outgoing(topic=OUTCOMES, key=o.request_id.encode(), value=encode(o)) for o in outcomes], 30)

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(ledger_of(books.settings, producer).run, stop) for stop in stops]
        try:
            write(ids[:100])
            poll_until(lambda: len(books.results) >= 100, "the first half")
            stops[0].set()
            write(ids[100:])
            poll_until(lambda: len(books.results) >= 200, "the second half")
            write(["end"])
            poll_until(lambda: len(books.results) >= 201, "the end")
        finally:
            for stop in stops:
                stop.set()
            producer.close()
        assert [future.result(PATIENCE_S) for future in running] == [None, None]
    assert sorted(r.request_id for r in books.said()) == sorted([*ids, "end"])


def test_what_ended_in_time_while_no_ledger_ran_is_completed_and_not_expired(books: Books) -> None:
    """More outcomes wait than are taken at once, and all their requests are overdue when the ledger comes back."""
    producer, stop = KafkaRecordProducer(books.settings), threading.Event()
    count, deadline_ms = 3000, now_ms() - 60_000
    classified, outcomes = list[Outgoing](), list[Outgoing]()
    for number in range(count):
        request = a_request(request_id=f"late-{number}", deadline_ms=deadline_ms)
        key = request.request_id.encode()
        headers = {DEADLINE: str(deadline_ms).encode()}
        classified.append(Outgoing(topic=CLASSIFIED, key=key, value=encode(a_classified(request)), headers=headers))
        said = an_outcome(request_id=request.request_id, request=request, status=Status.REJECTED)
        outcomes.append(Outgoing(topic=OUTCOMES, key=key, value=encode(said)))
    send_all(producer, classified + outcomes)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ledger_of(books.settings, producer).run, stop)
        try:
            poll_until(lambda: len(books.results) >= count, lambda: f"{len(books.results)} of {count} results")
        finally:
            stop.set()
            running.result(PATIENCE_S)
            producer.close()
    assert Counter(result.status for result in books.said()) == {Status.REJECTED: count}
