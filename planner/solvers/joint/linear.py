"""The joint problem with its gates and promises given: a linear program for the shares and, where free, the workers.

A search asks dozens of times, so the tables are made once and the solver (HiGHS) runs in this process.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from planner.solvers.joint.objective import objective
from planner.solvers.joint.problem import SHED, Problem
from planner.solvers.joint.warm import Crew, Warm


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The best shares, and workers where they are free."""

    value: float  # the objective: `Score.value` with work at its price
    options: np.ndarray  # [P] the open options
    given: np.ndarray  # [C, P]
    shed: np.ndarray  # [C]
    staff: np.ndarray  # [V] not whole where free
    price: float  # what one more worker would add
    pictures: np.ndarray  # [V] what one more picture a second would cost
    bands: np.ndarray  # [C] what all requests of a band bring


class Linear:
    """A problem's tables, and its program."""

    def __init__(self, problem: Problem) -> None:
        bands, variants = len(problem.shares), len(problem.levels)
        self.asked = 0  # programs
        self._answers: dict[tuple[frozenset[int], frozenset[tuple[int, Crew]]], Answer | None] = {}
        self._bands, self._variants = bands, variants
        self._plain = {gate.level: g for g, gate in enumerate(problem.gates) if gate.next_level < 0}
        self._options: list[list[tuple[int, int]]] = [[] for _ in problem.gates]  # with where hard prompts go
        for o in np.flatnonzero(problem.possible):
            self._options[problem.options[o].gate].append((int(o), problem.options[o].straight_to))
        self._terms = objective(problem)
        self._work = problem.demand_rps * problem.shares[:, None] * problem.load  # [O, C, V]
        self.came = self._terms.came  # [V] what a worker adds that comes
        ordered = [int(o) for options in self._options for o, _ in options]
        self._in_order, self._gates = np.array(ordered, dtype=int), [g for g, its in enumerate(self._options) if its]
        starts = np.cumsum([0, *(len(its) for its in self._options)])[:-1]
        self._starts, self._n_gates = starts[self._gates], len(problem.gates)
        self._program = Warm(problem, self._terms, self._work)

    def ask(self, gates: Iterable[int], crews: Mapping[int, Crew]) -> Answer | None:
        """The best under these gates with these crews (variant -> crew); None where there is none."""
        key = frozenset(gates), frozenset(crews.items())
        if key not in self._answers:
            options = self._open(key[0])
            self.asked += bool(len(options))
            self._answers[key] = self._solved(options, crews) if len(options) else None
        return self._answers[key]

    def _solved(self, options: np.ndarray, crews: Mapping[int, Crew]) -> Answer | None:
        ended = self._program.run(options, crews)
        if ended is None:
            return None
        _, columns, duals = ended
        bands, n = self._bands, self._variants
        return Answer(
            value=ended.value,
            options=options,
            given=self._program.given(ended, options),
            shed=columns[:bands],
            staff=columns[bands : bands + n],
            price=abs(float(duals[-1])),
            pictures=np.abs(duals[bands : bands + n]),
            bands=duals[:bands],
        )

    def worth(self, pictures: np.ndarray) -> np.ndarray:
        """[G, C] what a band gains by a gate's best option at these prices of a picture a second, [V]."""
        found = np.full((self._n_gates, self._bands), -SHED)
        price = np.where(np.isfinite(pictures), pictures, SHED)
        net = self._terms.given - self._work @ price
        found[self._gates] = np.maximum.reduceat(net[self._in_order], self._starts, axis=0)
        return found

    def _open(self, gates: Iterable[int]) -> np.ndarray:
        """The options of these gates; where hard prompts go straight, all pictures are kept."""
        held = sorted(gates)
        plain = {level for level, g in self._plain.items() if g in held} | {-1}
        return np.array([o for g in held for o, straight_to in self._options[g] if straight_to in plain], dtype=int)
