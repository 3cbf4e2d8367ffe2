"""The columns of a trace while it is read: each text and each set of overrides is kept once."""

from array import array
from collections.abc import Mapping

import numpy as np

from replay.traces.trace import NOT_GIVEN, Overrides, Row, Trace


class Columns:
    """Rows are appended, and become a trace in the end."""

    def __init__(self) -> None:
        self._arrival, self._slack, self._hardness = array("d"), array("d"), array("d")
        self._prompt, self._seed, self._wish = array("q"), array("q"), array("i")
        self._texts: dict[str, int] = {}
        self._wishes: dict[Overrides, int] = {}
        self._ids: list[str] = []
        self._has_ids = False

    def __len__(self) -> int:
        return len(self._arrival)

    def append(self, row: Row) -> None:
        """Append a request, with a text or with an index, as all before it have."""
        if row.prompt is not None:
            prompt = self._texts.setdefault(row.prompt, len(self._texts))
        else:
            prompt = NOT_GIVEN if row.prompt_index is None else row.prompt_index
        self._arrival.append(row.arrival_ms)
        self._prompt.append(prompt)
        self._wish.append(self._wishes.setdefault(row.wish, len(self._wishes)))
        self._slack.append(np.nan if row.slack_ms is None else row.slack_ms)
        self._seed.append(NOT_GIVEN if row.seed is None else row.seed)
        self._hardness.append(np.nan if row.hardness is None else row.hardness)
        self._ids.append(row.request_id)
        self._has_ids = self._has_ids or bool(row.request_id)

    def trace(self, name: str, source: str, start_ms: float | None, skipped: Mapping[str, int]) -> Trace:
        """Return the trace, in order of arrival; `start_ms` is its zero, the first arrival for None."""
        arrival_ms = np.array(self._arrival, dtype=np.float64)
        order = np.argsort(arrival_ms, kind="stable")
        if start_ms is None:
            start_ms = float(arrival_ms[order[0]]) if len(self) else 0.0
        return Trace(
            name=name,
            source=source,
            arrival_ms=arrival_ms[order] - start_ms,
            texts=tuple(self._texts),
            prompt=np.array(self._prompt, dtype=np.int64)[order],
            wishes=tuple(self._wishes),
            wish=np.array(self._wish, dtype=np.int32)[order],
            slack_ms=np.array(self._slack, dtype=np.float64)[order],
            seed=np.array(self._seed, dtype=np.int64)[order],
            hardness=np.array(self._hardness, dtype=np.float64)[order],
            ids=tuple(self._ids[row] for row in order.tolist()) if self._has_ids else (),
            skipped=dict(skipped),
        )
