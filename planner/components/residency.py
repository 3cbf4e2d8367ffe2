"""A worker's use of `Plan.residency`: the components that it pins, and those that it loads while it is idle.

The live worker and the simulated one drive the same class. The source, MLoRA 6.1, says what is placed where, and not
how a worker gets there; the rules are ours.
"""

from collections.abc import Container
from typing import Final, NamedTuple, Protocol

from planner.components.component import InvalidComponent, Kind, Tier, kind_of
from planner.components.demand.combinations import parts_of
from schemas.messages import ResidencyPlan

_ORDER: Final = tuple(Kind)  # bases first, as adapters and controls attach to them (MLoRA 6.3.1)


class ComponentTiers(Protocol):
    """Protocol of a worker's tiers; `planner.components.tiers.WorkerTiers` satisfies it."""

    def tier_of(self, id_: str) -> Tier:
        """Return the nearest tier that holds a component; remote where none does."""

    def admits(self, id_: str, tier: Tier, now_ms: float) -> bool:
        """Return whether a component that is loaded ahead would be let into a tier."""


class Load(NamedTuple):
    """A component that an idle worker is to bring to a tier, ahead of any request for it."""

    id: str
    tier: Tier


class ResidencyLogic:
    """Decides for one worker what the plan in force asks of it. Not thread-safe: one owner.

    pinned      each listed component in the tier it is listed for, and in no other: it leaves that tier only when
                nothing else can, and is pinned no more once a plan does not list it
                What is fused from known parts is pinned, too, and never loaded: the first request for it makes it
    next_load   one component at a time, while the worker has no job: of those it lacks the ones for the device first,
                then for host memory, then for the volume; in a tier bases before what attaches to them. One that its
                tier does not admit goes to the nearest that does: requests displaced it, and use what is worth more
    on_refused  a load that found no room, or failed, is not tried again until the plan lists something else for this
                worker: idle workers would move the same bytes in a loop

    What is held in a tier nearer than the listed one is not moved. A component that the worker's catalog does not know,
    or a tier that is none, is passed over and counted in `unknown`: a plan may be newer than the worker.
    """

    def __init__(self, worker_id: str, known: Container[str]) -> None:
        """`known`: ids of the components that the worker can load."""
        self.unknown = 0  # listed for this worker and passed over, since start
        self.pinned: frozenset[tuple[str, Tier]] = frozenset()
        self._worker_id, self._known = worker_id, known
        self._listed: dict[str, str] | None = None  # as the plan has it
        self._loads: list[Load] = []  # in the order in which they are wanted
        self._refused: set[str] = set()

    def follow(self, residency: ResidencyPlan | None) -> bool:
        """Obey the plan in force, None if it pins nothing. Return whether its list for this worker changed."""
        listed = dict(residency.workers.get(self._worker_id, {})) if residency is not None else {}
        if listed == self._listed:
            return False
        self._listed = listed
        self._refused.clear()
        self._loads = sorted(
            (load for item in listed.items() if (load := self._read(*item)) is not None),
            key=lambda load: (-load.tier, _ORDER.index(kind_of(load.id)), load.id),
        )
        self.pinned = frozenset((load.id, load.tier) for load in self._loads)
        return True

    def next_load(self, tiers: ComponentTiers, now_ms: float) -> Load | None:
        """Return the component that an idle worker loads next; None if it has all listed, or no room."""
        for load in self._loads:
            if kind_of(load.id) is Kind.FUSED or load.id in self._refused:
                continue
            for tier in range(load.tier, tiers.tier_of(load.id), -1):
                nearest = Load(load.id, Tier(tier))
                if tiers.admits(load.id, nearest.tier, now_ms):
                    return nearest
        return None

    def on_refused(self, load: Load) -> None:
        """Count out a load that left the component where it was."""
        self._refused.add(load.id)

    def _read(self, id_: str, label: str) -> Load | None:
        try:
            load, parts = Load(id_, Tier[label.upper()]), parts_of(id_)
            kind_of(id_)
        except (KeyError, ValueError, InvalidComponent):
            self.unknown += 1
            return None
        if any(part not in self._known for part in parts):
            self.unknown += 1
            return None
        return load
