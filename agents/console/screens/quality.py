"""*Quality*: confidences against thresholds, expected beside observed figures, and reuse."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from agents.console.screens.context import Context
from agents.console.screens.now import heavy_share
from planner.catalog.entries import deferred_share
from planner.catalog.evidence.estimates import share_interval
from planner.catalog.model import Catalog
from planner.reuse.neighbour import Miss
from schemas.errors import InvalidRecord
from schemas.messages import Status
from streams.operator.explain import steps_of

BANDS: Final = 10  # of confidence
ENOUGH: Final = 30  # min scored images of a level for a comparison with the catalog's curve
LOOKED_AT: Final = 4000  # newest requests


class Interval(NamedTuple):
    """A share with its interval of 95 %."""

    value: float
    low: float
    high: float
    of: int


def wilson(hits: int, of: int) -> Interval | None:
    """Return a share with its interval; None if `of` is 0. Source: Wilson 1927, score interval."""
    if of == 0:
        return None
    return Interval(hits / of, *share_interval(hits / of, of), of)


@dataclass(slots=True)
class Level:
    """The scored images of a level, by bands of confidence."""

    name: str
    discriminator: str = ""
    threshold: float | None = None  # the newest
    bands: list[int] = field(default_factory=lambda: [0] * BANDS)
    escalated: list[int] = field(default_factory=lambda: [0] * BANDS)


def values(context: Context) -> dict[str, Any]:
    """Return what the template shows."""
    levels: dict[str, Level] = {}
    made: Counter[str] = Counter()
    escalated, completed, versions = 0, 0, Counter[int]()
    reused: Counter[str] = Counter()
    similarities: list[float] = []
    for seen in context.view.requests.newest(most=LOOKED_AT):
        result = seen.result
        if result is None or result.status is not Status.COMPLETED:
            continue
        completed += 1
        made[result.level or "?"] += 1
        escalated += result.escalated
        versions[result.plan_version or 0] += 1
        if result.reused:
            reused["hit"] += 1
            similarities.append(result.similarity or 0.0)
        elif result.reuse_miss and result.reuse_miss != Miss.ROUTE:  # else nothing was looked up
            reused[result.reuse_miss] += 1
        try:
            steps = steps_of(result)
        except InvalidRecord:
            continue
        for number, step in enumerate(steps):
            if step.confidence is None:
                continue
            level = levels.setdefault(step.level, Level(step.level))
            band = min(BANDS - 1, max(0, int(step.confidence * BANDS)))
            level.bands[band] += 1
            level.escalated[band] += number < len(steps) - 1
            if level.threshold is None and step.threshold is not None:
                level.threshold, level.discriminator = step.threshold, step.discriminator
    best = context.view.catalog.best().name
    plan = context.view.plans.plan
    looked_up = reused.total()
    return {
        "levels": [chart(level, context.view.catalog) for level in levels.values()], "completed": completed,
        "heavy": wilson(made[best], completed), "best": best, "escalated": wilson(escalated, completed),
        "enough": ENOUGH,
        "expected": plan.expected if plan else None, "plan": plan, "made": made.most_common(),
        "heavy_now": heavy_share(context, context.view.traffic.total(context.now_ms).levels),
        "hits": wilson(reused["hit"], looked_up), "misses": [each for each in reused.most_common() if each[0] != "hit"],
        "similarity": sum(similarities) / len(similarities) if similarities else None,
        "versions": [version for version, _ in versions.most_common(8) if version],
    }  # fmt: skip


def chart(level: Level, catalog: Catalog) -> dict[str, Any]:
    """Return a level's bars, in percent of the highest, each with its share that escalated and the interval of that."""
    most = max(level.bands) or 1
    bars = [
        {
            "from": band / BANDS, "to": (band + 1) / BANDS, "count": count, "height": 100 * count / most,
            "escalated": wilson(level.escalated[band], count),
            "again": 100 * level.escalated[band] / most,
        }
        for band, count in enumerate(level.bands)
    ]  # fmt: skip
    total = sum(level.bands)
    return {
        "name": level.name, "bars": bars, "threshold": level.threshold, "discriminator": level.discriminator,
        "total": total, "escalated": wilson(sum(level.escalated), total), **calibration(level, catalog),
    }  # fmt: skip


def calibration(level: Level, catalog: Catalog) -> dict[str, Any]:
    """Return the shares below each confidence, measured by the catalog and observed, for a plot of 100 by 100.

    Plans use the catalog's: where the observed differ, plans expect wrong loads.
    """
    known = catalog.discriminators.get(level.discriminator)
    total, below = sum(level.bands), 0
    seen = [(0.0, 100.0)]
    for band, count in enumerate(level.bands, 1):
        below += count
        seen.append((100 * band / BANDS, 100 - 100 * below / max(1, total)))
    measured = (
        [(100 * t / 20, 100 - 100 * deferred_share(known, t / 20)) for t in range(21)] if known is not None else []
    )
    expected = deferred_share(known, level.threshold) if known is not None and level.threshold is not None else None
    return {"seen": _points(seen), "measured": _points(measured), "deferred": expected}


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
