"""A large problem made small: the options and modes among which a good plan lies.

What is left out can cost quality, never feasibility: a line that stands for several promises no more than any of them.
"""

from collections.abc import Sequence

from planner.joint.market import Timings
from planner.joint.one_level import carried
from planner.joint.problem import Gate, Line, Mode, Problem, Solution
from planner.joint.relaxation import Guess

FIRST = (1, 2, 4, 8)  # how many thresholds to either side of the relaxation's are offered too
SECOND = (1, 2)  # of the first answer's
FAR = 4  # times fewer workers than guessed for which a line must still hold


def offered(problem: Problem, guess: Guess) -> list[int]:
    """The options of the gates that the relaxation took, their neighbours', and all that keep every picture."""
    return _options(problem, _near(problem, guess.gates, FIRST))


def around(problem: Problem, found: Solution) -> list[int]:
    """The options around a plan."""
    return _options(problem, _near(problem, frozenset(found.gates), SECOND))


def modes_around(problem: Problem, counts: Sequence[float], timings: Timings) -> list[list[Mode]]:
    """Per variant the modes that the ways' timings name, each as one line that is exact near the count."""
    named: list[set[int]] = [set() for _ in problem.variants]
    for way, choices in timings.items():
        for at, mode in (pair for timing in choices for pair in zip(way, timing, strict=True)):
            if at >= 0 and mode >= 0:
                named[problem.variant_of[at]].add(mode)
    return [
        [straight(problem.modes[v][m], counts[v], problem.workers) for m in sorted(named[v])]
        for v in range(len(problem.variants))
    ]


def straight(mode: Mode, count: float, workers: int) -> Mode:
    """One line for a mode: through its line at `count`, and nowhere above what the mode carries.

    It holds from a quarter of `count` on, and from one worker where that is less than four.
    """
    line = next((line for line in mode.lines if count < line.most + 1), mode.lines[-1] if mode.lines else None)
    if line is None:
        return mode
    least = max(mode.lines[0].least, round(count / FAR))
    ends = [n for piece in mode.lines for n in (piece.least, piece.most) if n >= least]
    lost = max(line.slope * n - max(carried(piece, n) for piece in mode.lines) for n in ends)
    return mode._replace(lines=(Line(least, workers, line.slope, lost, line.batch),))


def _near(problem: Problem, gates: frozenset[int], steps: Sequence[int]) -> set[int]:
    """These gates, those so many thresholds to either side, and all that keep every picture."""
    ways: dict[tuple[object, ...], list[int]] = {}
    for g, gate in enumerate(problem.gates):
        ways.setdefault(_way(gate), []).append(g)
    near = {g for g, gate in enumerate(problem.gates) if gate.next_level < 0}
    for way in ways.values():
        way.sort(key=lambda g: problem.gates[g].threshold)
        for at, g in enumerate(way):
            if g in gates:
                near |= {way[at + d] for step in (0, *steps) for d in (-step, step) if 0 <= at + d < len(way)}
    return near


def _way(gate: Gate) -> tuple[object, ...]:
    return gate.level, gate.next_level, gate.discriminator, gate.paint_over_step


def _options(problem: Problem, gates: set[int]) -> list[int]:
    return [o for o, option in enumerate(problem.options) if option.gate in gates]
