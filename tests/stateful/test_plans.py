"""The plan view: versions only rise, and everyone obeys the newest plan of those that lead that fits its catalog."""

import contextlib

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.planner.leadership import Leadership
from agents.runtime.views import PlanView
from planner.catalog.model import Catalog
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.validity import check
from schemas.errors import InvalidPlan, PochadeError
from schemas.messages import Pin, Plan, Route
from schemas.record import Outgoing
from schemas.topics import PIN_KEY, PLAN_KEY
from streams.codec.avro import decode, encode
from streams.settings import load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, a_catalog, a_plan, a_variant
from tests.malformed import EXAMPLES, spoilt
from tests.memory_kafka import LeaseBoard, MemoryLease
from tests.stateful.depth import depth

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
SILENT_MS = 3000
PLANNERS, READERS = 2, 3
CATALOGS = (a_catalog(), a_catalog(variants=a_catalog().variants | {"middle": a_variant(name="middle")}))
RELEASES = st.sampled_from(CATALOGS)  # a deployment is being upgraded, or back: each life has its own


def a_view(catalog: Catalog) -> PlanView:
    return PlanView("model", catalog)


def fits(plan: Plan, catalog: Catalog) -> bool:
    """Whether it could be obeyed."""
    try:
        check(plan, catalog)
    except InvalidPlan:
        return False
    return True


class Planner:
    """One life of a planner: what it has read, and its part in leading."""

    def __init__(self, board: LeaseBoard, catalog: Catalog) -> None:
        self.catalog, self.view, self.read = catalog, a_view(catalog), 0
        self.leadership = Leadership(MemoryLease(board), SILENT_MS, lambda: board.beat + 1)
        self.was_leading = False


class Reader:
    """One life of a role: what it was given of the topic so far."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog, self.view, self.read = catalog, a_view(catalog), 0
        self.given: list[Outgoing] = []

    def of_key(self, key: str) -> list[Outgoing]:
        return [record for record in self.given if record.key == key.encode()]


class PlanMachine(RuleBasedStateMachine):
    """`board` is the control topic with its lease; planners and readers are lives that a kill ends."""

    def __init__(self) -> None:
        super().__init__()
        self.board, self.now_ms = LeaseBoard(), 1_000_000
        self.planners = [Planner(self.board, CATALOGS[0]) for _ in range(PLANNERS)]
        self.readers = [Reader(CATALOGS[0]) for _ in range(READERS)]
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

    @rule(
        which=st.integers(0, PLANNERS - 1), share=st.sampled_from([0.0, 0.25, 1.0]), lags=st.booleans(),
        is_faulty=st.sampled_from([False] * 5 + [True]),
    )  # fmt: skip
    def a_planner_steps(self, which: int, share: float, lags: bool, is_faulty: bool) -> None:
        """Leads if it may, and publishes; `lags`: its own view has not read on of late; `is_faulty`: of a release
        that does not check what it writes."""
        planner = self.planners[which]
        dear = "middle" if "middle" in planner.catalog.variants else "heavy"
        if not lags:
            self.planner_reads(which)
        leads = planner.leadership.leads(self.now_ms)
        if leads and not planner.was_leading:
            self.planner_reads(which)  # catches up
        if leads:
            draft = PlanProposal(
                routes=(Route(levels={"light": 1 - share, dear: share}),), allocation={},
                batch={"light": 0} if is_faulty else {}, reason="model",
            )  # fmt: skip
            plan = publish(draft, planner.view.plan, f"planner-{which}", NOW_MS, planner.view.newest)
            assert fits(plan, planner.catalog) != is_faulty
            if planner.leadership.write([Outgoing(topic="plan.v1", key=PLAN_KEY.encode(), value=encode(plan))]):
                planner.view.obey(plan)
        planner.was_leading = planner.leadership.is_leading

    @rule(which=st.integers(0, PLANNERS - 1))
    def planner_reads(self, which: int) -> None:
        planner = self.planners[which]
        for at, record in self.records(planner.read):
            self.hand_over(planner.view, record)
            planner.read = at + 1

    @rule(which=st.integers(0, PLANNERS - 1), catalog=RELEASES)
    def a_planner_is_killed(self, which: int, catalog: Catalog) -> None:
        """Between any two of its steps: also after it wrote and before it read so."""
        self.planners[which] = Planner(self.board, catalog)

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

    @rule(which=st.integers(0, READERS - 1), catalog=RELEASES)
    def a_reader_is_killed(self, which: int, catalog: Catalog) -> None:
        self.readers[which] = Reader(catalog)

    @rule(which=st.integers(0, READERS - 1), back=st.integers(0, 5), version=st.integers(0, 3))
    def a_reader_meets_what_a_fenced_planner_wrote(self, which: int, back: int, version: int) -> None:
        """A version not above its own, or a record it has read before: nothing changes."""
        reader = self.readers[which]
        view, before = reader.view, reader.view.plan
        for old in reader.of_key(PLAN_KEY)[-1 - back :]:
            self.hand_over(view, old)
        if view.newest:
            stale = a_plan(version=max(0, view.newest - version), policy="fenced")
            self.hand_over(view, Outgoing(topic="plan.v1", key=PLAN_KEY.encode(), value=encode(stale)))
        assert view.plan == before

    # ------------------------------------------------------------------ what is promised

    def plans(self) -> list[Plan]:
        return [decode(record.value, Plan) for record in self.board.records if record.key == PLAN_KEY.encode()]

    @invariant()
    def versions_rise_by_one(self) -> None:
        assert [plan.version for plan in self.plans()] == list(range(1, len(self.plans()) + 1))

    @invariant()
    def a_reader_obeys_the_newest_valid_one_that_it_has_read(self) -> None:
        for reader in self.readers:
            known = [decode(record.value, Plan) for record in reader.of_key(PLAN_KEY)]
            valid = [plan for plan in known if fits(plan, reader.catalog)]
            assert reader.view.plan == (valid[-1] if valid else None)
            assert reader.view.has_plan.is_set() == bool(valid)
            assert reader.view.newest == (known[-1].version if known else 0)
            assert bool(reader.view.refusal) == (valid[-1:] != known[-1:])

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
        """Who has read all agrees, but for those whose catalog the newest plan does not fit."""
        self.readers += [Reader(catalog) for catalog in CATALOGS]
        for which in range(len(self.readers)):
            self.a_reader_reads_on(which, 10**6)
        plans = self.plans()
        for reader in self.readers:
            if not plans or fits(plans[-1], reader.catalog):
                assert reader.view.plan == (plans[-1] if plans else None)
        assert len({repr(reader.view.pin) for reader in self.readers}) == 1


TestPlans = PlanMachine.TestCase
TestPlans.settings = depth(40)
