"""A plan's terms of reuse, as checked values: floors of similarity, the guard's shares, rules of writing.

    schemas.messages.ReusePlan -- terms_of --> Terms    made once for each plan; the other rules here ask for its parts

It imports none of these rules: every role checks plans, and few of them reuse anything.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from planner.reuse.eviction import order_named
from planner.serving.admission.quotas import Quota
from schemas.errors import InvalidPlan, PochadeError, Unknown
from schemas.messages import ReuseGuard, ReusePlan, ReuseStorage

LIVE_KEYS: Final = ("scorer", "words")  # encoders of prompts that workers and the index writer have; "": the first
LIVE_EVICTIONS: Final = ("fifo",)  # orders that the index writer supports: uses of images are not reported to it
UNLIMITED: Final = Quota()
NO_GUARD: Final = 1.0  # share that a comparison would allow: similarity and the route alone decide


class Floor(NamedTuple):
    """From this similarity on, this share of the steps may be skipped."""

    similarity: float  # cosine, [-1, 1]
    share: float  # of N, [0, 1)


class InvalidFloors(PochadeError):
    """Similarity floors that contradict themselves."""


@dataclass(frozen=True, slots=True)
class Floors:
    """Similarity -> share of the steps. Source: NIRVANA's table of similarity and K, as shares of its 50 steps."""

    floors: tuple[Floor, ...] = ()  # rising in similarity and share; none: nothing is reused

    def __post_init__(self) -> None:
        for floor in self.floors:
            if not (-1.0 <= floor.similarity <= 1.0 and 0.0 <= floor.share < 1.0):
                limits = "similarity in [-1, 1] and share in [0, 1)"
                raise InvalidFloors(f"a floor must have a {limits}: got {tuple(floor)}; correct it")
        for lower, upper in zip(self.floors, self.floors[1:], strict=False):
            if lower.similarity >= upper.similarity or lower.share > upper.share:
                got = f"got {tuple(lower)} before {tuple(upper)}"
                raise InvalidFloors(f"floors must rise in similarity, and their shares never fall: {got}; sort them")

    def share(self, similarity: float) -> float:
        """Return the share of the steps that a neighbour of this similarity may save; 0 below all floors."""
        if math.isnan(similarity):
            return 0.0
        at = bisect_right([floor.similarity for floor in self.floors], similarity)
        return self.floors[at - 1].share if at else 0.0


class Difference(StrEnum):
    """A kind of fact in which two prompts differ."""

    COUNT = "count"
    COLOUR = "colour"
    SIZE = "size"
    OBJECT = "object"
    ATTRIBUTE = "attribute"
    BINDING = "binding"  # the same words, but not of the same things
    RELATION = "relation"  # places in the image included
    NEGATION = "negation"
    BACKGROUND = "background"
    TEXT = "text"  # quoted
    STYLE = "style"


class InvalidShares(PochadeError):
    """Shares of the guard that are no shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardShares:
    """Verdict -> share of the steps that may be skipped, as a plan or a profile says. What is not named allows none."""

    equal: float
    style: float = 0.0
    unsure: float = 0.0
    differs: Mapping[Difference, float] = field(default_factory=dict)  # of several the least counts

    def __post_init__(self) -> None:
        for share in (self.equal, self.style, self.unsure, *self.differs.values()):
            if not 0.0 <= share < 1.0:
                raise InvalidShares(f"a share of the guard must be in [0, 1): got {share}; correct the plan")

    @property
    def max_share(self) -> float:
        """The largest share that any comparison allows."""
        return max(self.equal, self.style, self.unsure, *self.differs.values(), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRule:
    """A plan's rules for stored images."""

    discriminator: str = ""  # the check; "": none, as in ARGUS, which stores every image
    threshold: float = 0.0  # enters if score > threshold
    scored_share: float = 1.0  # of the images that no cascade scored, those that the writer scores itself
    quota: Quota = UNLIMITED  # of each tenant's writes; its rate 0: unlimited


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A plan's rules for workers and the index writer."""

    floors: Floors
    guard: GuardShares | None  # None: off
    write: WriteRule
    key: str  # encoder of the prompts; "": the first that is known
    stored_share: float  # of the images that may be stored
    ttl_ms: float
    max_bytes: int
    eviction: str
    hits: Mapping[str, float]  # level -> expected share of hits

    @property
    def max_share(self) -> float:
        """The largest share of the steps that any neighbour may save."""
        by_floor = self.floors.floors[-1].share if self.floors.floors else 0.0
        return min(by_floor, NO_GUARD if self.guard is None else self.guard.max_share)


def terms_of(plan: ReusePlan) -> Terms:
    """Return the checked terms of a plan's group. Raises InvalidPlan: a value out of range, or an unknown name."""
    storage = plan.storage
    try:
        order_named(storage.eviction)
        floors = Floors(tuple(Floor(each.similarity, each.share) for each in plan.floors))
        guard = None if plan.guard is None else _guard(plan.guard)
    except PochadeError as error:
        raise InvalidPlan(f"reuse: {error}") from None
    _check_storage(storage)
    for level, share in plan.hits.items():
        _require(0 <= share <= 1, f"hits of {level} must be in [0, 1]: got {share}")
    return Terms(
        floors=floors,
        guard=guard,
        write=_write_rule(plan),
        key=plan.key,
        stored_share=storage.share,
        ttl_ms=1000 * storage.ttl_s,
        max_bytes=storage.max_bytes,
        eviction=storage.eviction,
        hits=MappingProxyType(dict(plan.hits)),
    )


def check_live(plan: ReusePlan | None) -> None:
    """Raise InvalidPlan where a plan's group asks for what the simulator alone can do; None asks for nothing."""
    if plan is None:
        return
    eviction = plan.storage.eviction
    _require(
        plan.key in ("", *LIVE_KEYS),
        f"no worker has the encoder {plan.key!r} of prompts, the simulator alone: use one of {', '.join(LIVE_KEYS)}",
    )
    _require(
        eviction in LIVE_EVICTIONS,
        f"no index writer can evict by {eviction!r}, the simulator alone: use {' or '.join(LIVE_EVICTIONS)}",
    )


def _guard(guard: ReuseGuard) -> GuardShares:
    known = [each.value for each in Difference]
    for name in guard.differs:
        if name not in known:
            raise Unknown("kind of difference", name, known)
    differs = {Difference(name): share for name, share in guard.differs.items()}
    return GuardShares(equal=guard.equal, style=guard.style, unsure=guard.unsure, differs=differs)


def _write_rule(plan: ReusePlan) -> WriteRule:
    quota = Quota(rate_rps=plan.storage.tenant_rps, burst=plan.storage.tenant_burst)
    if plan.check is None:
        return WriteRule(quota=quota)
    check = plan.check
    for name, share in (("threshold", check.threshold), ("scored_share", check.scored_share)):
        _require(0 <= share <= 1, f"{name} of the check must be in [0, 1]: got {share}")
    _require(bool(check.discriminator), "the check must name a discriminator, or be left out")
    return WriteRule(
        discriminator=check.discriminator, threshold=check.threshold, scored_share=check.scored_share, quota=quota
    )


def _check_storage(storage: ReuseStorage) -> None:
    _require(0 <= storage.share <= 1, f"share of storage must be in [0, 1]: got {storage.share}")
    _require(0 < storage.ttl_s < math.inf, f"ttl_s must be above 0 and finite: got {storage.ttl_s}")
    _require(storage.max_bytes >= 0, f"max_bytes must be 0 or more: got {storage.max_bytes}")
    _require(0 <= storage.tenant_rps < math.inf, f"tenant_rps must be 0 or more: got {storage.tenant_rps}")
    _require(1 <= storage.tenant_burst < math.inf, f"tenant_burst must be 1 or more: got {storage.tenant_burst}")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidPlan(f"reuse: {message}")
