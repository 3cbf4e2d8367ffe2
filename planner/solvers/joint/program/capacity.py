"""The capacity of n workers of a variant within a latency target, piecewise linear over n: workers are counts.

Room for queueing grows with the number of workers, so that what they carry together is convex in it. Between the
counts of a fixed grid it is taken as straight, at most a few per cent too much for three or five workers, less above.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from planner.solvers.joint.one_level import throughput
from planner.solvers.joint.program.problem import Line, Mode

Room = Callable[[int, np.ndarray], np.ndarray]
"""(servers, waits allowed in run times) -> the highest utilisations, [0, 1]: never a constant (design, 5)."""

GRID = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
FAR = 4  # times fewer workers than guessed for which a line must still hold


def modes(run_s: Mapping[int, float], targets_s: Sequence[float], workers: int, room: Room) -> tuple[Mode, ...]:
    """Return a mode for each latency target, the max time of an image; each count uses its best batch size.

    `run_s`: batch -> seconds of a call. A target that no batch can meet has no mode.
    """
    if not targets_s or not run_s:
        return ()
    grid = [n for at, n in enumerate(GRID) if at == 0 or GRID[at - 1] < workers]
    batches, seconds = np.array(list(run_s)), np.array(list(run_s.values()))
    budgets = np.array(targets_s)[:, None] / seconds - 1  # [target, batch] in run times
    most = np.array([n * room(n, budgets) for n in grid]) * (budgets >= 0)  # [n, target, batch] busy workers
    rates = most * batches / seconds
    lines = [tuple(_lines(grid, batches, rates[:, i], workers)) for i in range(len(targets_s))]
    return tuple(Mode(target_s, pieces) for target_s, pieces in zip(targets_s, lines, strict=True) if pieces)


def draft_modes(run_s: Mapping[int, float], targets_s: Sequence[float], workers: int) -> tuple[Mode, ...]:
    """Return modes for levels that only get escalated images, which need no room for queueing.

    An image that would wait too long is not escalated (`planner.serving.routing.escalation`) and the draft is kept:
    overload costs quality, never a late answer, so the best plan keeps these workers busy. Of targets with equal rates
    only the shortest has a mode.
    """
    made = modes(run_s, sorted(targets_s), workers, _all)
    shortest = {mode.lines: mode for mode in reversed(made)}
    return tuple(mode._replace(has_draft=True) for mode in shortest.values())


def straight(mode: Mode, count: float, workers: int) -> Mode:
    """One line for a mode: through its line at `count`, and nowhere above what the mode carries.

    It holds from a quarter of `count` on, and from one worker where that is less than four.
    """
    line = _line_at(mode, count)
    if line is None:
        return mode
    least = max(mode.lines[0].least, round(count / FAR))
    ends = [n for piece in mode.lines for n in (piece.least, piece.most) if n >= least]
    lost = max(line.slope * n - max(throughput(piece, n) for piece in mode.lines) for n in ends)
    return mode._replace(lines=(Line(least, workers, line.slope, lost, line.batch),))


def staff_s(mode: Mode, count: float) -> float:
    """Return the worker-seconds of an image with `count` workers in a mode; inf if they can meet no target."""
    line = _line_at(mode, count)
    if line is None:
        return float("inf")
    at = min(max(count, line.least), line.most)
    rate = line.slope * at - line.lost
    return at / rate if rate > 0 else float("inf")


def _line_at(mode: Mode, count: float) -> Line | None:
    return next((line for line in mode.lines if count < line.most + 1), mode.lines[-1] if mode.lines else None)


def _all(servers: int, budgets: np.ndarray) -> np.ndarray:
    del servers
    return np.where(budgets >= 0, 1.0, 0.0)


def _lines(grid: Sequence[int], batches: np.ndarray, rates: np.ndarray, workers: int) -> list[Line]:
    """Chords from each count of the grid to the next, in the batch that is best at the lower; `rates`: [n, batch]."""
    if len(grid) == 1:
        best = int(np.argmax(rates[0]))
        return [Line(1, workers, float(rates[0, best]), 0.0, int(batches[best]))] if rates[0, best] > 0 else []
    found: list[Line] = []
    for at, (least, above) in enumerate(itertools.pairwise(grid)):
        best = int(np.argmax(rates[at]))
        rate = float(rates[at, best])
        slope = (float(rates[at + 1, best]) - rate) / (above - least)
        most = workers if at + 2 == len(grid) else above - 1
        if rate > 0:
            _join(found, Line(least, most, slope, slope * least - rate, int(batches[best])))
    return found


def _join(lines: list[Line], line: Line) -> None:
    """Neighbours that lie on one straight line are one: without waiting there is only one."""
    last = lines[-1] if lines else None
    if last and last.batch == line.batch and _near(last.slope, line.slope) and _near(last.lost, line.lost):
        lines[-1] = last._replace(most=line.most)
    else:
        lines.append(line)


def _near(left: float, right: float) -> bool:
    return abs(left - right) <= 1e-9 * max(1.0, abs(left))
