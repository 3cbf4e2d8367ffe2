"""The joint problem with its gates and promises given: a linear program for the shares and, where free, the workers.

A search asks dozens of times, so the tables are made once and the solver (HiGHS) runs in this process.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import highspy
import numpy as np

from planner.joint.objective import Thrift, objective
from planner.joint.problem import SHED, Line, Problem

INF = highspy.kHighsInf
SETTINGS: dict[str, bool | int | str] = {"output_flag": False, "threads": 1, "presolve": "off", "solver": "simplex"}


class Crew(NamedTuple):
    """What serves a variant: as many workers of a line as suit, or so many that carry so much."""

    line: Line
    workers: int = 0  # 0: free, from the line's least on
    rate: float = 0.0  # pictures a second of that count

    @property
    def span(self) -> tuple[int, int]:
        """The fewest and the most workers."""
        return (self.workers, self.workers) if self.workers else (self.line.least, self.line.most)

    @property
    def slope(self) -> float:
        """Pictures a second that each adds to `base`."""
        return 0.0 if self.workers else self.line.slope

    @property
    def base(self) -> float:
        """Pictures a second, however many there are."""
        return self.rate if self.workers else -self.line.lost


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
    floor: float  # what merit is worth beyond itself, to reach the floor


class Linear:
    """A problem's tables. Rows: bands, what is painted [V], who came [V], all workers, merit."""

    def __init__(self, problem: Problem, thrift: Thrift | None = None) -> None:
        bands, variants = len(problem.shares), len(problem.levels)
        self.asked = 0  # programs
        self._passed: tuple[frozenset[int], list[int]] = frozenset(), []
        self._answers: dict[tuple[frozenset[int], frozenset[tuple[int, Crew]]], Answer | None] = {}
        self._bands, self._variants, self._workers = bands, variants, problem.workers
        self._one_each = np.eye(bands)
        self._plain = {gate.level: g for g, gate in enumerate(problem.gates) if gate.next_level < 0}
        self._options: list[list[tuple[int, int]]] = [[] for _ in problem.gates]  # with where hard prompts go
        for o in np.flatnonzero(problem.possible):
            self._options[problem.options[o].gate].append((int(o), problem.options[o].straight_to))
        self._terms = objective(problem, thrift)
        self._work = problem.demand_rps * problem.shares[:, None] * problem.load  # [O, C, V]
        self._before, self._floor = np.array(problem.before, dtype=float), thrift.floor if thrift else -INF
        self.came = self._terms.came  # [V] what a worker adds that comes
        ordered = [int(o) for options in self._options for o, _ in options]
        self._in_order, self._gates = np.array(ordered, dtype=int), [g for g, its in enumerate(self._options) if its]
        starts = np.cumsum([0, *(len(its) for its in self._options)])[:-1]
        self._starts, self._n_gates = starts[self._gates], len(problem.gates)
        self._solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in SETTINGS.items():
            self._solver.setOptionValue(name, value)

    def ask(self, gates: Iterable[int], crews: Mapping[int, Crew]) -> Answer | None:
        """The best under these gates with these crews (variant -> crew); None where there is none."""
        key = frozenset(gates), frozenset(crews.items())
        if key not in self._answers:
            self.asked += 1
            self._answers[key] = self._solved(*key)
        return self._answers[key]

    def _solved(self, gates: frozenset[int], held: frozenset[tuple[int, Crew]]) -> Answer | None:
        crews = sorted(held)
        options, variants = self._open(gates), [v for v, _ in crews]
        if (gates, variants) == self._passed:  # only crews are others: goes on from where it ended
            self._man(len(options), crews)
        else:
            self._solver.passModel(self._model(options, variants, [crew for _, crew in crews]))
            self._passed = gates, variants
        try:
            self._solver.run()
        except Exception:  # whatever a solver does, planning goes on with what is known by now
            return None
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._solver.getSolution()
        columns, duals = np.array(solution.col_value), np.array(solution.row_dual)
        served, n = self._bands * len(options), len(variants)
        staff, pictures = np.zeros(self._variants), np.zeros(self._variants)
        staff[variants] = columns[served + self._bands : served + self._bands + n]
        pictures[variants] = np.abs(duals[self._bands : self._bands + n])
        return Answer(
            value=self._solver.getInfo().objective_function_value,
            options=options,
            given=columns[:served].reshape(len(options), self._bands).T,
            shed=columns[served : served + self._bands],
            staff=staff,
            price=abs(float(duals[-2])),
            pictures=pictures,
            bands=duals[: self._bands],
            floor=abs(float(duals[-1])),
        )

    def _model(self, options: np.ndarray, variants: Sequence[int], crews: Sequence[Crew]) -> highspy.HighsLp:
        """Rows: bands, what is painted, who came, all workers, merit. Columns: given, shed, staff, came."""
        bands, n, served = self._bands, len(variants), self._bands * len(options)
        first = served + bands
        table = np.zeros((bands + 2 * n + 2, first + 2 * n))
        crew = np.arange(n)
        table[:bands, :first] = np.tile(self._one_each, len(options) + 1)
        table[bands : bands + n, :served] = self._work[options][:, :, variants].reshape(served, n).T
        table[bands + n + crew, first + crew] = 1
        table[bands + n + crew, first + n + crew] = -1
        table[-2, first : first + n] = 1
        table[-1, :served] = self._terms.merit[options].ravel()
        low, high = np.zeros(first + 2 * n), np.ones(first + 2 * n)
        for at, one in enumerate(crews):
            low[first + at], high[first + at] = one.span
            table[bands + at, first + at] = -one.slope
        high[first + n :] = self._workers
        rows, columns = np.nonzero(table)
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = table.shape
        model.sense_ = highspy.ObjSense.kMaximize
        terms = self._terms
        model.col_cost_ = np.concatenate([terms.given[options].ravel(), terms.shed, np.zeros(n), terms.came[variants]])
        model.col_lower_, model.col_upper_ = low, high
        carried = [one.base for one in crews]
        model.row_lower_ = np.concatenate([np.ones(bands), np.full(2 * n + 1, -INF), [self._floor]])
        model.row_upper_ = np.concatenate([np.ones(bands), carried, self._before[variants], [self._workers, INF]])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.searchsorted(rows, np.arange(len(table) + 1))
        model.a_matrix_.index_, model.a_matrix_.value_ = columns, table[rows, columns]
        return model

    def _man(self, options: int, crews: Sequence[tuple[int, Crew]]) -> None:
        """Put other crews into the program that was solved last."""
        bands = self._bands
        for at, (_, crew) in enumerate(crews):
            column = bands * options + bands + at
            self._solver.changeColBounds(column, *crew.span)
            self._solver.changeCoeff(bands + at, column, -crew.slope)
            self._solver.changeRowBounds(bands + at, -INF, crew.base)

    def worth(self, pictures: np.ndarray, floor: float) -> np.ndarray:
        """[G, C] what a band gains by a gate's best option at these prices: a picture a second [V], and merit."""
        found = np.full((self._n_gates, self._bands), -SHED)
        price = np.where(np.isfinite(pictures), pictures, SHED)
        net = self._terms.given + floor * self._terms.merit - self._work @ price
        found[self._gates] = np.maximum.reduceat(net[self._in_order], self._starts, axis=0)
        return found

    def _open(self, gates: Iterable[int]) -> np.ndarray:
        """The options of these gates; where hard prompts go straight, all pictures are kept."""
        held = sorted(gates)
        plain = {level for level, g in self._plain.items() if g in held} | {-1}
        return np.array([o for g in held for o, straight_to in self._options[g] if straight_to in plain], dtype=int)
