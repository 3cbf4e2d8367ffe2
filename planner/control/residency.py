"""Says which worker holds which component in which tier: a plan's residency, where its proposal asks for one.

Demand and holdings come from the observation, the rules from `planner/components`, the workers from the proposal. What
has to outlast a planner is the residency's memory: the counts of requests, and what the prefetching bandit has learnt.
The memory is written anew each REFRESH_MS and with each slot that ends: plans are kept for a month.

Source: MLoRA 6.1.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.components.component import Component, Kind, Tier, base_of, kind_of
from planner.components.demand.bandit import PrefetchBandit
from planner.components.demand.combinations import parts_of
from planner.components.demand.counts import HALF_LIFE_MS
from planner.components.demand.decay import DecayedCounts
from planner.components.demand.popularity import Popularity, classes, replication_factor
from planner.components.from_catalog import components_of, fused
from planner.components.holdings import Holdings
from planner.components.placement import PlacementDemand, place
from planner.components.tiers import Budgets
from planner.control.proposal import PlanProposal
from planner.observation.components import AT_MS, DEMAND, Counts, ObservedComponents, ObservedDemand
from planner.observation.observation import Observation
from schemas.messages import ResidencyPlan, WorkerComponents

PERIOD_MS: Final = 86_400_000.0  # of habits: a day
SLOTS: Final = 24  # of it: hours
MAX_COMPANIONS: Final = 8  # K of Eq. 5, which the paper does not give
MIN_RETURNING: Final = 0.5  # a component is held for its last users where they want it more likely than not
REPLICA_SLACK: Final = 0.25  # busy workers by which the load must have fallen before a replica is given up
PLACE_MS: Final = 30_000
REFRESH_MS: Final = 600_000
MAX_REMEMBERED: Final = 1000  # components of a variant: the most frequent
MAX_COMBINATIONS: Final = 300
MAX_PAIRS: Final = 10  # of a base
PLACED_MS: Final = "placed_ms"  # in the memory: when it was decided last who holds what
NOTES: Final = "notes"  # in the memory, by variant
NO_DEMAND: Final = ObservedDemand(rps=0.0)


@dataclass(slots=True)
class _Notes:
    """The memory of placement for one variant, besides its demand."""

    bandit: PrefetchBandit
    slot_ms: float  # when the slot began, or was first planned for
    prefetched: set[str] = field(default_factory=set)  # in this slot
    replication: dict[str, int] = field(default_factory=dict)  # of the hot

    def snapshot(self) -> dict[str, Any]:
        """Return JSON values for `_recalled`."""
        return {
            "bandit": _rounded(self.bandit.snapshot()),
            "slot_ms": self.slot_ms,
            "prefetched": sorted(self.prefetched),
            "replication": self.replication,
        }


def with_residency(proposal: PlanProposal, seen: Observation, catalog: Catalog) -> PlanProposal:
    """Return the proposal with a residency for its workers, where it asks for one and anything was asked for yet."""
    if not proposal.places_components or seen.components is None:
        return proposal
    before = proposal.residency or (seen.in_force.residency if seen.in_force is not None else None)
    if before is None and not seen.components.demand:
        return proposal
    residency = place_components(proposal.allocation, seen.components, before, catalog, seen.now_ms)
    return replace(proposal, residency=residency)


def place_components(
    allocation: Mapping[str, str], seen: ObservedComponents, before: ResidencyPlan | None, catalog: Catalog, now_ms: int
) -> ResidencyPlan:
    """Return who is to hold what: the residency before where nothing changes.

    On the same workers it changes once in PLACE_MS at most: each change is a plan, which carries the memory.
    """
    memory = _loaded(before)
    notes = {variant: _recalled(memory, variant, now_ms) for variant in sorted(seen.demand)}
    has_learnt = [_end_slot(notes[variant], demand, now_ms) for variant, demand in seen.demand.items()]
    is_fresh = not any(has_learnt) and 0 <= now_ms - memory.get(AT_MS, 0) < REFRESH_MS
    variants = sorted({name for name in allocation.values() if catalog.level(name).bases})
    budgets = {v: _budgets([w for w, name in allocation.items() if name == v], seen.workers) for v in variants}
    is_recent = is_fresh and 0 <= now_ms - memory.get(PLACED_MS, 0) < PLACE_MS
    if before is not None and is_recent and before.workers.keys() == {w for known in budgets.values() for w in known}:
        return before
    workers: dict[str, dict[str, str]] = {}
    for variant in variants:
        demand, noted = seen.demand.get(variant, NO_DEMAND), notes.get(variant) or _recalled(memory, variant, now_ms)
        found = _Task(variant, budgets[variant], demand, noted, catalog, now_ms).place(seen)
        workers |= {worker: {id_: tier.label for id_, tier in sorted(held.items())} for worker, held in found.items()}
    if before is None or not is_fresh:
        return ResidencyPlan(workers=workers, memory=_written(seen, notes, now_ms))
    if workers == before.workers:
        return before
    noted_now = {PLACED_MS: now_ms, NOTES: {variant: each.snapshot() for variant, each in notes.items()}}
    return ResidencyPlan(workers=workers, memory=_dumped(memory | noted_now))


class _Task:
    """The placement of one variant's components on its workers."""

    def __init__(
        self,
        variant: str,
        budgets: Mapping[str, Budgets],
        seen: ObservedDemand,
        notes: _Notes,
        catalog: Catalog,
        now_ms: int,
    ) -> None:
        self._budgets, self._seen, self._notes, self._now_ms = budgets, seen, notes, now_ms
        self._components = components_of(catalog, variant)
        self._run_s = run_ms(catalog.level(variant), 1) / 1000
        self._counts = seen.counted()
        counted = self._counts.requests(now_ms)
        self._requests = {id_: count for id_, count in counted.items() if id_ in self._components}
        self._of_bases = sum(count for id_, count in self._requests.items() if kind_of(id_) is Kind.BASE)

    def place(self, seen: ObservedComponents) -> Mapping[str, Mapping[str, Tier]]:
        """Return worker -> component -> tier."""
        if not self._budgets or not self._requests:
            return {}
        popularity = classes(self._requests)
        static = self._static()
        demand = PlacementDemand(
            requests=self._requests,
            popularity=popularity,
            companions=self._companions(seen.workers),
            replication=self._replication(id_ for id_, found in popularity.items() if found is Popularity.HOT),
            fused=tuple(static),
            expected=self._expected(id_ for id_, found in popularity.items() if found is Popularity.WARM),
            returning=self._returning(),
            last_ms={id_: at_ms for id_, (_, at_ms) in self._seen.requests.items()},
            load=min(1.0, self._seen.rps * self._run_s / len(self._budgets)),
        )
        held = Holdings({worker: seen.holdings().by_worker.get(worker, {}) for worker in self._budgets})
        return place(self._budgets, {**self._components, **static}, demand, held, self._now_ms).by_worker

    def _static(self) -> dict[str, Component]:
        """The combinations that are kept fused, the most frequent first, whose parts are all known."""
        found = self._counts.static(self._components, float("inf"), self._now_ms)
        known = (each.id for each in found if set(parts_of(each.id)) <= self._components.keys())
        return {id_: fused(id_, self._components[base_of(id_) or ""]) for id_ in known}

    def _companions(self, reports: Mapping[str, WorkerComponents]) -> dict[str, tuple[str, ...]]:
        free_share = _free_share([reports[worker] for worker in self._budgets if worker in reports])
        bases = [id_ for id_ in self._requests if kind_of(id_) is Kind.BASE]
        return {id_: self._counts.companions(id_, self._now_ms, free_share, MAX_COMPANIONS) for id_ in bases}

    def _replication(self, hot: Iterable[str]) -> dict[str, int]:
        """Return the number of workers that hold each hot component; it falls only if the load has clearly fallen."""
        found = {}
        for id_ in hot:
            busy = self._seen.rps * self._requests[id_] / self._of_bases * self._run_s if self._of_bases else 0.0
            was = self._notes.replication.get(id_, 0)
            found[id_] = max(replication_factor(busy), min(was, replication_factor(busy + REPLICA_SLACK)))
        self._notes.replication = found
        return found

    def _expected(self, warm: Iterable[str]) -> tuple[str, ...]:
        room = sum(budgets.host for budgets in self._budgets.values())
        chosen = self._notes.bandit.choose([self._components[id_] for id_ in warm], room, self._now_ms)
        self._notes.prefetched |= set(chosen)
        return chosen

    def _returning(self) -> tuple[str, ...]:
        likely = {id_: p for id_, p in self._seen.returning.items() if p >= MIN_RETURNING and id_ in self._components}
        return tuple(sorted(likely, key=lambda id_: (-likely[id_], id_)))


def _budgets(workers: Iterable[str], reports: Mapping[str, WorkerComponents]) -> dict[str, Budgets]:
    """Return the budgets of the workers. One without a report gets the smallest budget of each tier among the others.

    So the plan that gives a new worker its variant also places its components, before its first job. Without any report
    there are no budgets.
    """
    workers = list(workers)
    known = {worker: _budget_of(reports[worker]) for worker in workers if worker in reports}
    if not known:
        return {}
    least = Budgets(
        volume=min(each.volume for each in known.values()),
        host=min(each.host for each in known.values()),
        device=min(each.device for each in known.values()),
    )
    return {worker: known.get(worker, least) for worker in workers}


def _budget_of(report: WorkerComponents) -> Budgets:
    volume, host, device = (report.budget_bytes.get(tier.label, 0) for tier in (Tier.VOLUME, Tier.HOST, Tier.DEVICE))
    return Budgets(volume=volume, host=host, device=device)


def _free_share(reports: Iterable[WorkerComponents]) -> float:
    """The free share of host and device memory, by which theta of Eq. 5 adapts."""
    budget = held = 0
    for report in reports:
        for tier in (Tier.HOST, Tier.DEVICE):
            budget += report.budget_bytes.get(tier.label, 0)
            held += report.held_bytes.get(tier.label, 0)
    return 1.0 - held / budget if budget else 0.0


def _end_slot(notes: _Notes, demand: ObservedDemand, now_ms: int) -> bool:
    """Let the bandit learn from a slot that is over; return whether one is."""
    bandit, began_ms = notes.bandit, notes.slot_ms
    if bandit.slot(began_ms) == bandit.slot(now_ms) and now_ms - began_ms < PERIOD_MS / SLOTS:
        return False
    bandit.end_slot(began_ms, notes.prefetched, {id_ for id_, (_, at) in demand.requests.items() if at >= began_ms})
    notes.slot_ms, notes.prefetched = now_ms, set()
    return True


def _loaded(before: ResidencyPlan | None) -> dict[str, Any]:
    """Return the memory; {} where there is none, or another release's that is no object."""
    memory = json.loads(before.memory) if before is not None else {}
    times = [memory.get(AT_MS), memory.get(PLACED_MS)] if isinstance(memory, dict) else [None]
    return memory if all(isinstance(at_ms, int | float) for at_ms in times) else {}


def _recalled(memory: Mapping[str, Any], variant: str, now_ms: int) -> _Notes:
    """Return what was noted of a variant; what is of another form begins anew."""
    bandit = PrefetchBandit(PERIOD_MS, SLOTS)
    try:
        noted = memory[NOTES][variant]
        bandit.restore(**noted["bandit"])
        replication = {str(id_): int(count) for id_, count in noted["replication"].items()}
        return _Notes(bandit, float(noted["slot_ms"]), set(map(str, noted["prefetched"])), replication)
    except (KeyError, TypeError, ValueError, AttributeError):
        return _Notes(PrefetchBandit(PERIOD_MS, SLOTS), now_ms)


def _written(seen: ObservedComponents, notes: Mapping[str, _Notes], now_ms: int) -> str:
    demand = {
        variant: {
            "requests": _largest(each.requests, MAX_REMEMBERED, now_ms),
            "fused": _largest(each.fused, MAX_COMBINATIONS, now_ms),
            "pairs": {base: _largest(each.pairs[base], MAX_PAIRS, now_ms) for base in sorted(each.pairs)},
        }
        for variant, each in seen.demand.items()
    }
    noted = {variant: each.snapshot() for variant, each in notes.items()}
    return _dumped({AT_MS: now_ms, PLACED_MS: now_ms, DEMAND: demand, NOTES: noted})


def _dumped(memory: Mapping[str, Any]) -> str:
    return json.dumps(memory, sort_keys=True, separators=(",", ":"))


def _largest(counts: Counts, most: int, now_ms: int) -> dict[str, list[float]]:
    """The largest counts as of now, in four digits."""
    decayed: DecayedCounts[str] = DecayedCounts(HALF_LIFE_MS)
    decayed.restore(counts)
    values = decayed.values(now_ms)
    chosen = sorted(counts, key=lambda id_: (-values[id_], id_))[:most]
    return {id_: [_round(counts[id_][0]), round(counts[id_][1])] for id_ in sorted(chosen)}


def _rounded(value: Any) -> Any:
    """JSON values with their numbers in four digits."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return _round(value)


def _round(value: float) -> float:
    return float(f"{value:.4g}")
