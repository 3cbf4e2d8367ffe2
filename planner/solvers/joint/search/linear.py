"""The joint problem with its gates and latency targets given: a linear program for shares and, where free, workers.

A search solves it dozens of times, so the tables are made once and the solver (HiGHS) runs in this process.

Columns: shed [C], staff [V], workers that came [V], and the shares of each open option [P, C]. Rows: bands [C], images
generated [V], workers that came [V], all workers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import highspy
import numpy as np

from planner.solvers.joint.program.problem import SHED, Line, Problem, objective

INF = highspy.kHighsInf
SETTINGS: dict[str, bool | int | str] = {"output_flag": False, "threads": 1, "presolve": "off", "solver": "simplex"}


class VariantCapacity(NamedTuple):
    """The capacity of a variant: a free number of workers on a line, or a given number with its rate."""

    line: Line
    workers: int = 0  # 0: free, from the line's least on
    rate: float = 0.0  # images a second of that count

    @property
    def span(self) -> tuple[int, int]:
        """The fewest and the most workers."""
        return (self.workers, self.workers) if self.workers else (self.line.least, self.line.most)

    @property
    def slope(self) -> float:
        """Images a second that each worker adds to `base`."""
        return 0.0 if self.workers else self.line.slope

    @property
    def base(self) -> float:
        """Images a second at 0 workers on the line, or of the given number."""
        return self.rate if self.workers else -self.line.lost


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The best shares, and workers where they are free."""

    value: float  # the objective: `Score.value`
    options: np.ndarray  # [P] the open options
    given: np.ndarray  # [C, P]
    shed: np.ndarray  # [C]
    staff: np.ndarray  # [V] not whole where free
    price: float  # value of one more worker
    prices: np.ndarray  # [V] of one more image a second
    bands: np.ndarray  # [C] value of all requests of a band


class Linear:
    """A problem's tables, and its program."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.asked = 0  # programs
        self._answers: dict[tuple[frozenset[int], frozenset[tuple[int, VariantCapacity]]], Answer | None] = {}
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
        self._solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in SETTINGS.items():
            self._solver.setOptionValue(name, value)

    def ask(self, gates: Iterable[int], capacities: Mapping[int, VariantCapacity]) -> Answer | None:
        """The best under these gates with these capacities (variant -> capacity); None where there is none."""
        key = frozenset(gates), frozenset(capacities.items())
        if key not in self._answers:
            options = self._open(key[0])
            self.asked += bool(len(options))
            self._answers[key] = self._solved(options, capacities) if len(options) else None
        return self._answers[key]

    def _solved(self, options: np.ndarray, capacities: Mapping[int, VariantCapacity]) -> Answer | None:
        bands, n = len(self._problem.shares), len(self._problem.levels)
        self._solver.passModel(self._model(options, capacities))
        try:
            self._solver.run()
        except Exception:  # whatever a solver does, planning goes on with what is known by now
            return None
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = self._solver.getSolution()
        columns, duals = np.array(found.col_value), np.array(found.row_dual)
        return Answer(
            value=self._solver.getObjectiveValue(),
            options=options,
            given=columns[bands + 2 * n :].reshape(-1, bands).T,
            shed=columns[:bands],
            staff=columns[bands : bands + n],
            price=abs(float(duals[-1])),
            prices=np.abs(duals[bands : bands + n]),
            bands=duals[:bands],
        )

    def gains_at_prices(self, prices: np.ndarray) -> np.ndarray:
        """Return [G, C] a band's gain by a gate's best option, net of work. `prices`: [V] of an image a second."""
        found = np.full((self._n_gates, len(self._problem.shares)), -SHED)
        net = self._terms.given - self._work @ np.where(np.isfinite(prices), prices, SHED)
        found[self._gates] = np.maximum.reduceat(net[self._in_order], self._starts, axis=0)
        return found

    def _open(self, gates: Iterable[int]) -> np.ndarray:
        """Return the options of these gates; those with a direct path to a level only if it keeps all its images."""
        held = sorted(gates)
        plain = {level for level, g in self._plain.items() if g in held} | {-1}
        return np.array([o for g in held for o, straight_to in self._options[g] if straight_to in plain], dtype=int)

    def _model(self, options: np.ndarray, capacities: Mapping[int, VariantCapacity]) -> Any:
        problem, terms = self._problem, self._terms
        bands, n, shares = len(problem.shares), len(problem.levels), len(options) * len(problem.shares)
        every = [capacities.get(v) for v in range(n)]
        spans = np.array([each.span if each else (0, 0) for each in every], dtype=float)
        variant, head = np.arange(n), bands + 2 * n
        table = np.zeros((head + 1, head + shares))
        table[:bands, :bands] = np.eye(bands)
        table[:bands, head:] = np.tile(np.eye(bands), len(options))
        table[bands + variant, bands + variant] = [-each.slope if each else 0.0 for each in every]
        table[bands : bands + n, head:] = self._work[options].reshape(shares, n).T
        table[bands + n + variant, bands + variant] = 1
        table[bands + n + variant, bands + n + variant] = -1
        table[-1, bands : bands + n] = 1
        rows, columns = np.nonzero(table)
        base = [each.base if each else 0.0 for each in every]
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = table.shape
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = np.concatenate([terms.shed, np.zeros(n), terms.came, terms.given[options].ravel()])
        model.col_lower_ = np.concatenate([np.zeros(bands), spans[:, 0], np.zeros(n + shares)])
        model.col_upper_ = np.concatenate([np.ones(bands), spans[:, 1], np.full(n, problem.workers), np.ones(shares)])
        model.row_lower_ = np.concatenate([np.ones(bands), np.full(2 * n + 1, -INF)])
        model.row_upper_ = np.concatenate([np.ones(bands), base, problem.before, [problem.workers]])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.searchsorted(rows, np.arange(len(table) + 1))
        model.a_matrix_.index_, model.a_matrix_.value_ = columns, table[rows, columns]
        return model
