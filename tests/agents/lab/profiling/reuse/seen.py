"""Builders of what was observed of a stream, without a model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.lab.profiling.reuse.observed import Marks, Neighbours, Observed
from planner.reuse.guard import Comparison, Verdict
from planner.reuse.terms import Difference

EQUAL = Comparison(Verdict.EQUAL)
UNSURE = Comparison(Verdict.UNSURE)
STEPS = 4


def differing(*kinds: Difference) -> Comparison:
    return Comparison(Verdict.DIFFERS, frozenset(kinds))


def marks(holds: Any) -> Marks:
    """Of bool [n]; where not all facts hold, half of them do."""
    quality = np.asarray(holds, float)
    return Marks(quality, (1 + quality) / 2)


def an_observed(
    similarity: Sequence[float],
    begun: Callable[[int, np.ndarray], Any],
    comparisons: Sequence[Comparison] | None = None,
    **changes: Any,
) -> Observed:
    """Requests of which all but the first have an earlier one; `begun(K, similarity)`: whether its facts hold then."""
    n = len(similarity) + 1
    near = np.array([np.nan, *similarity])
    compared = comparisons if comparisons is not None else [EQUAL] * (n - 1)
    noise = changes.pop("noise", np.ones(n, bool))
    nearest = {k: marks(np.where(np.isnan(near), np.nan, begun(k, np.nan_to_num(near)))) for k in range(1, STEPS)}
    values: dict[str, Any] = {
        "steps": STEPS,
        "prompts": tuple(f"prompt {at}" for at in range(n)),
        "vectors": np.eye(n),
        "neighbours": Neighbours(
            nearest=np.arange(n) - 1,
            similarity=near,
            comparisons=(None, *compared),
            is_exact=np.zeros(n, bool),
            unrelated=np.array([-1, *[0] * (n - 1)]),
        ),
        "noise": marks(noise),
        "nearest": nearest,
        "unrelated": nearest,
    }
    return Observed(**values | changes)
