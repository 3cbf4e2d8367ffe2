"""Runs cells in several processes: each cell once, and none whose results a folder has."""

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Self

from replay.bench.environment.processes import simulating
from replay.bench.frontier.cells import Figures
from replay.bench.frontier.code_state import digest_of
from replay.bench.frontier.grid import GridCell
from replay.bench.frontier.results import ResultStore
from replay.bench.frontier.run import TraceFiles, run_cells
from replay.bench.papers.runs.arrivals import open_trace
from replay.bench.papers.runs.cells import Cell, Found, run
from replay.bench.papers.runs.run_store import RunStore
from replay.traces import Trace
from schemas.errors import PochadeError

Run = Callable[[Sequence[Cell]], list[Found]]
"""Runs cells for a question; returns the result of each, in their order."""


class CellRunner:
    """A context of processes that end with it. `on_run` is called after each cell with how many are asked
    for and how many are done.

    Results are kept in a folder of `pochade bench frontier`, and taken from it.
    """

    def __init__(
        self,
        jobs: int,
        folder: pathlib.Path | None,
        limit: int | None,
        on_run: Callable[[int, int], object],
        *,
        is_recorded: bool = False,
        has_hops: bool = True,
        grid: pathlib.Path | None = None,
    ) -> None:
        """`is_recorded`: all seeds have the same arrivals, as they were recorded or made once.

        `has_hops`: False: cells run without the time between processes, as the papers' simulations do. Neither changes
        cells of the grid. `grid`: folder of results, the grid's cells' and all others'; None if they are not kept.
        """
        self._folder, self._limit, self._on_run = folder, limit, on_run
        self._is_recorded, self._has_hops = is_recorded, has_hops
        self._known: dict[Cell, Found] = {}
        self._graded: dict[str, Figures] = {}
        self._grid, self._jobs = grid, jobs
        self.reused = 0  # runs whose results the folder had
        self._asked = 0
        self._stack, self._store = contextlib.ExitStack(), RunStore()
        self._pool = simulating(jobs)

    def __enter__(self) -> Self:
        if self._grid is not None:
            self._store = self._stack.enter_context(RunStore.open(self._grid, digest_of(self._limit, self._folder)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._stack.close()

    @property
    def cpu_s(self) -> float:
        """CPU time in s of all runs, that of reused ones as it was measured."""
        graded = sum(figures["cpu_s"] for figures in self._graded.values())
        return sum(found.cpu_s for found in self._known.values()) + graded

    @property
    def runs(self) -> int:
        """Number of cells that were run or reused."""
        return len(self._known) + len(self._graded)

    def run(self, cells: Sequence[Cell]) -> list[Found]:
        """Return the result of each cell. Raises what a run raised."""
        if self._is_recorded:
            cells = [dataclasses.replace(cell, redraws=False) for cell in cells]
        if not self._has_hops:
            cells = [dataclasses.replace(cell, hops=False) for cell in cells]
        new = [cell for cell in dict.fromkeys(cells) if cell not in self._known]
        self._asked += len(new)
        taken = {cell: found for cell in new if (found := self._store.of(cell)) is not None}
        self._known, self.reused = self._known | taken, self.reused + len(taken)
        missing = [cell for cell in new if cell not in taken]
        futures = [self._pool.submit(_run, cell, self._folder, self._limit) for cell in missing]
        for cell, future in zip(missing, futures, strict=True):
            self._known[cell] = future.result()
            self._store.add(cell, self._known[cell])
            self._on_run(self._asked, self.runs)
        return [self._known[cell] for cell in cells]

    def grid(self, cells: Sequence[GridCell]) -> list[Figures]:
        """The figures of cells of the frontier's grid, in order. Raises what a run raised."""
        with contextlib.ExitStack() as stack:
            folder = self._grid or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            names = list(dict.fromkeys(cell.trace for cell in cells))
            files = TraceFiles(folder / "traces", self._folder, names, self._limit)
            store = stack.enter_context(ResultStore(folder, digest_of(self._limit, self._folder)))
            keys = {cell.key for cell in cells}
            new, missing = keys - self._graded.keys(), keys - store.known.keys()
            taken = new - missing
            self._asked, self.reused = self._asked + len(new), self.reused + len(taken)
            before, ready = self.runs + len(taken), len(cells) - len(missing)
            found = run_cells(
                cells, files, store, self._jobs, lambda done, _: self._on_run(self._asked, before + done - ready)
            )
        self._graded |= found
        return [found[cell.key] for cell in cells]

    def trace(self, name: str, redraw: int | None = None) -> Trace:
        """The trace of this name, or the other draw of its arrivals that cells of the seed `redraw` run on."""
        return open_trace(name, self._folder, self._limit, None if self._is_recorded else redraw)


def _run(cell: Cell, folder: pathlib.Path | None, limit: int | None) -> Found:
    try:
        return run(cell, _trace(cell.trace, folder, limit, cell.seed if cell.redraws else None))
    except PochadeError as error:  # some of them cannot be pickled: what they say can
        raise PochadeError(str(error)) from None


@lru_cache(maxsize=32)
def _trace(name: str, folder: pathlib.Path | None, limit: int | None, redraw: int | None) -> Trace:
    return open_trace(name, folder, limit, redraw)
