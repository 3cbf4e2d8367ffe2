"""The shipped fake keeps the lease's contract; and what the real one says where no broker is."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tenacity import wait_none

from schemas.errors import PochadeError
from streams.kafka import errors
from streams.kafka.transactions import lease as module
from streams.kafka.transactions.lease import KafkaLease
from streams.settings import load
from tests.memory_kafka import LeaseBoard, MemoryLease
from tests.streams.kafka.lease_contract import Committed, LeaseContract, NewLease, Soon


class TestMemoryLease(LeaseContract):
    @pytest.fixture
    def board(self) -> LeaseBoard:
        return LeaseBoard()

    @pytest.fixture
    def new_lease(self, board: LeaseBoard) -> NewLease:
        return lambda: MemoryLease(board)

    @pytest.fixture
    def committed(self, board: LeaseBoard) -> Committed:
        return lambda _count: [record.value for record in board.records]

    @pytest.fixture
    def soon(self) -> Soon:
        def at_once(condition: Callable[[], bool]) -> None:
            assert condition()

        return at_once


def test_without_a_broker_the_lease_is_neither_taken_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAKE_S", 0.2)
    monkeypatch.setattr(module, "TRANSACTION_S", 1)
    lease = KafkaLease(load({"kafka": {"bootstrap_servers": "127.0.0.1:1", "properties": {"log_level": "0"}}}))
    with pytest.raises(PochadeError, match="cannot take the planner's lease"):
        lease.take()
    with pytest.raises(PochadeError, match="cannot read the beats"):
        lease.last_beat()
    lease.close()


def test_a_coordinator_that_is_being_loaded_is_asked_again_for_the_newest_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    # a broker that has just begun: each such answer ended the planner's role, which began again a second later
    answers: list[int] = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]

    class Group:
        def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:  # noqa: ARG002
            if answers:
                raise KafkaException(KafkaError(answers.pop(0)))
            return [TopicPartition("plan", 0, 1712)]

    monkeypatch.setattr(errors, "RETRY_WAIT", wait_none())
    lease = KafkaLease(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}))
    lease._group = Group()  # type: ignore[assignment]
    assert lease.last_beat() == 1712
