"""A planner on stubs, for tests that tick it by hand."""

from agents.planner.loop import PlannerLoop
from planner.catalog.model import Catalog
from schemas.messages import Plan
from schemas.record import Outgoing
from schemas.topics import MEMORY_KEY, PLAN_KEY
from streams.settings import Settings, load
from tests.agents.stubs import StubFleet, StubPlans, read
from tests.builders import NOW_MS, a_catalog, a_heartbeat
from tests.memory_kafka import LeaseBoard, MemoryLease

PERIOD_MS = 5000


class Office:
    """A planner that leads; `plans` are those it has written."""

    def __init__(self, policy: str = "random-split", board: LeaseBoard | None = None, **planner: object) -> None:
        self.board = board or LeaseBoard()
        self.fleet, self.view = StubFleet(), StubPlans()
        self.settings: Settings = load({"planner": {"policy": policy, "period_ms": PERIOD_MS, **planner}})
        self.catalog: Catalog = a_catalog()
        self.loop = PlannerLoop(self.settings, self.catalog, MemoryLease(self.board), self.view, self.fleet)

    def receive(self, worker_id: str, at_ms: int = NOW_MS, **changes: object) -> "Office":
        self.fleet.receive(a_heartbeat(**{"worker_id": worker_id, "plan_version": 0, **changes}), at_ms)
        return self

    def hear_all(self, after_ms: int) -> "Office":
        """Let every worker seen so far send a heartbeat again, `after_ms` after the first moment."""
        for seen in list(self.fleet.heartbeats.values()):
            self.fleet.receive(seen.heartbeat, NOW_MS + after_ms)
        return self

    def step(self, after_ms: int = 0) -> "Office":
        """One step, both clocks so long after the first moment."""
        self.loop.step(1_000_000 + after_ms, NOW_MS + after_ms)
        return self

    @property
    def records(self) -> list[Outgoing]:
        return self.board.records

    @property
    def plans(self) -> list[Plan]:
        return [read(record, Plan) for record in self.board.records if record.key == PLAN_KEY.encode()]

    @property
    def remembered(self) -> list[Plan]:
        """What was written beside the plans, for the next planner."""
        return [read(record, Plan) for record in self.board.records if record.key == MEMORY_KEY.encode()]
