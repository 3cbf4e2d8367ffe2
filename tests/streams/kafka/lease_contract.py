"""What every `Lease` keeps: run on the shipped fake always, on the real broker in integration."""

from collections.abc import Callable

import pytest

from schemas.record import Outgoing
from schemas.topics import PLAN
from streams.kafka.transactions.lease import Lease, LeaseLost

NewLease = Callable[[], Lease]
Committed = Callable[[int], list[bytes | None]]  # how many to wait for -> the values that readers of PLAN see
Soon = Callable[[Callable[[], bool]], object]  # fails unless the condition holds soon


def a_plan_record(value: bytes) -> Outgoing:
    return Outgoing(topic=PLAN, key=b"pipeline", value=value)


class LeaseContract:
    """Subclasses give the fixtures `new_lease` (several, of one pipeline) and `committed`."""

    def test_the_newer_holder_writes_and_the_older_is_refused(self, new_lease: NewLease, committed: Committed) -> None:
        older, newer = new_lease(), new_lease()
        older.take()
        older.write([a_plan_record(b"1")], 1000)
        newer.take()
        with pytest.raises(LeaseLost, match="a newer planner leads"):
            older.write([a_plan_record(b"fenced")], 2000)
        newer.write([a_plan_record(b"2")], 3000)
        assert committed(2) == [b"1", b"2"]

    def test_one_that_never_took_the_lease_cannot_write(self, new_lease: NewLease) -> None:
        with pytest.raises(LeaseLost):
            new_lease().write([], 1000)

    def test_one_that_was_fenced_may_take_it_again(self, new_lease: NewLease, committed: Committed) -> None:
        first, second = new_lease(), new_lease()
        first.take()
        second.take()
        with pytest.raises(LeaseLost):
            first.write([], 1000)
        first.take()
        first.write([a_plan_record(b"1")], 2000)
        with pytest.raises(LeaseLost):
            second.write([], 3000)
        assert committed(1) == [b"1"]

    def test_everybody_soon_sees_the_newest_beat(self, new_lease: NewLease, soon: Soon) -> None:
        holder, other = new_lease(), new_lease()
        assert other.last_beat() == 0
        holder.take()
        for beat in (1000, 2000, 0):
            holder.write([], beat)
            soon(lambda beat=beat: other.last_beat() == beat)  # type: ignore[misc]
