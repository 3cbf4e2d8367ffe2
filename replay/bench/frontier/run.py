"""Runs cells in several processes and keeps each result as it comes. Ctrl-C ends it and loses nothing that was kept."""

import itertools
import pathlib
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from replay.bench.environment.processes import simulating
from replay.bench.frontier.cells import Figures, arguments_of, run
from replay.bench.frontier.grid import GridCell, fleet_of, scale_of
from replay.bench.frontier.results import ResultStore
from replay.bench.papers.runs.arrivals import open_trace
from replay.traces import Trace, read
from schemas.errors import PochadeError
from streams.catalogs import measured

AHEAD = 4  # cells handed to each process beforehand

OnCell = Callable[[int, int], object]
"""Called with how many of the cells are done, and how many there are."""


class TraceFiles:
    """The traces as files, written once, in the form that `pochade simulate` reads; with their scales by catalog."""

    def __init__(
        self, folder: pathlib.Path, published: pathlib.Path | None, names: Sequence[str], limit: int | None
    ) -> None:
        """`published`: folder of the published traces, None for made ones. `limit`: first requests of scaled traces."""
        self.limit = limit
        self.paths = {name: folder / f"{name}.csv" for name in names}
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in self.paths.items():
            text = _text(open_trace(name, published, None))
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
        self._traces = {name: read(path) for name, path in self.paths.items()}

    def arguments(self, cell: GridCell) -> list[str]:
        """Return the arguments of `pochade simulate` that run a cell."""
        return arguments_of(cell, self.paths[cell.trace], self.scale(cell.catalog, cell.trace), self.limit)

    def scale(self, catalog: str, trace: str) -> float:
        """Return by which factor a trace is scaled to a catalog's fleet."""
        return scale_of(self._traces[trace], measured(catalog), fleet_of(catalog).workers)


def _text(trace: Trace) -> str:
    return "\n".join(["arrival_ms", *(repr(at_ms) for at_ms in trace.arrival_ms.tolist())]) + "\n"


def run_cells(
    cells: Sequence[GridCell], traces: TraceFiles, store: ResultStore, jobs: int, on_cell: OnCell
) -> Mapping[str, Figures]:
    """Run those cells whose result is not kept; return key -> figures of all. Raises what a run raised."""
    scales = {pair: traces.scale(*pair) for pair in {(cell.catalog, cell.trace) for cell in cells}}
    missing = {cell.key: cell for cell in cells if cell.key not in store.known}
    done, total = len(cells) - len(missing), len(cells)
    on_cell(done, total)
    waiting = iter(missing.items())
    pool = simulating(jobs, _ignore_interrupts)
    try:
        running: dict[Future[Figures], str] = {}
        while True:
            for key, cell in itertools.islice(waiting, max(0, AHEAD * jobs - len(running))):
                scale = scales[cell.catalog, cell.trace]
                given = arguments_of(cell, traces.paths[cell.trace], scale, traces.limit)
                running[pool.submit(_run, given)] = key
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                store.add(running.pop(future), future.result())
                done += 1
                on_cell(done, total)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return {cell.key: store.known[cell.key] for cell in cells}


def _ignore_interrupts() -> None:
    """Leave an interrupt to the parent, which lets running cells end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(arguments: Sequence[str]) -> Figures:
    try:
        return run(arguments)
    except PochadeError as error:  # some of them cannot be pickled: what they say can
        raise PochadeError(f"{' '.join(arguments)}: {error}") from None
