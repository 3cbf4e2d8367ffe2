"""Computes which requests of a trace are left to publish, and when each is due."""

from collections.abc import Container, Sequence
from typing import overload

import numpy as np

from replay.load.driver import Due
from replay.load.identity import Ids
from replay.traces.trace import Trace


class Left(Sequence[Due]):
    """The requests of a trace that are not `published`, the first of them at once, the gaps between them kept.

    Rows are made when they are asked for: a trace of millions needs no more than its columns.
    """

    def __init__(self, trace: Trace, ids: Ids, published: Container[int], deadline_ms: float | None) -> None:
        self._trace, self._ids, self._deadline_ms = trace, ids, deadline_ms
        left = [number for number in range(len(trace)) if number not in published]
        self._numbers = np.array(left, dtype=np.int64)
        self.start_ms = float(trace.arrival_ms[left[0]]) if left and left[0] else 0.0  # of the trace, when this begins

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> Due: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Due]: ...

    def __getitem__(self, at: int | slice) -> Due | Sequence[Due]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = int(self._numbers[at])
        row = self._trace.row(number)
        if row.slack_ms is None:
            row = row._replace(slack_ms=self._deadline_ms)
        return Due(offset_ms=row.arrival_ms - self.start_ms, request_id=self._ids[number], row=row)
