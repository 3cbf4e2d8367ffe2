"""Computes the quality of a run's answers on a scale that is no mean over images, as FID is.

Assumed, of every policy alike: the answers of a stretch of 20 s are judged together as one mixture, and a run is the
mean over its stretches, however full, as in planner/policies/SOURCES.md 5. So no policy makes up for a bad stretch by
mixing it with another. What one mixture is worth, and why that is fair to all, is said in `planner/catalog/quality.py`.
"""

import statistics
from collections import Counter
from collections.abc import Sequence

from planner.catalog.model import Catalog, Pair
from planner.catalog.quality import Judged, mixture_quality
from replay.simulation.results.run_metrics import Span


def spans_quality(spans: Sequence[Span], catalog: Catalog) -> float | None:
    """Mean over spans of what each is worth; None where a level's quality is unknown, or of none."""
    qualities = [span_quality(span, catalog) for span in spans]
    known = [quality for quality in qualities if quality is not None]
    return statistics.fmean(known) if known and len(known) == len(qualities) else None


def heavy_share(span: Span, best: str) -> float:
    """The share of the answers of one stretch that the best level generated."""
    counts = [(level, count) for answers in span.values() for (level, _), count in answers.items()]
    return sum(count for level, count in counts if level == best) / sum(count for _, count in counts)


def span_quality(span: Span, catalog: Catalog) -> float | None:
    """Return the quality of one stretch's answers together; None where a level's quality is unknown."""
    total = sum(sum(answers.values()) for answers in span.values())
    by_chance: Counter[str] = Counter()
    judged = []
    for judges, answers in span.items():
        chosen = ((judges[0], False), (judges[1], True)) if judges else ()
        for answer, count in answers.items():
            if answer not in chosen:
                by_chance[answer[0]] += count
        if judges:
            kept, again = (answers.get(answer, 0) / total for answer in chosen)
            judged += [Judged(Pair(*judges), kept, again)] if kept + again > 0 else []
    return mixture_quality(catalog, {level: count / total for level, count in by_chance.items() if count}, judged)
