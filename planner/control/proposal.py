"""What a policy is and what it returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.catalog.parse import Catalog
from planner.observation.observation import Observation
from schemas.messages import Admission, Cascade, Expected, Route


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A plan before it has a version: everything a policy decides."""

    routes: tuple[Route, ...]
    allocation: dict[str, str]  # worker_id -> variant
    batch: dict[str, int]  # variant -> most jobs at once
    reason: str  # one sentence for operators
    cascades: tuple[Cascade, ...] = ()
    dispatch: str = "least-work"
    expected: Expected | None = None
    memory: dict[str, Any] = field(default_factory=dict)  # JSON values: what the policy needs next time
    strategy: str = "models"
    admission: Admission | None = None  # None: all are let in; no policy's own, `planner.control.shedding` derives it
    weighs_moves: bool = False  # the policy has held what moves cost against what they gain
    is_feasible: bool = True  # all of the demand planned for is served within the SLO


Policy = Callable[[Observation, Catalog, Mapping[str, Any], Mapping[str, float]], Draft]
"""(observation, catalog, memory of the plan before, parameters) -> draft. Pure; never fails for want of workers."""
