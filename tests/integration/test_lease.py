"""The real lease keeps the lease's contract on the real broker."""

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from schemas.topics import PLAN
from streams.kafka.clients import client_config, topic_name
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.topics import create_topics
from streams.kafka.transactions.lease import KafkaLease, LeaseLost
from streams.settings import Settings
from tests.integration.waiting import poll_until
from tests.streams.kafka.lease_contract import Committed, LeaseContract, NewLease, Soon, a_plan_record

pytestmark = pytest.mark.broker


class TestKafkaLease(LeaseContract):
    @pytest.fixture
    def new_lease(self, settings: Settings) -> Iterator[NewLease]:
        create_topics(settings)
        with contextlib.ExitStack() as stack:

            def new() -> KafkaLease:
                lease = KafkaLease(settings)
                stack.callback(lease.close)
                return lease

            yield new

    @pytest.fixture
    def committed(self, settings: Settings, new_lease: NewLease) -> Iterator[Committed]:
        assert new_lease  # which has created the topics
        found: list[bytes | None] = []
        follower = TopicTailer(settings, [PLAN], lambda record: found.append(record.value)).start()

        def read(count: int) -> list[bytes | None]:
            poll_until(lambda: len(found) >= count, f"{count} records")
            return found

        yield read
        follower.close()

    @pytest.fixture
    def soon(self) -> Soon:
        return lambda condition: poll_until(condition, "a beat to be seen")

    def test_what_a_dead_holder_left_open_is_never_seen_and_hinders_nobody(
        self, settings: Settings, new_lease: NewLease, committed: Committed
    ) -> None:
        dead = Producer({**client_config(settings), "transactional.id": f"{settings.kafka.prefix}.planner"})
        dead.init_transactions(30)
        dead.begin_transaction()
        dead.produce(topic_name(settings, PLAN), b"half", b"pipeline")
        dead.flush(30)
        holder = new_lease()
        assert holder.last_beat() == 0
        holder.take()
        holder.write([a_plan_record(b"1")], 1000)
        assert committed(1) == [b"1"]
        with pytest.raises(LeaseLost):
            new_lease().write([], 1)
