"""Eviction from a full tier: the component with the lowest score leaves. Source: MLoRA 6.3.1, Eq. 10.

    E(c) = P_reuse T_load alpha_type / (M_size (1 + beta age))

The paper calls E an eviction score, but its factors protect what is dear to reload and likely to be used: the lowest
leaves. It gives neither alpha_type nor beta nor P_reuse.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from planner.components.component import Component, Kind, base_of
from planner.components.demand.cold import HOUR_MS
from planner.components.demand.decay import DecayedCounts
from schemas.errors import Unknown
from schemas.messages import ResidencyPlan

AGING_PER_HOUR: Final = 1.0  # beta
USES_HALF_LIFE_MS: Final = 3_600_000.0  # of a worker's counts of uses, live and simulated (README of the folder)
RUN_SHARE: Final = 0.05  # of a half-life that a run of requests lasts; tuned on the order of GenTD26's requests
TYPE_WEIGHTS: Final[Mapping[Kind, float]] = dict.fromkeys(Kind, 1.0)  # alpha_type: size and load time distinguish kinds


class EvictionCandidate(NamedTuple):
    """A component in one tier of one worker, as eviction sees it."""

    component: Component
    reload_ms: float  # to bring it back into this tier, once evicted
    last_ms: float  # when it was last used; before all time if never
    reuse: float  # [0, 1]: probability that it is used soon


Score = Callable[[EvictionCandidate, float], float]
"""The worth of holding a component at a time in epoch ms; the lowest leaves."""


def utility(
    candidate: EvictionCandidate,
    now_ms: float,
    aging_per_hour: float = AGING_PER_HOUR,
    type_weights: Mapping[Kind, float] = TYPE_WEIGHTS,
) -> float:
    """Return Eq. 10 in ms of expected loading saved per byte held; age is the time since the last use."""
    age_hours = max(0.0, now_ms - candidate.last_ms) / HOUR_MS
    worth_ms = candidate.reuse * candidate.reload_ms * type_weights[candidate.component.kind]
    return worth_ms / (candidate.component.bytes * (1.0 + aging_per_hour * age_hours))


def lru(candidate: EvictionCandidate, now_ms: float) -> float:
    """Return when a component was last used: the least recently used leaves. The baseline of MLoRA 7.1."""
    del now_ms
    return candidate.last_ms


SCORES: Final[Mapping[str, Score]] = {"lru": lru, "utility": utility}


def score_named(name: str) -> Score:
    """Return the score of a name. Raises Unknown."""
    if name not in SCORES:
        raise Unknown("eviction", name, SCORES)
    return SCORES[name]


def eviction_under(residency: ResidencyPlan | None) -> Score:
    """Return a worker's score of eviction: by value if the plan places components, else least recently used."""
    return lru if residency is None else utility


class ReuseEstimate:
    """P_reuse of Eq. 10 from a component's recent uses. Not thread-safe: one owner.

    The mean of two estimates, from uses within the half-life and within a twentieth of it, as requests come in runs. A
    use of a fused component counts for its base: both are held and evicted as one pipeline.
    """

    def __init__(self, half_life_ms: float = USES_HALF_LIFE_MS, horizon_ms: float = USES_HALF_LIFE_MS) -> None:
        self._habit: DecayedCounts[str] = DecayedCounts(half_life_ms)
        self._run: DecayedCounts[str] = DecayedCounts(half_life_ms * RUN_SHARE)
        self._horizon_ms = horizon_ms

    def on_use(self, id_: str, now_ms: float) -> None:
        """Count a use."""
        for each in (id_, base_of(id_)):
            if each is not None:
                self._habit.add(each, now_ms)
                self._run.add(each, now_ms)

    def last_ms(self, id_: str) -> float:
        """Return when a component was last used; before all time if never."""
        last_ms = self._habit.last_ms(id_)
        return -math.inf if last_ms is None else last_ms

    def probability(self, id_: str, now_ms: float) -> float:
        """Return the probability of a use within the horizon, if uses come independently at the recent rates."""
        rates = (counts.rate_per_ms(id_, now_ms) for counts in (self._habit, self._run))
        return sum(-math.expm1(-rate * self._horizon_ms) for rate in rates) / 2
