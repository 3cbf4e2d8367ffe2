"""Whether images have become worse than they were: the signal to learn judges again.

Source: ARGUS 4.1, 5.5: retrain when the median score of the current window falls below the moving average of previous
windows. We differ: each window in turn would do that half of the time by chance alone, so the fall must be significant,
by a sign test of the window's scores against the median of the previous ones, with a chance `ERROR` a window of a false
alarm. After an alarm what came before it is forgotten.
"""

import math
from collections import deque
from statistics import NormalDist, fmean, median
from typing import Final, NamedTuple

WINDOW: Final = 1000  # scores
PREVIOUS: Final = 8  # windows
ERROR: Final = 1e-4  # chance of an alarm a window where nothing has changed


class Drift(NamedTuple):
    """A window whose scores are worse than those before it."""

    median: float
    before: float  # moving average of the medians of the previous windows
    scores: int  # in the window

    def in_words(self) -> str:
        """Return it as one sentence."""
        return f"the median score of the last {self.scores} images is {self.median:.3g}, before {self.before:.3g}"


class DriftWatch:
    """Reads the scores of images, one by one, in the order in which they were served. Knows no clock."""

    def __init__(self, window: int = WINDOW, previous: int = PREVIOUS, error: float = ERROR) -> None:
        """`window`: scores of one; `previous`: windows that a new one is compared with, the last so many."""
        self._size, self._limit = window, NormalDist().inv_cdf(1 - error)
        self._previous, self._window = deque[list[float]](maxlen=previous), list[float]()

    def add(self, score: float) -> Drift | None:
        """Take one score; return the drift where it ends a window that is worse than those before."""
        self._window.append(score)
        if len(self._window) < self._size:
            return None
        window, self._window = self._window, []
        drift = self._compared(window)
        if drift is not None:
            self._previous.clear()
        self._previous.append(window)
        return drift

    def _compared(self, window: list[float]) -> Drift | None:
        if not self._previous:
            return None
        middle = median([score for each in self._previous for score in each])
        below = sum((score < middle) + 0.5 * (score == middle) for score in window)
        # the median of the previous scores is known as well as their number allows
        spread = math.sqrt(self._size / 4 * (1 + 1 / len(self._previous)))
        if below - self._size / 2 <= self._limit * spread:
            return None
        return Drift(median(window), fmean(map(median, self._previous)), len(window))
