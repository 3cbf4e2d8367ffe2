"""The dispatcher of a role: what it remembers is what is on its way, and no more."""

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.router.dispatcher import Dispatcher
from schemas.messages import GenerateJob
from schemas.record import Delivered, Outgoing
from streams.clock import now_ms
from streams.codec.avro import decode
from tests.agents.router.placing import on
from tests.agents.stubs import StubFleet
from tests.builders import a_catalog, a_classified, a_heartbeat, a_plan, a_request, owned
from tests.stateful.depth import depth

WORKERS = st.sampled_from(["w-0", "w-1", "w-2"])


class PlacingMachine(RuleBasedStateMachine):
    """The dispatcher of a role on its view of the fleet: what it remembers is what is on its way, and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()
        self.fleet = StubFleet()
        self.waiting: list[tuple[Outgoing, int, str]] = []
        self.ends: dict[int, int] = {}
        self.dispatcher = Dispatcher(a_catalog(), self.fleet, "router")

    @rule(worker=WORKERS, partitions=st.sets(st.integers(0, 3), max_size=2))
    def a_worker_beats(self, worker: str, partitions: set[int]) -> None:
        reported = tuple(owned(p, self.ends.get(p, 0)) for p in sorted(partitions))
        self.fleet.receive(a_heartbeat(worker_id=worker, partitions=reported), now_ms())

    @rule(kind=st.sampled_from(["least-work", "random", "round-robin"]), is_long=st.booleans())
    def a_request_is_placed(self, kind: str, is_long: bool) -> None:
        """One that is too long for any topic raises, and is not remembered."""
        name = f"r-{next(self.numbers)}"
        classified = a_classified(a_request(request_id=name, prompt="x" * (995_000 if is_long else 1)))
        plan, before = a_plan(dispatch=kind), len(self.dispatcher._on_their_way)
        if is_long:
            with pytest.raises(Exception, match="990000 bytes"):
                self.dispatcher.send(plan, classified, on("light"), cause={})
            assert len(self.dispatcher._on_their_way) == before
            return
        record = self.dispatcher.send(plan, classified, on("light"), cause={})
        job = decode(record.value, GenerateJob)
        assert (job.worker_id == "") == (record.partition is None)
        if record.partition is not None:
            self.waiting.append((record, record.partition, name))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def one_is_acknowledged(self, data: st.DataObject) -> None:
        record, partition, _ = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        offset = self.ends.get(partition, 0)
        self.ends[partition] = offset + 1
        self.dispatcher.on_delivered(record, Delivered(partition=partition, offset=offset))

    @invariant()
    def what_it_remembers_is_what_is_on_its_way(self) -> None:
        assert len(self.dispatcher._on_their_way) == len(self.waiting)


TestPlacing = PlacingMachine.TestCase
TestPlacing.settings = depth(15)
