"""Places components on workers and tiers: the content of `Plan.residency`. Source: MLoRA 6.1.

    hot    on the device of 3 to 5 workers, chosen by consistent hashing, held for good; with the adapters and controls
           that come with a base (Eq. 5) on the same device, or in host memory where the device is full
    fused  on the device of each worker that has its base there, or in its host memory (MLoRA 6.3.1)
    warm   in host memory of one worker, where the bandit expects it in the coming slot: a worker that has a base which
           it comes with, else the first by consistent hashing
    users  what those who try out variants want again stays where it lies, while there is room (MLoRA 6.3.1)
    cold   nowhere; what a worker's volume holds anyway is listed while it is worth the room (Eq. 3), and never moved

Hashing places the hot, and not what workers hold at the moment: while there is room, a worker that leaves moves the hot
components that it had and no other. The workers are those of one architecture: adapters fit all bases that are placed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from planner.components.component import Component, Kind, Tier, base_of
from planner.components.demand.cold import ColdComponent, select_cold_components
from planner.components.demand.popularity import MIN_REPLICAS, Popularity
from planner.components.hashing import preferred
from planner.components.holdings import Holdings
from planner.components.tiers import Budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementDemand:
    """The demand that placement serves, by component id."""

    requests: Mapping[str, float]  # how often each is asked for, in any unit
    popularity: Mapping[str, Popularity]
    companions: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of a base, the most frequent first (Eq. 5)
    replication: Mapping[str, int] = field(default_factory=dict)  # of the hot; 3 where it is not named
    fused: Sequence[str] = ()  # combinations that are kept fused, the most frequent first
    expected: Sequence[str] = ()  # warm: what the bandit chose for the coming slot, the best first
    returning: Sequence[str] = ()  # what the last users want again, the most probable first
    last_ms: Mapping[str, float] = field(default_factory=dict)  # when each was last asked for; not named: never
    load: float = 0.0  # [0, 1]: busy share of the workers


@dataclass(frozen=True, slots=True)
class Residency:
    """The components that each worker should hold, by the nearest tier; and the hot ones without room."""

    by_worker: Mapping[str, Mapping[str, Tier]]
    unplaced: tuple[str, ...] = ()

    def holders(self, id_: str, at_least: Tier = Tier.DEVICE) -> list[str]:
        """Return the workers that are to hold a component in a tier or nearer, by name."""
        return sorted(w for w, tiers in self.by_worker.items() if tiers.get(id_, Tier.REMOTE) >= at_least)


class Move(NamedTuple):
    """A component that a worker has to load for a residency."""

    worker: str
    id: str
    source: Tier
    target: Tier
    bytes: int


class _Rooms:
    """The free bytes of each worker's tiers, while components are placed."""

    def __init__(self, workers: Mapping[str, Budgets], reserve: Mapping[str, int]) -> None:
        self.free = {
            (worker, tier): budgets.of(tier) - (reserve[worker] if tier is Tier.DEVICE else 0)
            for worker, budgets in workers.items()
            for tier in (Tier.VOLUME, Tier.HOST, Tier.DEVICE)
        }
        self.placed: dict[str, dict[str, Tier]] = {worker: {} for worker in sorted(workers)}

    def place(self, component: Component, worker: str, tier: Tier) -> bool:
        """Place a component, where it fits or is placed already; it lies in no other tier then."""
        if self.placed[worker].get(component.id, Tier.REMOTE) >= tier:
            return True
        if component.bytes > self.free[worker, tier]:
            return False
        self.free[worker, tier] -= component.bytes
        self.placed[worker][component.id] = tier
        return True


def place(
    workers: Mapping[str, Budgets],
    components: Mapping[str, Component],
    demand: PlacementDemand,
    held: Holdings,
    now_ms: float,
) -> Residency:
    """Place the components of one architecture on its workers; equal arguments give an equal residency.

    Room for the largest base that is not hot stays free on each device that can hold it beside another, so that a
    request for it evicts nothing that is placed for good. Components that are not known are passed over.
    """
    hot = _ranked(Popularity.HOT, components, demand)
    of_device = {size: _reserve(size, hot, components, demand) for size in {each.device for each in workers.values()}}
    rooms = _Rooms(workers, {worker: of_device[budgets.device] for worker, budgets in workers.items()})
    unplaced = [each.id for each in hot if each.kind is Kind.BASE and not _place_base(each, rooms, components, demand)]
    for each in hot:
        if each.kind is not Kind.BASE:
            _place_beside_base(each, rooms, demand, Tier.DEVICE, demand.replication.get(each.id, MIN_REPLICAS))
    for id_ in demand.fused:
        _place_fused(components[id_], rooms)
    for id_ in demand.expected:
        if id_ in components:
            _place_beside_base(components[id_], rooms, demand, Tier.HOST, 1)
    for id_ in demand.returning:
        _keep_where_it_lies(components[id_], rooms, held)
    for worker in rooms.placed:
        for id_ in _retained_on_volume(worker, rooms, components, demand, held, now_ms):
            rooms.place(components[id_], worker, Tier.VOLUME)
    return Residency(rooms.placed, tuple(unplaced))


def moves(residency: Residency, held: Holdings, components: Mapping[str, Component]) -> tuple[Move, ...]:
    """Return what workers have to load for a residency, by worker; what they hold beyond it stays where it is."""
    return tuple(
        Move(worker, id_, source, target, components[id_].bytes)
        for worker, tiers in residency.by_worker.items()
        for id_, target in sorted(tiers.items())
        if (source := held.tier_of(worker, id_)) < target
    )


def _ranked(popularity: Popularity, components: Mapping[str, Component], demand: PlacementDemand) -> list[Component]:
    """The known components of a class, the most frequent first."""
    ids = [each for each, found in demand.popularity.items() if found is popularity and each in components]
    return [components[each] for each in sorted(ids, key=lambda each: (-demand.requests.get(each, 0.0), each))]


def _reserve(
    device: int, hot: Sequence[Component], components: Mapping[str, Component], demand: PlacementDemand
) -> int:  # fmt: skip
    """Bytes of a device that stay free for a base that is not hot; 0 where nothing else would fit beside it."""
    others = [
        each.bytes
        for each in components.values()
        if each.kind is Kind.BASE and demand.popularity.get(each.id) is not Popularity.HOT
    ]
    largest_hot = max((each.bytes for each in hot), default=0)
    reserve = max((size for size in others if size + largest_hot <= device), default=0)
    return reserve if demand.requests else 0


def _place_base(base: Component, rooms: _Rooms, components: Mapping[str, Component], demand: PlacementDemand) -> bool:
    """Place a hot base on the devices of the workers that hashing prefers and that have room; False if none has."""
    wanted = demand.replication.get(base.id, MIN_REPLICAS)
    homes: list[str] = []
    for worker in preferred(base.id, rooms.placed):
        if len(homes) < wanted and rooms.place(base, worker, Tier.DEVICE):
            homes.append(worker)
    for worker in homes:
        for id_ in demand.companions.get(base.id, ()):
            if id_ in components and not rooms.place(components[id_], worker, Tier.DEVICE):
                rooms.place(components[id_], worker, Tier.HOST)
    return bool(homes)


def _place_beside_base(component: Component, rooms: _Rooms, demand: PlacementDemand, tier: Tier, wanted: int) -> None:
    """Place a component in a tier of `wanted` workers, those first that have a base which it comes with."""
    bases = {base for base, others in demand.companions.items() if component.id in others}
    order = preferred(component.id, rooms.placed)
    order.sort(key=lambda worker: not bases & rooms.placed[worker].keys())  # stable: hashing decides among equals
    homes = 0
    for worker in order:
        if homes >= wanted:
            return
        homes += rooms.place(component, worker, tier)


def _place_fused(component: Component, rooms: _Rooms) -> None:
    """Place a combination on each worker that has its base on the device, as each may get a request for it."""
    base = base_of(component.id)
    for worker, placed in rooms.placed.items():
        if base is not None and placed.get(base) is Tier.DEVICE and not rooms.place(component, worker, Tier.DEVICE):
            rooms.place(component, worker, Tier.HOST)


def _keep_where_it_lies(component: Component, rooms: _Rooms, held: Holdings) -> None:
    """Keep a component in the nearest tier of memory that holds it and has room, on each worker: nothing is moved."""
    for worker in rooms.placed:
        tiers = held.by_worker.get(worker, {})
        for tier in (Tier.DEVICE, Tier.HOST):
            if component.id in tiers.get(tier, ()) and rooms.place(component, worker, tier):
                break


def _retained_on_volume(
    worker: str,
    rooms: _Rooms,
    components: Mapping[str, Component],
    demand: PlacementDemand,
    held: Holdings,
    now_ms: float,
) -> Iterable[str]:
    """Return the ids of the cold components that a worker retains on its volume, beside those placed there."""
    cold = [
        ColdComponent(
            id_,
            demand.requests.get(id_, 0.0),
            demand.last_ms.get(id_, 0.0),
            components[id_].load_from(Tier.REMOTE) - components[id_].load_from(Tier.VOLUME),
            components[id_].bytes,
        )
        for id_ in sorted(held.by_worker.get(worker, {}).get(Tier.VOLUME, ()))
        if id_ in components
        and id_ not in rooms.placed[worker]
        and components[id_].load_ms.get(Tier.REMOTE) is not None
    ]
    return select_cold_components(cold, rooms.free[worker, Tier.VOLUME], now_ms, demand.load)
