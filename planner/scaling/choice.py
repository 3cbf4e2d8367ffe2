"""Chooses the workers that take a variant's new work. Source: MLoRA 6.1.2, Eq. 4.

    min  sum_i x_i (alpha L_queue(i) + beta sum_{c in R_pred} C_load(c, i) + gamma U_gpu(i)),    sum_i x_i = k

The sum is least with the k workers whose terms are least. As written it adds jobs, seconds and shares; each term is
divided by the largest among the workers, so that the weights of the paper mean what they say.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

QUEUE_WEIGHT: Final = 0.2  # alpha
LOADING_WEIGHT: Final = 0.5  # beta
BUSY_WEIGHT: Final = 0.3  # gamma


class Candidate(NamedTuple):
    """A worker that may take a variant's work."""

    worker: str
    queue: float  # waiting work, in any unit that is the same for all compared
    loading_ms: float  # to load what the predicted requests need and it lacks: `Holdings.missing_ms`
    busy: float  # [0, 1]: utilisation of its device


class Weights(NamedTuple):
    """The weights of Eq. 4; the paper adjusts them to the system's condition and gives typical values."""

    queue: float = QUEUE_WEIGHT
    loading: float = LOADING_WEIGHT
    busy: float = BUSY_WEIGHT


def costs(candidates: Iterable[Candidate], weights: Weights = Weights()) -> dict[str, float]:  # noqa: B008
    """Return the term of Eq. 4 of each worker, by name; a busy share needs no division, as 1 is its largest."""
    known = list(candidates)
    queue = max((each.queue for each in known), default=0.0) or 1.0
    loading = max((each.loading_ms for each in known), default=0.0) or 1.0
    return {
        each.worker: weights.queue * each.queue / queue
        + weights.loading * each.loading_ms / loading
        + weights.busy * each.busy
        for each in known
    }


def choose(candidates: Iterable[Candidate], count: int, weights: Weights = Weights()) -> tuple[str, ...]:  # noqa: B008
    """Return the `count` workers with the least cost, the least first; all where there are fewer. Ties go by name."""
    found = costs(candidates, weights)
    return tuple(sorted(found, key=lambda worker: (found[worker], worker))[: max(0, count)])
