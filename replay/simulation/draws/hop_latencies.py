"""The measured latencies of a deployment beside generation: on the way between processes, and between calls.

A machine that others use too is not always equally fast: the distributions may be kept by stretches of time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

RANKS = np.linspace(0, 1, 51)  # at which a distribution is kept
SLOT_MS = 2000.0  # a stretch of time
MAX_SLOTS = 60
FEWEST = 8  # samples of a stretch; where there are fewer, the nearest in time: a machine's pace drifts

Quantiles = tuple[float, ...]
"""Of a time in ms, at RANKS."""
Slots = tuple[Quantiles, ...]
"""By stretches of time, the last one for ever; (): it takes no time."""
Samples = Sequence[tuple[float, float]]
"""(ms since the start of the trace, what was measured in ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HopLatencies:
    """Distributions of ms by kind of hop; the draws for a request are independent of every other draw."""

    slot_ms: float = SLOT_MS
    arrive: Slots = ()  # created -> routed
    fetch: Slots = ()  # routed -> generating begins, at a worker that has nothing to do
    paint: Slots = ()  # what a call takes more (or less) than its profile says, for each image in it
    paint_of: Mapping[str, Slots] = field(default_factory=dict)  # the same by variant; another one's is `generate`
    rest: Slots = ()  # from the end of a call to the beginning of the next, where jobs wait: stores, sends, commits
    judge: Slots = ()  # generated -> ended or routed again, the discriminator's own latency not counted
    plan: Slots = ()  # the planner has looked -> its plan is written


NO_LATENCIES = HopLatencies()
NO_VARIANTS: Mapping[str, Slots] = {}
KINDS = ("arrive", "fetch", "paint", "rest", "judge", "plan")


def of_kinds(
    kinds: Mapping[str, Slots], paint_of: Mapping[str, Slots] = NO_VARIANTS, width_ms: float = SLOT_MS
) -> HopLatencies:
    """Build hop latencies from distributions by name; a hop without one takes no time."""
    return HopLatencies(slot_ms=width_ms, paint_of=paint_of, **{kind: kinds.get(kind, ()) for kind in KINDS})


def slot_ms(span_ms: float) -> float:
    """Length in ms of a slot of a run this long."""
    return max(SLOT_MS, span_ms / MAX_SLOTS)


def slots(samples: Samples, width_ms: float, span_ms: float) -> Slots:
    """The distributions of what was measured; a stretch with few samples has those nearest to its middle."""
    if not samples:
        return ()
    at_ms, values = (np.array(column, dtype=np.float64) for column in zip(*samples, strict=True))
    if np.isinf(width_ms):
        return (_quantiles(values),)
    places = np.clip(at_ms // width_ms, 0, None)

    def of_slot(slot: int) -> Quantiles:
        own = values[places == slot]
        if len(own) >= FEWEST:
            return _quantiles(own)
        away_ms = np.abs(at_ms - (slot + 0.5) * width_ms)
        return _quantiles(values[np.argsort(away_ms, kind="stable")[:FEWEST]])

    return tuple(of_slot(slot) for slot in range(int(span_ms // width_ms) + 1))


def whole(samples: Samples) -> Slots:
    """Return one distribution for a whole run."""
    return slots(samples, np.inf, 0.0)


def _quantiles(values: np.ndarray) -> Quantiles:
    return tuple(np.quantile(values, RANKS).round(2).tolist())


def sample(distribution: Quantiles, ranks: np.ndarray) -> np.ndarray:
    """Values at these ranks in [0, 1)."""
    return np.asarray(np.interp(ranks, RANKS, distribution))
