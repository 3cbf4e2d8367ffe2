"""The number of workers that each variant should have: `Plan.scale`. Source: OctoAI, "Automatic scaling".

In each period, for each variant, in this order:

    1. the number in flight, counted within each tenant's maximum         `limits.within_tenant_maxima`
    2. more workers where periods agree on it                             `agreement.grown`
       at most doubled, while earlier ones start                          `limits.cap_at_doubling`
       else fewer where they agree on that, once nothing starts: one,     `agreement.can_do_with_fewer`
       or half of them where half were idle for long                      `agreement.has_idle_half`
    3. all variants within the fleet's maximum                            `limits.within_total`

The post has no rule to scale down: ours asks for agreement over longer, takes one worker at a time, or half of them
where half were idle, and no other before these have drained, nor within `hold` periods of any other change unless half
are idle. Growth within `hold` periods of a change must be twice as significant, unless it was agreed on before and is
held up by the doubling. Growth that takes a shrink back doubles the hold, up to 16 times. What is at the maximum and
wants more is saturated, the signal of ARGUS 5.3 to add hardware.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from planner.scaling.agreement import Agreement, can_do_with_fewer, grown, has_idle_half
from planner.scaling.limits import cap_at_doubling, donor_of, within_tenant_maxima, within_total

MAX_BACKOFF: Final = 16  # times `calm` that a variant is not shrunk for, after shrinks that were taken back
MAX_HOLD: Final = 10_000  # periods; longer ago than this is long ago


class Reason(StrEnum):
    """Why a variant has the target that it has."""

    STEADY = "steady"  # the periods do not agree on a change
    GROW = "grow"
    FROM_ZERO = "from-zero"  # requests wait, and no worker serves them
    SHRINK = "shrink"
    TO_ZERO = "to-zero"
    DRAINING = "draining"  # one worker fewer is wanted, once the last one to leave is gone
    YIELD = "yield"  # one worker fewer, for a variant that has none while the fleet is at its maximum
    SATURATED = "saturated"  # more is wanted than the fleet's or a tenant's maximum lets in


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantLoad:
    """One variant in the period that is over."""

    in_flight: Mapping[str, float]  # by tenant: mean over the period of the requests admitted and not ended
    ready: int  # workers that serve it
    starting: int = 0  # workers that are starting or loading for it
    draining: int = 0  # workers that finish what they have and leave it
    minimum: int = 0  # workers that it always has
    agreement: Agreement = field(default_factory=Agreement)


class VariantScale(NamedTuple):
    """The workers that a variant should have."""

    target: int
    reason: Reason
    wanted: int  # by its load, without any limit: what the metric for an autoscaler shows


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleLimits:
    """The maxima of workers."""

    total: int  # of all variants together
    by_tenant: Mapping[str, int] = field(default_factory=dict)  # who is not named has none


@dataclass(slots=True)
class _Memory:
    """The memory of one variant."""

    in_flight: list[float] = field(default_factory=list)  # of the last periods
    since_change: int = MAX_HOLD  # periods
    since_shrink: int = MAX_HOLD
    hold: int = 0  # periods; 0: the rule's calm
    goal: int = 0  # workers that the last growth was agreed to reach

    def next_period(self, in_flight: float, calm: int) -> None:
        self.in_flight = [*self.in_flight, in_flight][-calm:]
        self.since_change = min(MAX_HOLD, self.since_change + 1)
        self.since_shrink = min(MAX_HOLD, self.since_shrink + 1)
        self.hold = self.hold or calm

    def on_change(self, is_growth: bool, calm: int) -> None:
        if is_growth and self.since_shrink <= self.hold:
            self.hold = min(self.hold * 2, MAX_BACKOFF * calm)  # the shrink was wrong
        elif self.since_shrink > 2 * self.hold:
            self.hold = calm
        self.since_change = 0
        if not is_growth:
            self.since_shrink = 0


class Scaler:
    """The targets of all variants, period by period. Not thread-safe: one owner.

    Its memory is the number in flight of each variant's last periods and its last changes, JSON values for `restore`.
    """

    def __init__(self, limits: ScaleLimits) -> None:
        self._limits = limits
        self._memory: dict[str, _Memory] = {}

    def end_period(self, loads: Mapping[str, VariantLoad]) -> dict[str, VariantScale]:
        """Return the target of each variant, from the period that is over; a variant without a load is forgotten."""
        counted = self._counted(loads)
        self._memory = {variant: self._memory.get(variant) or _Memory() for variant in loads}
        for variant, load in loads.items():
            self._memory[variant].next_period(counted[variant], load.agreement.calm)
        found = {variant: self._of(variant, load) for variant, load in loads.items()}
        current = {variant: load.ready + load.starting for variant, load in loads.items()}
        allowed = _shared({variant: scale.target for variant, scale in found.items()}, current, self._limits.total)
        return {variant: self._limited(loads[variant], found[variant], allowed[variant]) for variant in loads}

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Return the memory as JSON values."""
        return {variant: asdict(memory) for variant, memory in self._memory.items()}

    def restore(self, snapshot: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the memory by that of a snapshot. Raises TypeError for one of another shape."""
        self._memory = {variant: _Memory(**memory) for variant, memory in snapshot.items()}

    def _counted(self, loads: Mapping[str, VariantLoad]) -> dict[str, float]:
        """The number in flight of each variant, within the tenants' maxima of workers."""
        by_tenant: dict[str, dict[str, float]] = {}
        for variant, load in loads.items():
            per_worker = load.agreement.concurrency * load.agreement.load_factor
            for tenant, each in load.in_flight.items():
                by_tenant.setdefault(tenant, {})[variant] = each / per_worker
        workers = within_tenant_maxima(by_tenant, self._limits.by_tenant, 1.0)
        return {
            variant: workers.get(variant, 0.0) * load.agreement.concurrency * load.agreement.load_factor
            for variant, load in loads.items()
        }

    def _of(self, variant: str, load: VariantLoad) -> VariantScale:
        memory, rule = self._memory[variant], load.agreement
        current = load.ready + load.starting
        wanted = rule.wanted(sum(load.in_flight.values()))
        more = max(load.minimum, self._grown(memory, current, rule))
        if more > current:
            target = max(current, cap_at_doubling(more, load.ready))
            memory.goal = more
            if target > current:
                memory.on_change(True, rule.calm)
            return VariantScale(target, Reason.FROM_ZERO if current == 0 else Reason.GROW, wanted)
        fewer = max(load.minimum, self._fewer(memory, current, rule))
        if fewer >= current or load.starting:
            return VariantScale(current, Reason.STEADY, wanted)
        if load.draining:
            return VariantScale(current, Reason.DRAINING, wanted)
        memory.goal = 0
        memory.on_change(False, rule.calm)
        return VariantScale(fewer, Reason.SHRINK if current > 1 else Reason.TO_ZERO, wanted)

    def _grown(self, memory: _Memory, current: int, rule: Agreement) -> int:
        is_held = min(memory.since_change, memory.since_shrink) <= memory.hold
        more = grown(memory.in_flight, current, rule, 2 * rule.deviations if is_held else None)
        if more > current or not all(rule.wanted(each) > current for each in memory.in_flight[-rule.agreeing :]):
            return more
        return max(current, memory.goal)

    def _fewer(self, memory: _Memory, current: int, rule: Agreement) -> int:
        """The workers that are enough: at most half of them go at once, one where not half are idle."""
        if has_idle_half(memory.in_flight, current, rule):
            return current - current // 2
        may_shrink = memory.since_change >= memory.hold and can_do_with_fewer(memory.in_flight, current, rule)
        return current - 1 if may_shrink else current

    def _limited(self, load: VariantLoad, scale: VariantScale, allowed: int) -> VariantScale:
        is_cut = allowed < scale.target or self._is_cut_by_tenant(load)
        if is_cut and scale.wanted > allowed:
            return scale._replace(target=allowed, reason=Reason.SATURATED)
        return scale._replace(target=allowed, reason=Reason.YIELD if allowed < scale.target else scale.reason)

    def _is_cut_by_tenant(self, load: VariantLoad) -> bool:
        most = self._limits.by_tenant
        return any(
            load.agreement.wanted(each) > most[tenant] for tenant, each in load.in_flight.items() if tenant in most
        )


def _shared(targets: Mapping[str, int], current: Mapping[str, int], maximum: int) -> dict[str, int]:
    """The targets within the fleet's maximum: growth shares the room that there is, and takes nothing from the others.

    A variant that has no worker and would get none takes one from the variant with the most, if that keeps one.
    """
    kept = {variant: min(target, current[variant]) for variant, target in targets.items()}
    room = maximum - sum(kept.values())
    if room < 0:  # the maximum was lowered
        return within_total(kept, maximum)
    growth = within_total({variant: targets[variant] - kept[variant] for variant in targets}, room)
    shared = {variant: kept[variant] + growth[variant] for variant in targets}
    for variant in sorted(v for v in targets if targets[v] > 0 and shared[v] == 0):
        if (donor := donor_of(shared)) is not None:
            shared[donor] -= 1
            shared[variant] = 1
    return shared
