"""The content of `Plan.scale`, and which workers serve what: made once a plan, live and simulated.

    FleetScaling.decide    targets by `scaling.Scaler` at the end of each period, and the first worker of a variant at
                           once; then the workers that are there are shared: who serves stays, of too many those leave
                           whose Eq. 4 is greatest (`choice`), what is missing comes from the pool (`warm_pool`)
    a policy's proposal    shares the workers of the levels among them
    with_staffing          the targets of the levels, as the policy shared their workers

The levels of a plan stand in for one another and share their workers, so that they are scaled as one; a variant that
requests name is scaled by itself. Who is named by no plan is in the pool, or on its way there.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.components.from_catalog import components_of
from planner.components.holdings import Holdings
from planner.control.allocation import split
from planner.control.proposal import ALWAYS, BY_POLICY, PlanProposal, PolicyTerms
from planner.control.wording.sentence import describe_workers
from planner.observation.components import ObservedComponents
from planner.observation.observation import Observation
from planner.observation.workers import SERVING, WorkerView
from planner.scaling.agreement import Agreement, shared_periods
from planner.scaling.choice import Candidate, choose, costs
from planner.scaling.limits import donor_of, within_total
from planner.scaling.scaling import Reason, ScaleLimits, Scaler, VariantLoad, VariantScale
from planner.scaling.utilisation import LOAD_FACTOR
from planner.scaling.warm_pool import assign, pool_size
from schemas.errors import PochadeError
from schemas.messages import Plan, ScalePlan

STARTS: Final = 2  # that a first worker may take to come, until another group lends it one
LEVELS: Final = ""  # the group of all variants that the plan routes to
MAX_SCALE_UPS: Final = 200  # remembered, by which the pool is sized


class InvalidScaling(PochadeError):
    """Limits of scaling that contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRules:
    """When a fleet is scaled, and its limits; the settings `planner.scale.*`."""

    when: str = BY_POLICY  # ALWAYS, NEVER
    max_workers: int = 4  # of all variants and the pool together
    max_by_tenant: Mapping[str, int] = field(default_factory=dict)  # tenant -> workers that its requests may ask for
    minimum: Mapping[str, int] = field(default_factory=dict)  # variant -> workers that it always has
    load_factor: float = LOAD_FACTOR
    period_ms: float = 10_000.0  # between decisions; a variant's first worker comes at once
    warm: int = 0  # least number of started workers that are held ready without a variant
    max_warm: int = 0  # most; above `warm` the pool is sized by past scale-ups
    start_ms: float = 20_000.0  # until a worker that is started anew is in the pool

    def __post_init__(self) -> None:
        least = sum(self.minimum.values())
        if least > self.max_workers:
            raise InvalidScaling(f"the minima of all variants must be at most {self.max_workers} workers: got {least}")
        if not 0 <= self.warm <= self.max_workers:
            raise InvalidScaling(f"the pool must be 0 to {self.max_workers} workers: got {self.warm}")

    def hold_for(self, terms: Callable[[], PolicyTerms]) -> bool:
        """Whether the fleet is scaled under a policy; its terms are asked for only where they decide."""
        return terms().scales if self.when == BY_POLICY else self.when == ALWAYS


class Staffing(NamedTuple):
    """The number of workers of each variant and of the levels together; a policy then divides the latter by level."""

    seen: Observation  # as the policy plans for it: with the workers of the levels alone
    named: dict[str, str]  # worker_id -> variant that requests name
    scales: dict[str, VariantScale]  # variant, or LEVELS -> its target
    warm: int
    memory: str  # JSON


class FleetScaling:
    """Scales the fleet of one planner. Its memory is in the plan, so that the next planner goes on."""

    def __init__(self, catalog: Catalog, rules: ScaleRules) -> None:
        """Raises Unknown for a variant with a minimum that the catalog does not hold."""
        for variant in rules.minimum:
            catalog.level(variant)
        self._catalog, self._rules = catalog, rules
        self.forget()

    def forget(self) -> None:
        """Remember nothing: the plan in force says what was."""
        self._scaler: Scaler | None = None
        self._ended_ms = 0
        self._has_begun = False  # a request has come
        self._scale_ups: list[tuple[int, int]] = []
        self._starved_ms: dict[str, int] = {}  # group that should have workers and has none -> since when

    def unserved(self, asked: Collection[str], plan: Plan | None) -> tuple[str, ...]:
        """Return which of the asked variants (LEVELS: any level) the plan gives no worker, nor will have one."""
        if plan is None or plan.scale is None:
            return ()
        levels, targets = levels_of(plan), plan.scale.targets
        served = {_group(variant, levels) for variant, target in targets.items() if target > 0}
        return tuple(sorted({_group(variant, levels) for variant in asked} - served))

    def decide(self, seen: Observation, before: Plan | None) -> Staffing:
        """Return the targets of this moment, and who serves what. `before`: the plan in force."""
        levels = levels_of(before)
        if self._scaler is None:
            self._restore(before, seen.now_ms)
        assert self._scaler is not None
        in_flight = _by_group(seen, levels)
        fleet = _Fleet(seen.workers, levels, seen.components, is_scaled=self._is_scaled(before))
        targets = self._current(fleet, before, levels, in_flight)
        self._has_begun = self._has_begun or bool(in_flight)
        loads = {
            group: self._load(group, in_flight.get(group, {}), targets.get(group, 0), fleet, before, levels)
            for group in sorted(targets.keys() | in_flight.keys() | self._minimum(levels).keys() | {LEVELS})
        }
        scales = self._scales(loads, targets, before, seen.now_ms)
        self._note_growth(scales, targets, seen.now_ms)
        wanted = {group: scale.target for group, scale in scales.items()}
        chosen = fleet.chosen(wanted, self._catalog)
        self._feed(fleet, chosen, wanted, seen.now_ms)
        named = {worker.worker_id: group for group, workers in chosen.items() if group for worker in workers}
        return Staffing(
            _for_levels(seen, chosen.get(LEVELS, ()), levels), named, scales, self._warm(sum(wanted.values())),
            self._snapshot(),
        )  # fmt: skip

    def _feed(
        self, fleet: "_Fleet", chosen: dict[str, list[WorkerView]], wanted: Mapping[str, int], now_ms: int
    ) -> None:
        """Lend a worker to each group that got none within two starts: the deployment may have no autoscaler."""
        starved = sorted(group for group, target in wanted.items() if target > 0 and not chosen.get(group))
        self._starved_ms = {group: self._starved_ms.get(group, now_ms) for group in starved}
        for group in starved:
            if now_ms - self._starved_ms[group] >= STARTS * self._rules.start_ms:
                fleet.lend(group, chosen, self._catalog)

    def _restore(self, before: Plan | None, now_ms: int) -> None:
        """Go on from the plan in force, or begin with it."""
        self._scaler = Scaler(ScaleLimits(total=self._rules.max_workers, by_tenant=self._rules.max_by_tenant))
        self._ended_ms = now_ms
        memory: dict[str, Any] = json.loads(before.scale.memory) if before and before.scale else {}
        if memory:
            self._scaler.restore(memory["scaler"])
            self._ended_ms = min(now_ms, memory["ended_ms"])
            self._has_begun = memory["has_begun"]
            self._scale_ups = [(at_ms, count) for at_ms, count in memory["scale_ups"]]

    def _snapshot(self) -> str:
        assert self._scaler is not None
        scaler = self._scaler.snapshot()
        for each in scaler.values():
            each["in_flight"] = [round(value, 3) for value in each["in_flight"]]
        memory = {"scaler": scaler, "ended_ms": self._ended_ms, "scale_ups": self._scale_ups}
        return json.dumps(memory | {"has_begun": self._has_begun}, sort_keys=True)

    def _is_scaled(self, before: Plan | None) -> bool:
        """Whether the plan in force says which workers serve; before the first request all that are there may."""
        return before is not None and before.scale is not None and self._has_begun

    def _current(
        self, fleet: "_Fleet", before: Plan | None, levels: Collection[str], asked: Collection[str]
    ) -> dict[str, int]:
        """The targets that are in force: the plan's, or, where no request has come so far, the fleet as it is.

        `asked`: groups with requests in flight; workers of others serve the levels.
        """
        targets: Counter[str] = Counter()
        if before is not None and before.scale is not None and self._has_begun:
            for variant, target in before.scale.targets.items():
                targets[_group(variant, levels)] += target
            return within_total(targets, self._rules.max_workers)
        for group, workers in fleet.homes.items():
            targets[group if group in asked else LEVELS] += len(workers)
        targets[LEVELS] += max(0, len(fleet.free) - self._rules.warm)
        for group, minimum in self._minimum(levels).items():
            targets[group] = max(targets[group], minimum)
        return within_total(targets, self._rules.max_workers)

    def _minimum(self, levels: Collection[str]) -> Counter[str]:
        """The least number of workers of each group."""
        minimum: Counter[str] = Counter()
        for variant, count in self._rules.minimum.items():
            minimum[_group(variant, levels)] += count
        return minimum

    def _load(
        self, group: str, in_flight: Mapping[str, float], target: int, fleet: "_Fleet", before: Plan | None,
        levels: Collection[str],
    ) -> VariantLoad:  # fmt: skip
        ready = min(target, sum(worker.state in SERVING for worker in fleet.homes.get(group, ())))
        variants = [group] if group else sorted(levels) or [self._catalog.best().name]
        run = max(run_ms(self._catalog.level(variant), 1) for variant in variants)
        batch = min(before.batch.get(variant, 1) if before else 1 for variant in variants)
        return VariantLoad(
            in_flight=in_flight,
            ready=ready,
            starting=target - ready,
            draining=len(fleet.leaving.get(group, ())),
            minimum=self._minimum(levels)[group],
            agreement=Agreement(
                concurrency=float(batch),
                load_factor=self._rules.load_factor,
                shared_periods=shared_periods(run, self._rules.period_ms),
            ),
        )

    def _scales(
        self, loads: Mapping[str, VariantLoad], targets: Mapping[str, int], before: Plan | None, now_ms: int
    ) -> dict[str, VariantScale]:
        """The targets by the period where one is over; else those of now, and the first worker of who has none."""
        assert self._scaler is not None
        if now_ms - self._ended_ms >= self._rules.period_ms:
            self._ended_ms = now_ms
            return self._scaler.end_period(loads)
        reasons = before.scale.reasons if before and before.scale else {}
        levels = levels_of(before)
        scales: dict[str, VariantScale] = {}
        room = self._rules.max_workers - sum(targets.values())
        for group, load in loads.items():
            target, wanted = targets.get(group, 0), load.agreement.wanted(sum(load.in_flight.values()))
            known = [reasons[name] for name in reasons if _group(name, levels) == group]
            reason = Reason(known[0]) if known else Reason.STEADY
            if target < max(load.minimum, min(wanted, 1)) and room > 0:
                added = min(room, max(load.minimum, 1) - target)
                room, target, reason = room - added, target + added, Reason.FROM_ZERO
            scales[group] = VariantScale(target, reason, wanted)
        return scales

    def _note_growth(self, scales: Mapping[str, VariantScale], targets: Mapping[str, int], now_ms: int) -> None:
        grown = sum(max(0, scale.target - targets.get(group, 0)) for group, scale in scales.items())
        if grown:
            self._scale_ups = [*self._scale_ups, (now_ms, grown)][-MAX_SCALE_UPS:]

    def _warm(self, serving: int) -> int:
        rules = self._rules
        size = pool_size(self._scale_ups, rules.start_ms, rules.warm, max(rules.warm, rules.max_warm))
        return max(0, min(size, rules.max_workers - serving))


class _Fleet:
    """The live workers by what the plan in force has them serve."""

    def __init__(
        self,
        workers: Sequence[WorkerView],
        levels: Collection[str],
        seen: ObservedComponents | None,
        *,
        is_scaled: bool,
    ) -> None:
        """`seen`: demand for components and their holders; None if no variant lists any."""
        self._seen = seen
        self._holdings = seen.holdings() if seen else Holdings()
        self.homes: dict[str, list[WorkerView]] = {}  # group -> who serves it, or is on its way there
        self.leaving: dict[str, list[WorkerView]] = {}  # group -> who serves it, and is to leave it
        self.free: list[WorkerView] = []  # who serves nothing
        for worker in workers:
            home = worker.allocated if is_scaled else worker.home
            if home:
                self.homes.setdefault(_group(home, levels), []).append(worker)
            elif worker.variant:
                self.leaving.setdefault(_group(worker.variant, levels), []).append(worker)
            else:
                self.free.append(worker)
        self._levels = levels

    def chosen(self, targets: Mapping[str, int], catalog: Catalog) -> dict[str, list[WorkerView]]:
        """Return the workers of each group, at most its target: who serves it, who is about to leave it, others."""
        chosen: dict[str, list[WorkerView]] = {}
        others = list(self.free)
        for group in sorted(targets.keys() | self.homes.keys() | self.leaving.keys()):
            here, leaving = self.homes.get(group, []), self.leaving.get(group, [])
            staying = self._min_cost_workers(group, here, targets.get(group, 0), catalog)
            back = self._min_cost_workers(group, leaving, targets.get(group, 0) - len(staying), catalog)
            chosen[group] = [*staying, *back]
            others += [worker for worker in (*here, *leaving) if worker not in chosen[group]]
        short = {group: target - len(chosen[group]) for group, target in targets.items()}
        by_id = {worker.worker_id: worker for worker in others}
        cost = {group: costs(self._candidates(group, others, catalog)) for group in short}
        for group, worker_id in assign(short, list(by_id), lambda group, worker: cost[group][worker], 0).from_pool:
            chosen[group].append(by_id[worker_id])
        return chosen

    def lend(self, group: str, chosen: dict[str, list[WorkerView]], catalog: Catalog) -> None:
        """Have a group without workers take one of the group with the most, if that keeps one."""
        donor = donor_of({each: len(workers) for each, workers in chosen.items()})
        if donor is None:
            return
        staying = self._min_cost_workers(donor, chosen[donor], len(chosen[donor]) - 1, catalog)
        chosen[group] = [worker for worker in chosen[donor] if worker not in staying]
        chosen[donor] = staying

    def _min_cost_workers(
        self, group: str, workers: Sequence[WorkerView], count: int, catalog: Catalog
    ) -> list[WorkerView]:
        if len(workers) <= count:
            return list(workers)
        ids = set(choose(self._candidates(group, workers, catalog), count))
        return [worker for worker in workers if worker.worker_id in ids]

    def _candidates(self, group: str, workers: Sequence[WorkerView], catalog: Catalog) -> list[Candidate]:
        """The terms of Eq. 4, by who is to serve the group."""
        variants = [group] if group else sorted(self._levels) or [catalog.best().name]
        return [
            Candidate(
                worker.worker_id, worker.remaining_ms,
                max(self._loading_ms(variant, worker, variants, catalog) for variant in variants),
                float(worker.state == "painting"),
            )
            for worker in workers
        ]  # fmt: skip

    def _loading_ms(self, variant: str, worker: WorkerView, group: Collection[str], catalog: Catalog) -> float:
        """Return the ms to load the components that recent requests needed and the worker lacks: R_pred of Eq. 4.

        For a variant without components the whole variant's, or 0 for a worker that serves the group.
        """
        components = components_of(catalog, variant)
        demand = self._seen.demand.get(variant) if self._seen else None
        if not components or demand is None:
            return 0.0 if worker.variant in group else catalog.level(variant).load_ms
        needed = [each for each in sorted(demand.requests) if each in components]
        return self._holdings.missing_ms(worker.worker_id, needed, components)


def with_staffing(proposal: PlanProposal, staffing: Staffing) -> PlanProposal:
    """Return a policy's proposal with the workers of named variants, and with its group `scale`."""
    levels, shares = staffing.scales[LEVELS], _shares(proposal)
    named = {variant: scale for variant, scale in staffing.scales.items() if variant != LEVELS}
    placed = Counter(proposal.allocation.values())
    missing = max(0, levels.target - placed.total())
    targets = placed + Counter(split(shares, missing)) + Counter({name: scale.target for name, scale in named.items()})
    wanted = Counter(split(shares, levels.wanted)) + Counter({name: scale.wanted for name, scale in named.items()})
    reasons = dict.fromkeys([*shares, *placed], str(levels.reason))
    reasons |= {name: str(scale.reason) for name, scale in named.items()}
    names = sorted(reasons)
    scale = ScalePlan(
        targets={name: targets[name] for name in names},
        wanted={name: wanted[name] for name in names},
        reasons={name: reasons[name] for name in names},
        warm=staffing.warm,
        memory=staffing.memory,
    )
    reason = f"{proposal.reason}; {describe(scale)}"
    return replace(proposal, allocation=proposal.allocation | staffing.named, scale=scale, reason=reason)


def levels_of(plan: Plan | None) -> frozenset[str]:
    """Return the variants that a plan routes or escalates to."""
    if plan is None:
        return frozenset()
    first = {variant_of(level) for route in plan.routes for level, share in route.levels.items() if share > 0}
    return frozenset(first | {cascade.next_level for cascade in plan.cascades if variant_of(cascade.level) in first})


def describe(scale: ScalePlan) -> str:
    """Describe the targets."""
    targets = describe_workers(scale.targets)
    changes = sorted({f"{reason}" for reason in scale.reasons.values()} - {str(Reason.STEADY)})
    warm = f", {scale.warm} warm" if scale.warm else ""
    return f"scaled to {targets or 'no worker'}{warm}" + (f" ({', '.join(changes)})" if changes else "")


def _group(variant: str, levels: Collection[str]) -> str:
    return LEVELS if not variant or variant in levels else variant


def _by_group(seen: Observation, levels: Collection[str]) -> dict[str, dict[str, float]]:
    """group -> tenant -> mean number in flight."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for tenant, by_variant in seen.in_flight.items():
        for variant, mean in by_variant.items():
            group = found[_group(variant, levels)]
            group[tenant] = group.get(tenant, 0.0) + mean
    return dict(found)


def _for_levels(seen: Observation, workers: Sequence[WorkerView], levels: Set[str]) -> Observation:
    """The observation without what requests name a variant for that is no level, and without its workers."""
    named_rps = sum(need.rps for need in seen.needs if levels.isdisjoint(need.variants))
    forecast = None if seen.forecast_rps is None else max(0.0, seen.forecast_rps - named_rps)
    return replace(
        seen,
        workers=tuple(sorted(workers, key=lambda worker: worker.worker_id)),
        demand_rps=max(0.0, seen.demand_rps - named_rps),
        forecast_rps=forecast,
        needs=(),
    )


def _shares(proposal: PlanProposal) -> dict[str, float]:
    """Variant -> share of the levels' workers: as a proposal allocates them, else as it routes requests."""
    placed = Counter(proposal.allocation.values())
    if placed:
        return {variant: float(count) for variant, count in placed.items()}
    shares: Counter[str] = Counter()
    for route in proposal.routes:
        shares.update({variant_of(level): share for level, share in route.levels.items() if share > 0})
    return {variant: float(share) for variant, share in shares.items()}
