"""Computes the quality of a run's answers on a scale that is no mean over images, as FID is.

Two windows. The papers judge all answers of a run together (`run_quality`). `spans_quality` judges those of each 20 s
together, as in planner/policies/SOURCES.md 5, and takes the mean over answers: no policy makes up for a bad stretch by
mixing it with another. Over a whole run the share that a discriminator deferred is the run's own, as if one threshold
had held throughout: what varies within a run counts for nothing.

The quality of a mixture that was not measured lies between two bounds: `planner/catalog/quality.py`.
"""

from collections import Counter
from collections.abc import Sequence

from planner.catalog.model import Catalog, Pair
from planner.catalog.quality import Judged, mixture_quality
from replay.simulation.results.run_metrics import AGAIN, KEPT, REJECTED, Span


def spans_quality(spans: Sequence[Span], catalog: Catalog, *, is_optimistic: bool = False) -> float | None:
    """Return the mean over answers of their span's joint quality; None without answers or if a quality is unknown."""
    total, answered = 0.0, 0
    for span in spans:
        quality, count = span_quality(span, catalog, is_optimistic=is_optimistic), answers_of(span)
        if quality is None:
            return None
        total, answered = total + count * quality, answered + count
    return total / answered if answered else None


def run_quality(spans: Sequence[Span], catalog: Catalog, *, is_optimistic: bool = False) -> float | None:
    """Quality of all answers of a run together; None where a level's quality is unknown, or of none."""
    whole: Span = {}
    for span in spans:
        for judges, answers in span.items():
            whole.setdefault(judges, Counter()).update(answers)
    return span_quality(whole, catalog, is_optimistic=is_optimistic) if whole else None


def answers_of(span: Span) -> int:
    """Return how many answers a span has."""
    return sum(answers.total() for answers in span.values())


def heavy_share(span: Span, best: str) -> float:
    """The share of the answers of one stretch that the best level generated."""
    counts = [(level, count) for answers in span.values() for (level, _), count in answers.items()]
    return sum(count for level, count in counts if level == best) / sum(count for _, count in counts)


def span_quality(span: Span, catalog: Catalog, *, is_optimistic: bool = False) -> float | None:
    """Return the quality of one stretch's answers together; None where a level's quality is unknown."""
    total = answers_of(span)
    by_chance: Counter[str] = Counter()
    judged = []
    for judges, answers in span.items():
        chosen = ((judges[0], KEPT), (judges[1], AGAIN), (judges[0], REJECTED)) if judges else ()
        for answer, count in answers.items():
            if answer not in chosen:
                by_chance[answer[0]] += count
        if judges:
            kept, again, rejected = (answers.get(answer, 0) / total for answer in chosen)
            judged += [Judged(Pair(*judges), kept, again, rejected)] if kept + again + rejected > 0 else []
    shares = {level: count / total for level, count in by_chance.items() if count}
    return mixture_quality(catalog, shares, judged, is_optimistic=is_optimistic)
