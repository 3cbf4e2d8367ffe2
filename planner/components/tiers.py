"""The components of one worker in its tiers, with budgets in bytes: what is found where, moved, and evicted.

    remote  ->  volume  ->  host  ->  device
                <---- budgets in bytes --->

A component climbs tier by tier, and stays in each that it passed while there is room: it may lie in several at once.
The device takes what a request needs, whatever leaves for it; volume and host let a newcomer in only where it is worth
more than each that would leave, and a component that is larger than a tier passes through it. Source: MLoRA 6.1.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.components.component import Component, InvalidComponent, Tier, base_of, total_bytes
from planner.components.demand.combinations import parts_of
from planner.components.eviction import EvictionCandidate, ReuseEstimate, Score, utility
from schemas.messages import WorkerComponents

LOCAL = (Tier.VOLUME, Tier.HOST, Tier.DEVICE)


class DoesNotFit(InvalidComponent):
    """A request needs more of the device than a worker has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Bytes that components may fill in each tier of one worker."""

    volume: int
    host: int
    device: int

    def of(self, tier: Tier) -> int:
        """Return the budget of a local tier in bytes."""
        return {Tier.VOLUME: self.volume, Tier.HOST: self.host, Tier.DEVICE: self.device}[tier]


@dataclass(slots=True)
class Use:
    """The effect of one request, or one prefetch, on the tiers."""

    found: dict[str, Tier] = field(default_factory=dict)  # the nearest tier that held each component
    load_ms: dict[str, float] = field(default_factory=dict)  # of each that had to be loaded
    moved_bytes: Counter[Tier] = field(default_factory=Counter)  # by the tier that they were moved into
    evicted: list[tuple[str, Tier]] = field(default_factory=list)

    @property
    def serial_ms(self) -> float:
        """Time to load one component after the other."""
        return sum(self.load_ms.values())

    @property
    def overlapped_ms(self) -> float:
        """Time to load all at once, each as fast as alone: the best that asymmetric loading (MLoRA 6.3.1) can reach."""
        return max(self.load_ms.values(), default=0.0)


class WorkerTiers:
    """The tiers of one worker. Not thread-safe: one owner; times are arguments in epoch ms.

    `pinned` components leave only when nothing else can: `Plan.residency` says which. One that left for a request is
    pinned no more in that tier until a request brings it back: loaded ahead at once, it would evict what requests use
    now, which would evict it again. `score` decides who else leaves, and may be replaced. Counters are of the whole
    life.
    """

    def __init__(
        self,
        components: Mapping[str, Component],
        budgets: Budgets,
        reuse: ReuseEstimate,
        score: Score = utility,
    ) -> None:
        self.hits: Counter[Tier] = Counter()  # requested components by the nearest tier that held them
        self.moved_bytes: Counter[Tier] = Counter()  # by the tier that they were moved into
        self.loads = 0  # components that a request had to wait for
        self.pinned: frozenset[tuple[str, Tier]] = frozenset()
        self._components = components
        self._budgets = budgets
        self._reuse = reuse
        self.score = score
        self._held: dict[Tier, dict[str, None]] = {tier: {} for tier in LOCAL}
        self._bytes: Counter[Tier] = Counter()
        self._displaced: set[tuple[str, Tier]] = set()  # pinned, and evicted for a request

    def resize(self, budgets: Budgets) -> None:
        """Replace the budgets. Raises DoesNotFit where a tier holds more than its new one; nothing has changed."""
        for tier in LOCAL:
            if self._bytes[tier] > budgets.of(tier):
                raise DoesNotFit(
                    f"tier {tier.label} holds {self._bytes[tier]} bytes, and is to have {budgets.of(tier)}: evict "
                    "first, or raise the budget"
                )
        self._budgets = budgets

    def resident(self, tier: Tier) -> frozenset[str]:
        """Return the components in a tier."""
        return frozenset(self._held[tier])

    def resident_bytes(self, tier: Tier) -> int:
        """Return the bytes that components fill in a tier: at most its budget."""
        return self._bytes[tier]

    def tier_of(self, id_: str) -> Tier:
        """Return the nearest tier that holds a component; remote where none does."""
        return next((tier for tier in reversed(LOCAL) if id_ in self._held[tier]), Tier.REMOTE)

    def lacking_ms(self, ids: Iterable[str], fused: str = "") -> float:
        """Return the time in ms to load, one after the other, what the device lacks of a request's components.

        `fused`: the combination of its base and adapters, which stands for them where the device has it; "": none.
        Raises KeyError for a component that is not known, InvalidComponent for one that cannot be loaded.
        """
        device = self._held[Tier.DEVICE]
        stands_for = set(parts_of(fused)) if fused and fused in device else ()
        missing = (each for each in ids if each not in device and each not in stands_for)
        return sum(self._components[each].load_from(self.tier_of(each)) for each in missing)

    def report(self) -> WorkerComponents:
        """Return what the worker's heartbeat says of them."""
        return WorkerComponents(
            held={tier.label: tuple(sorted(self._held[tier])) for tier in LOCAL},
            held_bytes={tier.label: self._bytes[tier] for tier in LOCAL},
            budget_bytes={tier.label: self._budgets.of(tier) for tier in LOCAL},
            hits={tier.label: count for tier, count in self.hits.items()},
            moved_bytes={tier.label: count for tier, count in self.moved_bytes.items()},
            loads=self.loads,
        )

    def adopt(self, id_: str, tier: Tier) -> bool:
        """Take note of a component that lies in a tier already, such as on a volume that outlived its worker.

        Nothing is moved or counted. False: it exceeds what the budget leaves free. Raises KeyError.
        """
        size = self._components[id_].bytes
        if id_ not in self._held[tier]:
            if size > self._budgets.of(tier) - self._bytes[tier]:
                return False
            self._held[tier][id_] = None
            self._bytes[tier] += size
        return True

    def use(self, ids: Sequence[str], now_ms: float) -> Use:
        """Bring all components of a request to the device, and count hits and loads.

        Raises:
            DoesNotFit: they are together larger than the device's budget; nothing has changed.
            InvalidComponent: a component cannot be loaded from where it is (a fused one that is held nowhere: use its
                parts, then `add_fused`); nothing has changed.
            KeyError: a component is not known; nothing has changed.
        """
        needed = dict.fromkeys(ids)
        self._require_room(needed)
        use = Use({each: self.tier_of(each) for each in needed})
        costs = {each: self._components[each].load_from(use.found[each]) for each in needed}
        use.load_ms = {each: costs[each] for each in needed if use.found[each] is not Tier.DEVICE}
        for each in needed:
            self._reuse.on_use(each, now_ms)
        for each in needed:
            self._raise(each, Tier.DEVICE, use, now_ms, needed)
        self.hits.update(use.found.values())
        self.loads += len(use.load_ms)
        return use

    def prefetch(self, id_: str, tier: Tier, now_ms: float) -> Use:
        """Bring a component to a tier ahead of its use, if it is worth more than those that would leave, or is pinned.

        Counts bytes, but no hit and no load, as no request waits for it. Raises InvalidComponent, KeyError.
        """
        found = self.tier_of(id_)
        use = Use({id_: found})
        if found < tier:
            above_ms = self._components[id_].load_from(tier)
            use.load_ms[id_] = self._components[id_].load_from(found) - above_ms
            self._raise(id_, tier, use, now_ms, None)
        return use

    def admits(self, id_: str, tier: Tier, now_ms: float) -> bool:
        """Return whether a prefetch would find room in a tier, or what is worth less there. Raises KeyError."""
        return id_ in self._held[tier] or self._leaving(id_, tier, now_ms, None) is not None

    def add_fused(self, id_: str, now_ms: float, keep: Iterable[str] = ()) -> Use:
        """Put a component on the device that was fused there from its parts; `keep` may not leave for it.

        It may be larger than what is left beside `keep`: then it is not held. Raises KeyError.
        """
        use = Use({id_: self.tier_of(id_)})
        needed = dict.fromkeys([*keep, id_])
        if total_bytes(needed, self._components) <= self._budgets.device:
            self._reuse.on_use(id_, now_ms)
            self._admit(id_, Tier.DEVICE, use, now_ms, needed)
        return use

    def next_victim(self, tier: Tier, now_ms: float, keep: Iterable[str] = ()) -> str | None:
        """Return the component of a tier that would leave first, except those of `keep`; None if there is no other."""
        leaving = self._held[tier].keys() - set(keep)
        return min(leaving, key=lambda each: (*self._rank(each, tier, now_ms), each), default=None)

    def evict(self, id_: str, tier: Tier) -> list[str]:
        """Evict a component from a tier, and what was fused from it there; return what left, the dependants first."""
        return self._evict(id_, tier, {})

    def _evict(self, id_: str, tier: Tier, keep: Mapping[str, None]) -> list[str]:
        """Evict a component and its dependants but for those that are in use."""
        if id_ not in self._held[tier]:
            return []
        leaving = [*(each for each in self._held[tier] if base_of(each) == id_ and each not in keep), id_]
        for each in leaving:
            del self._held[tier][each]
            self._bytes[tier] -= self._components[each].bytes
        return leaving

    def _require_room(self, needed: Mapping[str, None]) -> None:
        wanted = total_bytes(needed, self._components)
        if wanted > self._budgets.device:
            raise DoesNotFit(
                f"components {', '.join(needed)} must fit the device together: {wanted} bytes, "
                f"budget {self._budgets.device}; raise the budget or ask for fewer"
            )

    def _raise(self, id_: str, target: Tier, use: Use, now_ms: float, needed: Mapping[str, None] | None) -> None:
        """Move a component up from the nearest tier that holds it."""
        for tier in LOCAL:
            if use.found[id_] < tier <= target:
                use.moved_bytes[tier] += self._components[id_].bytes
                self.moved_bytes[tier] += self._components[id_].bytes
                self._admit(id_, tier, use, now_ms, needed if tier is Tier.DEVICE else None)

    def _admit(self, id_: str, tier: Tier, use: Use, now_ms: float, needed: Mapping[str, None] | None) -> None:
        """Hold a component in a tier: at any cost but that of `needed` where given, else only where it is worth it."""
        if id_ in self._held[tier]:
            return
        victims = self._leaving(id_, tier, now_ms, needed)
        if victims is None:
            return
        for victim in victims:
            gone = [(each, tier) for each in self._evict(victim, tier, needed or {})]
            use.evicted += gone
            if needed is not None:
                self._displaced.update(self.pinned.intersection(gone))
        self._held[tier][id_] = None
        self._bytes[tier] += self._components[id_].bytes
        self._displaced.discard((id_, tier))

    def _leaving(self, id_: str, tier: Tier, now_ms: float, needed: Mapping[str, None] | None) -> list[str] | None:
        """Return the components that leave a tier for a new one, `needed` as in `_admit`; None if not admitted."""
        size = self._components[id_].bytes
        if size > self._budgets.of(tier):
            return None
        free = self._budgets.of(tier) - self._bytes[tier]
        victims = self._victims(tier, size - free, now_ms, needed or {id_: None})
        if victims is None or needed is not None:
            return victims
        own = self._rank(id_, tier, now_ms)
        return None if any(self._rank(each, tier, now_ms) >= own for each in victims) else victims

    def _victims(self, tier: Tier, excess: float, now_ms: float, keep: Mapping[str, None]) -> list[str] | None:
        """Return the components to evict for `excess` bytes, the lowest score first; None if that is not possible."""
        if excess <= 0:
            return []
        victims: list[str] = []
        leaving = [each for each in self._held[tier] if each not in keep]
        for each in sorted(leaving, key=lambda each: (*self._rank(each, tier, now_ms), each)):
            victims.append(each)
            excess -= self._components[each].bytes
            if excess <= 0:
                return victims
        return None

    def _rank(self, id_: str, tier: Tier, now_ms: float) -> tuple[bool, float]:
        """The worth of a component in a tier; a pinned one's is above all others'."""
        component = self._components[id_]
        below = next((t for t in reversed(LOCAL) if t < tier and id_ in self._held[t]), Tier.REMOTE)
        if any(t <= below for t in component.load_ms):
            reload_ms = component.load_from(below) - component.load_from(tier)
        else:  # fused here: it is made again from its parts
            reload_ms = max(component.load_ms.values(), default=0.0)
        last_ms, probability = self._reuse.last_ms(id_), self._reuse.probability(id_, now_ms)
        candidate = EvictionCandidate(component, reload_ms, last_ms, probability)
        return (id_, tier) in self.pinned and (id_, tier) not in self._displaced, self.score(candidate, now_ms)
