"""Runs cells in several processes; a cell asked for twice runs once."""

import dataclasses
import multiprocessing
import os
import pathlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from types import TracebackType
from typing import Self

from replay.bench.papers.arrivals import open_trace
from replay.bench.papers.cells import Cell, Found, run
from replay.traces import Trace
from schemas.errors import PochadeError

Run = Callable[[Sequence[Cell]], list[Found]]
"""What questions are asked with: cells -> what each came to, in their order."""


class Crew:
    """A context: processes that end with it. `on_run` is told of each cell: how many are asked for, how many done."""

    def __init__(
        self,
        jobs: int,
        folder: pathlib.Path | None,
        limit: int | None,
        on_run: Callable[[int, int], object],
        *,
        is_recorded: bool = False,
        has_hops: bool = True,
    ) -> None:
        """`is_recorded`: all seeds have the same arrivals, as they were recorded or made once.

        `has_hops`: False: cells run without the time between processes, as the papers' simulations do.
        """
        self._folder, self._limit, self._on_run = folder, limit, on_run
        self._is_recorded, self._has_hops = is_recorded, has_hops
        self._known: dict[Cell, Found] = {}
        self._asked = 0
        self._pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_alone)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def cpu_s(self) -> float:
        """Of all runs."""
        return sum(found.cpu_s for found in self._known.values())

    @property
    def runs(self) -> int:
        """That were made."""
        return len(self._known)

    def run(self, cells: Sequence[Cell]) -> list[Found]:
        """What each cell came to. Raises what a run raised."""
        if self._is_recorded:
            cells = [dataclasses.replace(cell, redraws=False) for cell in cells]
        if not self._has_hops:
            cells = [dataclasses.replace(cell, hops=False) for cell in cells]
        new = [cell for cell in dict.fromkeys(cells) if cell not in self._known]
        self._asked += len(new)
        futures = [self._pool.submit(_run, cell, self._folder, self._limit) for cell in new]
        for cell, future in zip(new, futures, strict=True):
            self._known[cell] = future.result()
            self._on_run(self._asked, self.runs)
        return [self._known[cell] for cell in cells]

    def trace(self, name: str, redraw: int | None = None) -> Trace:
        """The trace of this name, or the other draw of its arrivals that cells of the seed `redraw` run on."""
        return open_trace(name, self._folder, self._limit, None if self._is_recorded else redraw)


def _alone() -> None:
    """One thread a process: libraries must not fight for the cores."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def _run(cell: Cell, folder: pathlib.Path | None, limit: int | None) -> Found:
    try:
        return run(cell, _trace(cell.trace, folder, limit, cell.seed if cell.redraws else None))
    except PochadeError as error:  # some of them cannot be pickled: what they say can
        raise PochadeError(str(error)) from None


@lru_cache(maxsize=32)
def _trace(name: str, folder: pathlib.Path | None, limit: int | None, redraw: int | None) -> Trace:
    return open_trace(name, folder, limit, redraw)
