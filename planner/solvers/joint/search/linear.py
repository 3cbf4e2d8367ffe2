"""The joint problem with its gates and latency targets given: a linear program for shares and, where free, workers.

A search asks dozens of times, so the tables are made once and the solver (HiGHS) runs in this process, going on from
where it ended as options open and close and capacities change.

Rows: bands, what is painted [V], who came [V], all workers. Columns: shed [C], staff [V], came [V], and for each
option its bands, which come when it is first open and are held at 0 while it is not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import highspy
import numpy as np

from planner.solvers.joint.program.problem import SHED, Line, Objective, Problem, objective

INF = highspy.kHighsInf
SETTINGS: dict[str, bool | int | str] = {"output_flag": False, "threads": 1, "presolve": "off", "solver": "simplex"}
DECIDED = {highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible}
MAX_COLUMNS = 200  # beyond which the program begins anew


class VariantCapacity(NamedTuple):
    """The capacity of a variant: as many workers of a line as suit, or a given number with its rate."""

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

    value: float  # the objective: `Score.value`
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
        self._answers: dict[tuple[frozenset[int], frozenset[tuple[int, VariantCapacity]]], Answer | None] = {}
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

    def ask(self, gates: Iterable[int], capacities: Mapping[int, VariantCapacity]) -> Answer | None:
        """The best under these gates with these capacities (variant -> capacity); None where there is none."""
        key = frozenset(gates), frozenset(capacities.items())
        if key not in self._answers:
            options = self._open(key[0])
            self.asked += bool(len(options))
            self._answers[key] = self._solved(options, capacities) if len(options) else None
        return self._answers[key]

    def _solved(self, options: np.ndarray, capacities: Mapping[int, VariantCapacity]) -> Answer | None:
        ended = self._program.run(options, capacities)
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

    def gains_at_prices(self, pictures: np.ndarray) -> np.ndarray:
        """[G, C] what a band gains by a gate's best option, net of work at these prices of a picture a second, [V]."""
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


class Ended(NamedTuple):
    """What a run found."""

    value: float
    columns: np.ndarray
    duals: np.ndarray  # of the rows


class Warm:
    """The program in HiGHS. `work`: [O, C, V] pictures a second of all a band's requests by an option."""

    def __init__(self, problem: Problem, terms: Objective, work: np.ndarray) -> None:
        self._bands, self._variants, self._workers = len(problem.shares), len(problem.levels), problem.workers
        self._before, self._terms, self._work = np.array(problem.before, float), terms, work
        self._solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in SETTINGS.items():
            self._solver.setOptionValue(name, value)
        self._begin()

    def run(self, options: np.ndarray, capacities: Mapping[int, VariantCapacity]) -> Ended | None:
        """The best with these options open and these capacities (variant -> capacity); None where there is none.

        What cannot be decided from where the last run ended is tried from the beginning before it is given up.
        """
        if self._columns > MAX_COLUMNS:
            self._begin()
        is_new = self._columns == self._head
        status = self._ran(options, capacities)
        if status not in DECIDED and not is_new:
            self._begin()
            status = self._ran(options, capacities)
        if status != highspy.HighsModelStatus.kOptimal:
            return None
        found = self._solver.getSolution()
        return Ended(self._solver.getObjectiveValue(), np.array(found.col_value), np.array(found.row_dual))

    def _ran(self, options: np.ndarray, capacities: Mapping[int, VariantCapacity]) -> object:
        """How a run ended; None where the solver failed."""
        self._admit(options)
        self._set_capacities(capacities)
        try:
            self._solver.run()
        except Exception:  # whatever a solver does, planning goes on with what is known by now
            return None
        return self._solver.getModelStatus()

    def given(self, ended: Ended, options: np.ndarray) -> np.ndarray:
        """[C, options] share of a band served by each."""
        return np.asarray(ended.columns[self._column[options] + np.arange(self._bands)[:, None]])

    def _begin(self) -> None:
        """A program without options."""
        bands, n = self._bands, self._variants
        table = np.zeros((bands + 2 * n + 1, bands + 2 * n))
        variant = np.arange(n)
        table[:bands, :bands] = np.eye(bands)
        table[bands + n + variant, bands + variant] = 1
        table[bands + n + variant, bands + n + variant] = -1
        table[-1, bands : bands + n] = 1
        rows, columns = np.nonzero(table)
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = table.shape
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = np.concatenate([self._terms.shed, np.zeros(n), self._terms.came])
        model.col_lower_ = np.zeros(bands + 2 * n)
        model.col_upper_ = np.concatenate([np.ones(bands), np.zeros(n), np.full(n, self._workers)])
        model.row_lower_ = np.concatenate([np.ones(bands), np.full(2 * n + 1, -INF)])
        model.row_upper_ = np.concatenate([np.ones(bands), np.zeros(n), self._before, [self._workers]])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.searchsorted(rows, np.arange(len(table) + 1))
        model.a_matrix_.index_, model.a_matrix_.value_ = columns, table[rows, columns]
        self._solver.passModel(model)
        self._columns = self._head = bands + 2 * n
        self._column = np.full(len(self._work), -1)  # [O] an option's first; -1: it has none
        self._opened = np.zeros(len(self._work), dtype=bool)
        self._capacities: list[VariantCapacity | None] = [None] * n

    def _admit(self, options: np.ndarray) -> None:
        """Open these options and no others."""
        wanted = np.zeros_like(self._opened)
        wanted[options] = True
        known = options[self._column[options] >= 0]
        self._bound(np.flatnonzero(self._opened & ~wanted), known[~self._opened[known]])
        if new := options[self._column[options] < 0].tolist():
            self._add(new)
        self._opened = wanted

    def _bound(self, closed: np.ndarray, opened: np.ndarray) -> None:
        options = np.concatenate([closed, opened])
        if n := len(options) * self._bands:
            columns = (self._column[options][:, None] + np.arange(self._bands)).ravel().astype(np.int32)
            most = np.repeat([0.0, 1.0], [len(closed) * self._bands, len(opened) * self._bands])
            self._solver.changeColsBounds(n, columns, np.zeros(n), most)

    def _add(self, options: list[int]) -> None:
        bands, n = self._bands, self._bands * len(options)
        table = np.zeros((n, bands + self._variants))
        table[:, :bands] = np.tile(np.eye(bands), (len(options), 1))
        table[:, bands:] = self._work[options].reshape(n, -1)
        columns, rows = np.nonzero(table)
        starts = np.searchsorted(columns, np.arange(n)).astype(np.int32)
        cost = self._terms.given[options].ravel()
        self._solver.addCols(
            n, cost, np.zeros(n), np.ones(n), len(rows), starts, rows.astype(np.int32), table[columns, rows]
        )
        self._column[options] = self._columns + bands * np.arange(len(options))
        self._columns += n

    def _set_capacities(self, capacities: Mapping[int, VariantCapacity]) -> None:
        """Change the program from the last run's capacities to these."""
        bands = self._bands
        for v in range(self._variants):
            capacity = capacities.get(v)
            if capacity != self._capacities[v]:
                self._capacities[v] = capacity
                low, high = capacity.span if capacity else (0, 0)
                self._solver.changeColBounds(bands + v, low, high)
                self._solver.changeRowBounds(bands + v, -INF, capacity.base if capacity else 0.0)
                if capacity:
                    self._solver.changeCoeff(bands + v, bands + v, -capacity.slope)
