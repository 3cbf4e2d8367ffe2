"""The plan view: versions only rise, and whoever has read all obeys the same plan, the newest of those that lead."""

import contextlib
from collections.abc import Callable
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents import views
from agents.planning.leadership import Leadership
from agents.views import PlanView
from planner.draft import Draft
from planner.plans import check, publish
from schemas.errors import PochadeError
from schemas.messages import Pin, Plan, Route
from schemas.record import Incoming, Outgoing
from schemas.topics import PIN_KEY, PLAN_KEY
from streams.codec import decode, encode
from streams.memory import LeaseBoard, MemoryLease
from streams.settings import load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, a_catalog, a_plan
from tests.malformed import EXAMPLES, spoilt
from tests.models.depth import depth

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
SILENT_MS = 3000
PLANNERS, READERS = 2, 3


class Idle:
    """A follower that reads nothing: the machine hands records over."""

    def __init__(self, _settings: object, _topics: object, on_record: Callable[[Incoming], None]) -> None:
        self.on_record = on_record


def a_view() -> PlanView:
    with mock.patch.object(views, "Follower", Idle):
        return PlanView(SETTINGS, "model")


class Planner:
    """One life of a planner: what it has read, and its part in leading."""

    def __init__(self, board: LeaseBoard) -> None:
        self.view, self.read = a_view(), 0
        self.leadership = Leadership(MemoryLease(board), SILENT_MS, lambda: board.beat + 1)
        self.was_leading = False


class Reader:
    """One life of a role: what it was given of the topic so far."""

    def __init__(self) -> None:
        self.view, self.read = a_view(), 0
        self.given: list[Outgoing] = []

    def of_key(self, key: str) -> list[Outgoing]:
        return [record for record in self.given if record.key == key.encode()]


class PlanMachine(RuleBasedStateMachine):
    """`board` is the control topic with its lease; planners and readers are lives that a kill ends."""

    def __init__(self) -> None:
        super().__init__()
        self.board, self.now_ms = LeaseBoard(), 1_000_000
        self.planners = [Planner(self.board) for _ in range(PLANNERS)]
        self.readers = [Reader() for _ in range(READERS)]
        self.first = 0  # records before it are gone: the topic is compacted

    def records(self, begin: int = 0) -> list[tuple[int, Outgoing]]:
        """What a reader that begins there is given: of what is compacted, the last of each key."""
        newest = {record.key: at for at, record in enumerate(self.board.records[: self.first])}
        return [
            (at, record)
            for at, record in enumerate(self.board.records)
            if at >= begin and (at >= self.first or newest[record.key] == at)
        ]

    def hand_over(self, view: PlanView, record: Outgoing) -> None:
        with contextlib.suppress(PochadeError):  # as a follower: the next is read
            view.on_record(a_record(value=record.value, key=record.key))

    # ------------------------------------------------------------------ planners

    @rule(which=st.integers(0, PLANNERS - 1), share=st.sampled_from([0.0, 0.25, 1.0]), lags=st.booleans())
    def a_planner_steps(self, which: int, share: float, lags: bool) -> None:
        """Leads if it may, and publishes; `lags`: its own view has not read on of late."""
        planner = self.planners[which]
        if not lags:
            self.planner_reads(which)
        leads = planner.leadership.leads(self.now_ms)
        if leads and not planner.was_leading:
            self.planner_reads(which)  # catches up
        if leads:
            draft = Draft(
                routes=(Route(levels={"light": 1 - share, "heavy": share}),), allocation={}, batch={}, reason="model"
            )  # fmt: skip
            plan = publish(draft, planner.view.plan, f"planner-{which}", NOW_MS)
            check(plan, a_catalog())
            if planner.leadership.write([Outgoing(topic="plan.v1", key=PLAN_KEY.encode(), value=encode(plan))]):
                planner.view.obey(plan)
        planner.was_leading = planner.leadership.is_leading

    @rule(which=st.integers(0, PLANNERS - 1))
    def planner_reads(self, which: int) -> None:
        planner = self.planners[which]
        for at, record in self.records(planner.read):
            self.hand_over(planner.view, record)
            planner.read = at + 1

    @rule(which=st.integers(0, PLANNERS - 1))
    def a_planner_is_killed(self, which: int) -> None:
        """Between any two of its steps: also after it wrote and before it read so."""
        self.planners[which] = Planner(self.board)

    @rule(which=st.integers(0, PLANNERS - 1))
    def a_planner_resigns(self, which: int) -> None:
        self.planners[which].leadership.resign()

    @rule(ms=st.sampled_from([200, 1000, SILENT_MS + 1]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    # ------------------------------------------------------------------ others who write

    @rule(policy=st.sampled_from(["", "argus", "hadis"]), version=st.sampled_from([0, 0, 1]), is_gone=st.booleans())
    def an_operator_orders(self, policy: str, version: int, is_gone: bool) -> None:
        pin = Pin(policy=policy, plan_version=version)
        value = None if is_gone else encode(pin)
        self.board.records.append(Outgoing(topic="plan.v1", key=PIN_KEY.encode(), value=value))

    @rule(value=spoilt(EXAMPLES[Pin]), key=st.sampled_from([b"other", b"", b"pipeline.pinn"]))
    def somebody_writes_under_another_key(self, value: bytes | None, key: bytes) -> None:
        self.board.records.append(Outgoing(topic="plan.v1", key=key, value=value))

    @precondition(lambda self: self.first < len(self.board.records))
    @rule(data=st.data())
    def the_topic_is_compacted(self, data: st.DataObject) -> None:
        self.first = data.draw(st.integers(self.first, len(self.board.records)))

    # ------------------------------------------------------------------ readers

    @rule(which=st.integers(0, READERS - 1), most=st.integers(1, 4))
    def a_reader_reads_on(self, which: int, most: int) -> None:
        reader = self.readers[which]
        for at, record in self.records(reader.read)[:most]:
            self.hand_over(reader.view, record)
            reader.given.append(record)
            reader.read = at + 1

    @rule(which=st.integers(0, READERS - 1))
    def a_reader_is_killed(self, which: int) -> None:
        self.readers[which] = Reader()

    @rule(which=st.integers(0, READERS - 1), back=st.integers(0, 5), version=st.integers(0, 3))
    def a_reader_meets_what_a_fenced_planner_wrote(self, which: int, back: int, version: int) -> None:
        """A version not above its own, or a record it has read before: nothing changes."""
        reader = self.readers[which]
        view, before = reader.view, reader.view.plan
        for old in reader.of_key(PLAN_KEY)[-1 - back :]:
            self.hand_over(view, old)
        if before is not None:
            stale = a_plan(version=max(0, before.version - version), policy="fenced")
            self.hand_over(view, Outgoing(topic="plan.v1", key=PLAN_KEY.encode(), value=encode(stale)))
        assert view.plan == before

    # ------------------------------------------------------------------ what is promised

    def plans(self) -> list[Plan]:
        return [decode(record.value, Plan) for record in self.board.records if record.key == PLAN_KEY.encode()]

    @invariant()
    def versions_rise_by_one(self) -> None:
        assert [plan.version for plan in self.plans()] == list(range(1, len(self.plans()) + 1))

    @invariant()
    def a_reader_obeys_the_newest_that_it_has_read(self) -> None:
        for reader in self.readers:
            known = [decode(record.value, Plan) for record in reader.of_key(PLAN_KEY)]
            assert reader.view.plan == (known[-1] if known else None)
            assert reader.view.has_plan.is_set() == bool(known)

    @invariant()
    def the_last_order_holds(self) -> None:
        for reader in self.readers:
            orders = [record.value for record in reader.of_key(PIN_KEY)]
            pin = decode(orders[-1], Pin) if orders and orders[-1] else None
            assert reader.view.pin == (pin if pin and (pin.policy or pin.plan_version) else None)

    @invariant()
    def one_planner_at_most_can_write(self) -> None:
        able = [planner for planner in self.planners if planner.leadership._lease._epoch == self.board.epoch]  # type: ignore[attr-defined]
        assert len(able) <= 1

    def teardown(self) -> None:
        """Who has read all agrees."""
        for which in range(READERS):
            self.a_reader_reads_on(which, 10**6)
        self.readers.append(Reader())
        self.a_reader_reads_on(READERS, 10**6)
        assert len({repr(reader.view.plan) for reader in self.readers}) == 1
        assert len({repr(reader.view.pin) for reader in self.readers}) == 1


TestPlans = PlanMachine.TestCase
TestPlans.settings = depth(40)
