"""A worker's driver on stubs, and what it answers."""

from collections.abc import Callable, Container, Sequence
from typing import Any

from agents.engines import Engine, OpenedEngine
from agents.runtime.request_views import PoisonView
from agents.worker.driving import WindowDriver
from agents.worker.jobs import Taken
from agents.worker.reuse import WorkerReuse
from agents.worker.work import WorkerJob, WorkerViews
from planner.catalog.entries import Variant
from planner.serving.dispatch.worker_loads import Load
from planner.serving.generating.window import Refuges
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.placement import Placement
from planner.serving.routing.refuge import RefugeLogic
from planner.serving.routing.soft_deadline import Due
from schemas.messages import Plan
from schemas.record import Outgoing
from streams.store.port import ImageStore
from tests.builders import a_catalog

Loads = Callable[[str, int], Sequence[Load]]


class StubRefuges:
    """Refuges that are as a test has them."""

    def __init__(self, due: Due | None = None, placement: Placement | None = None) -> None:
        self._due, self._placement = due, placement

    def due(self, classified: ClassifiedValues, level: str, routed_ms: float) -> Due:  # noqa: ARG002  the port's names
        return self._due or Due(classified.request.deadline_ms)

    def placement(self, *_asked: object) -> Placement | None:
        return self._placement


class JudgedViews(WorkerViews):
    """Views by which judging takes as long as a test says."""

    fixed_ms = 0.0

    def judged_ms(self, job: WorkerJob) -> float:  # noqa: ARG002  the port's name
        return self.fixed_ms


def a_driver(
    worker_id: str, engine: Engine, variant: Variant, store: ImageStore, ended: Container[str] = frozenset(),
    max_attempts: int = 3, *, judged_ms: float = 0.0, refuges: Refuges | None = None, plan: Plan | None = None,
    reuse: WorkerReuse | None = None, loads: Loads = lambda _variant, _now_ms: (), price_per_hour: float = 0.0,
    **more: Any,
) -> WindowDriver:  # fmt: skip
    """A driver on these stubs; judging takes no time unless it is said."""
    opened = OpenedEngine(engine)
    views = JudgedViews(
        opened, variant, a_catalog(), lambda: plan, ended, PoisonView(), reuse, worker_id, loads,  # type: ignore[arg-type]
        price_per_hour,
    )  # fmt: skip
    views.fixed_ms = judged_ms
    return WindowDriver(worker_id, views, store, refuges or RefugeLogic(a_catalog()), max_attempts, **more)


def answers(driver: WindowDriver, batch: Sequence[Taken]) -> list[Outgoing]:
    """What a driver writes for a batch of jobs that may share a call."""
    written: list[Outgoing] = []
    driver.begin(batch, len(batch))
    driver.run(written.append)
    return written
