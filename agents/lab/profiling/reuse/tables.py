"""The tables of a profile's caching: by similarity, by kind of difference, by route, against fewer steps."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from agents.lab.profiling.reuse.floors import bounded, change, pairs_of_one_kind, steps_skipped
from agents.lab.profiling.reuse.observed import Marks, Observed
from agents.lab.profiling.reuse.replay import Capacity, replay
from agents.profiling.statistics.intervals import Resampling, mean, proportion
from planner.catalog.caching import (
    AgainstFewerSteps,
    BegunFrom,
    Bounded,
    EvictionSavings,
    HitRate,
    MeasuredFloor,
    RouteSavings,
    SimilarityBand,
)
from planner.catalog.reuse import Neighbours
from planner.reuse.eviction import ORDERS
from planner.reuse.guard import Compare, Comparison, Verdict
from planner.reuse.terms import Floors, GuardShares

BANDS: Final = (-1.0, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)  # of similarity
CAPACITIES: Final = (0.005, 0.01, 0.02, 0.05)  # of the index, as a share of the requests
MIN_ROWS: Final = 10  # requests; of fewer no row is written
_NOWHERE: Final = -1.0  # a similarity that every neighbour has


def bands(seen: Observed, how: Resampling) -> tuple[SimilarityBand, ...]:
    """Quality by K and band of similarity: of all requests, and of those that the guard passes."""
    found: list[SimilarityBand] = []
    similarity, passes = seen.neighbours.similarity, seen.neighbours.passes
    for low, high in pairwise(BANDS):
        inside = (similarity >= low) & ((similarity < high) | (high == BANDS[-1]))
        for passed in (False, True):
            chosen = inside & passes if passed else inside
            rows = seen.nearest_rows[chosen[seen.nearest_rows]]
            if len(rows) >= MIN_ROWS:
                begun = begun_from(seen, seen.nearest, rows, how)
                found.append(SimilarityBand(low=low, high=high, passed=passed, begun=begun))
    return tuple(found)


def begun_from(seen: Observed, begun: Mapping[int, Marks], rows: np.ndarray, how: Resampling) -> tuple[BegunFrom, ...]:
    """Quality and facts of some requests by K, from noise too; paired with the same prompts and seeds from noise."""
    noise = seen.noise.at(rows)
    each = {0: noise} | {step: begun[step].at(rows) for step in seen.starts}
    return tuple(
        BegunFrom(
            share=seen.share(step),
            pairs=len(rows),
            quality=bounded(proportion(marks.quality == 1)),
            facts=bounded(mean(marks.facts, how)),
            change=bounded(change(marks, noise)) if step else Bounded(0.0, 0.0, 0.0),
            facts_change=bounded(mean(marks.facts - noise.facts, how)),
        )
        for step, marks in each.items()
    )


def differences(seen: Observed, how: Resampling) -> dict[str, tuple[BegunFrom, ...]]:
    """Kind of difference -> quality by K of the requests that differ from their nearest one in that kind alone."""
    return {
        str(kind): begun_from(seen, seen.nearest, rows, how)
        for kind, rows in pairs_of_one_kind(seen).items()
        if len(rows) >= MIN_ROWS
    }


def verdicts(seen: Observed) -> dict[str, float]:
    """Return the guard's verdict on the nearest one -> share of all requests; "none" without an earlier one."""
    named = ["none" if each is None else str(each.verdict) for each in seen.neighbours.comparisons]
    names, counts = np.unique(named, return_counts=True)
    return {str(name): round(float(count / seen.count), 5) for name, count in zip(names, counts, strict=True)}


def neighbours(seen: Observed, guard: GuardShares) -> tuple[Neighbours, ...]:
    """Return how many requests have a nearest one in each band of similarity, and how its facts compare."""
    near = seen.neighbours
    found: list[Neighbours] = []
    for low, high in pairwise((*BANDS, np.inf)):
        rows = [at for at in near.rows if low <= near.similarity[at] < high]
        said = [_said(near.known(at), guard) for at in rows]
        if rows:
            shares = {word: said.count(word) / len(said) for word in sorted(set(said))}
            found.append(Neighbours(low, round(len(rows) / seen.count, 5), shares))
    return tuple(found)


def _said(compared: Comparison, guard: GuardShares) -> str:
    """A verdict in one word: of several kinds of difference that of which the guard allows least."""
    if compared.verdict is not Verdict.DIFFERS:
        return str(compared.verdict)
    allowed = {str(kind): guard.differs.get(kind, 0.0) for kind in compared.differences}
    return min(sorted(allowed), key=lambda word: allowed[word])


def hit_rates(seen: Observed, alone: Sequence[MeasuredFloor]) -> tuple[HitRate, ...]:
    """Hits by floor, rising: at the bounds of the bands, and at every floor that was found."""
    near = seen.neighbours
    similarities = sorted({*BANDS[:-1], *(floor.similarity for floor in alone)})
    hits = [(each, near.passes & (near.similarity >= each)) for each in similarities]
    return tuple(
        HitRate(each, round(float(rows.mean()), 5), round(float((rows & near.is_exact).mean()), 5))
        for each, rows in hits
    )


def against_fewer_steps(
    seen: Observed, alone: Sequence[MeasuredFloor], how: Resampling
) -> tuple[AgainstFewerSteps, ...]:
    """Reuse at each K against N - K steps from noise, where the guard passes, above the floor of K if there is one."""
    floors = {floor.share: floor.similarity for floor in alone}
    found: list[AgainstFewerSteps] = []
    for step in sorted(seen.fewer):
        similarity = floors.get(seen.share(step), _NOWHERE)
        rows = np.flatnonzero(seen.neighbours.passes & (seen.neighbours.similarity >= similarity))
        if len(rows) < MIN_ROWS:
            continue
        reuse, fewer = seen.nearest[step].at(rows), seen.fewer[step].at(rows)
        found.append(
            AgainstFewerSteps(
                share=seen.share(step),
                similarity=similarity,
                pairs=len(rows),
                reuse_quality=bounded(proportion(reuse.quality == 1)),
                fewer_quality=bounded(proportion(fewer.quality == 1)),
                quality=bounded(change(reuse, fewer)),
                facts=bounded(mean(reuse.facts - fewer.facts, how)),
            )
        )
    return tuple(found)


def evictions(
    seen: Observed, best: RouteSavings | None, guard: GuardShares, compare: Compare
) -> tuple[EvictionSavings, ...]:
    """Return what the best route saves where the index holds few images, by the order in which they leave."""
    if best is None:
        return ()
    found: list[EvictionSavings] = []
    for entries in sorted({max(1, round(share * seen.count)) for share in CAPACITIES}):
        for name in ORDERS:
            played = replay(seen, Floors(best.floors), guard, compare, best.share, Capacity(entries, name))
            hits, saved = float((played.steps > 0).mean()), float(played.steps.mean()) / seen.steps
            found.append(EvictionSavings(name, entries, round(hits, 5), round(saved, 5)))
    return tuple(found)


def routes(
    seen: Observed, floors: Mapping[int, Floors], guard: GuardShares, compare: Compare, how: Resampling
) -> tuple[RouteSavings, ...]:
    """Return what each route saves and loses on the stream, with its floors. Hits are those of `replay`."""
    found: list[RouteSavings] = []
    for step, allowed in sorted(floors.items()):
        share = seen.share(step)
        played = replay(seen, allowed, guard, compare, share)
        begun = seen.begun(steps_skipped(seen, allowed, guard, share))
        found.append(
            RouteSavings(
                share=share,
                floors=allowed.floors,
                hit_rate=round(float((played.steps > 0).mean()), 5),
                exact_rate=round(float(((played.steps > 0) & played.is_exact).mean()), 5),
                saved_share=round(float(played.steps.mean()) / seen.steps, 5),
                saved_exact_share=round(float((played.steps * played.is_exact).mean()) / seen.steps, 5),
                change=bounded(change(begun, seen.noise)),
                facts_change=bounded(mean(begun.facts - seen.noise.facts, how)),
            )
        )
    return tuple(found)
