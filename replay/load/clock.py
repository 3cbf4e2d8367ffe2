"""Epoch time as time of the trace: pauses between interrupted sessions of a run take no time."""

from collections.abc import Mapping

import numpy as np


class TraceClock:
    """Runs from each published request on until the next one's arrival."""

    def __init__(self, arrival_ms: np.ndarray, created_ms: Mapping[int, int]) -> None:
        assert created_ms, "a run of which nothing was published has no time"
        numbers = np.array(sorted(created_ms), dtype=np.int64)
        self._epoch_ms = np.maximum.accumulate(np.array([created_ms[n] for n in numbers.tolist()], dtype=np.float64))
        self._trace_ms = arrival_ms[numbers]

    def __call__(self, epoch_ms: float) -> float:
        """Ms since the start of the trace; negative before the first request, unbounded after the last."""
        at = max(0, int(np.searchsorted(self._epoch_ms, epoch_ms, side="right")) - 1)
        passed_ms = float(self._trace_ms[at] + epoch_ms - self._epoch_ms[at])
        is_last = at == len(self._trace_ms) - 1
        return passed_ms if is_last else min(passed_ms, float(self._trace_ms[at + 1]))
