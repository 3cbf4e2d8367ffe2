"""The ledger's own expiry: what could not be written is tried again."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from agents.ledger import Ledger
from schemas.record import Incoming
from streams.headers import DEADLINE
from streams.settings import load
from tests.agents.stubs import a_record


class FailingLane:
    """Takes nothing."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def expire(self, overdue: list[Incoming]) -> int:  # noqa: ARG002  the shape of Lane.expire
        raise self._error


@pytest.mark.parametrize("error", [KafkaException(KafkaError(KafkaError._FENCED)), BufferError("queue full")])
def test_an_overdue_request_that_could_not_be_ended_is_still_overdue_in_the_next_session(error: Exception) -> None:
    ledger = Ledger(load({}))
    ledger._open.on_record(a_record(partition=2, headers={DEADLINE: b"100"}))
    with pytest.raises(type(error)):
        ledger._expire({2: FailingLane(error)})
    assert [record.partition for record in ledger._open.overdue(2, 10_000, 0)] == [2]
