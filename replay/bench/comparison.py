"""One symmetric rule for ahead, even and behind, used wherever a bench compares two policies.

Both sides have the same seeds, so that arrivals and draws are the same in each pair, and differences are paired.

    even        the interval of the mean difference lies within the margin: no difference that matters
    ahead       else, the first side is better beyond chance, corrected for all comparisons of the table
    behind      the same, the second side is
    undecided   else: more redraws are needed

The interval is Student's t at LEVEL, wider than 95 %, as differences of violations and FID are skewed: on simulated
draws with the skewness of a gamma distribution of shape 2 it covers the mean in 94 % of cases at 10 pairs, where the
interval at 95 % covers it in 92; on 69 redraws of azure-1to8 on hadis-l40s (hadis against diffserve), resampled, in 95
to 97 %. Chance is corrected by Holm's step-down procedure (1979) at the level 1 - LEVEL.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

from replay.reports.intervals import reach

LEVEL: Final = 0.97
FID_MARGIN: Final = 0.05
FACTS_MARGIN: Final = 0.003
AHEAD, EVEN, BEHIND, UNDECIDED = "ahead", "even", "behind", "undecided"


class PairedDifference(NamedTuple):
    """By how much the first side is better than the second, over seeds."""

    mean: float
    low: float  # of the interval; -inf with one pair
    high: float
    p: float  # that chance alone makes such a difference, two-sided; 1 with one pair
    pairs: int


def margin_of(scale: str) -> float:
    """Return the difference of quality that does not matter, on a catalog's scale."""
    return FID_MARGIN if scale == "fid" else FACTS_MARGIN


def paired(first: Sequence[float], second: Sequence[float]) -> PairedDifference:
    """Compare two sides seed by seed; more is better."""
    assert len(first) == len(second) > 0, f"{len(first)} and {len(second)} values are no pairs"
    apart = [a - b for a, b in zip(first, second, strict=True)]
    mean, n = statistics.fmean(apart), len(apart)
    if n == 1:
        return PairedDifference(mean, -math.inf, math.inf, 1.0, n)
    deviation = statistics.stdev(apart)
    error = deviation / math.sqrt(n)
    if error <= 1e-12 * max(1.0, abs(mean)):
        return PairedDifference(mean, mean, mean, 1.0 if mean == 0 else 0.0, n)
    from scipy.stats import t

    half = reach(n, LEVEL) * deviation
    return PairedDifference(mean, mean - half, mean + half, 2 * float(t.sf(abs(mean) / error, n - 1)), n)


def verdicts(differences: Sequence[PairedDifference], margin: float | Sequence[float]) -> list[str]:
    """Return the verdict on each of a table's comparisons. `margin`: of all, or one each."""
    margins = [margin] * len(differences) if isinstance(margin, int | float) else list(margin)
    beyond = _beyond_chance([each.p for each in differences])
    return [_verdict(each, own, is_sure=sure) for each, own, sure in zip(differences, margins, beyond, strict=True)]


def _verdict(difference: PairedDifference, margin: float, *, is_sure: bool) -> str:
    if -margin <= difference.low and difference.high <= margin:
        return EVEN
    if not is_sure:
        return UNDECIDED
    return AHEAD if difference.mean > 0 else BEHIND


def _beyond_chance(values: Sequence[float]) -> list[bool]:
    """Holm: the smallest of m is held against alpha / m, the next against alpha / (m - 1), until one fails."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    found = [False] * len(values)
    for rank, at in enumerate(order):
        if values[at] > (1 - LEVEL) / (len(values) - rank):
            break
        found[at] = True
    return found


def in_words(difference: PairedDifference, digits: int = 2) -> str:
    """Format a difference with its interval."""
    if difference.pairs == 1:
        return f"{difference.mean:+.{digits}f}"
    return f"{difference.mean:+.{digits}f} [{difference.low:+.{digits}f}, {difference.high:+.{digits}f}]"
