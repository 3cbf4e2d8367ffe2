"""The one view of all workers' components: which worker holds which component in which tier. Source: MLoRA 6.

It is read from the newest heartbeat of each worker, so it survives a restart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planner.components.component import Component, Tier

LOCAL = (Tier.DEVICE, Tier.HOST, Tier.VOLUME)


@dataclass(frozen=True, slots=True)
class Holdings:
    """The components of each worker by tier; a worker that is not listed holds nothing."""

    by_worker: Mapping[str, Mapping[Tier, frozenset[str]]] = field(default_factory=dict)

    def tier_of(self, worker: str, id_: str) -> Tier:
        """Return the nearest tier of a worker that holds a component; remote where none does."""
        tiers = self.by_worker.get(worker, {})
        return next((tier for tier in LOCAL if id_ in tiers.get(tier, ())), Tier.REMOTE)

    def holders(self, id_: str, at_least: Tier = Tier.DEVICE) -> list[str]:
        """Return the workers that hold a component in a tier or nearer, by name."""
        return sorted(worker for worker in self.by_worker if self.tier_of(worker, id_) >= at_least)

    def missing_ms(self, worker: str, ids: Iterable[str], components: Mapping[str, Component]) -> float:
        """Return the time in ms for a worker to load, one after the other, what it lacks on the device.

        Raises KeyError for a component that is not known, InvalidComponent for one that cannot be loaded.
        """
        return sum(components[each].load_from(self.tier_of(worker, each)) for each in ids)

    def with_pending(self, worker: str, ids: Iterable[str]) -> "Holdings":
        """Return the view once a worker has loaded the components of jobs that it was sent and has not begun.

        Nothing is taken to be evicted for them.
        """
        tiers = self.by_worker.get(worker, {})
        device = tiers.get(Tier.DEVICE, frozenset()) | frozenset(ids)
        return Holdings({**self.by_worker, worker: {**tiers, Tier.DEVICE: device}})

    def replicas(self, at_least: Tier = Tier.DEVICE) -> dict[str, int]:
        """Return the number of workers that hold each component in a tier or nearer, by id."""
        counts: dict[str, int] = {}
        for tiers in self.by_worker.values():
            for each in frozenset().union(*(ids for tier, ids in tiers.items() if tier >= at_least)):
                counts[each] = counts.get(each, 0) + 1
        return dict(sorted(counts.items()))
