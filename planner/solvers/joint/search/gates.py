"""Chooses the gates by local search: each set is judged by the remaining linear program.

Begins at what the relaxation held at the price of a worker. A step takes one gate away, adds one or puts one in place
of another, those first that gain most at the prices which the program itself names. What is left out can cost
quality, never feasibility.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from planner.solvers.joint.program.capacity import GRID, straight
from planner.solvers.joint.program.problem import SHED, SPENT, Gate, Problem
from planner.solvers.joint.search.latency_targets import LatencyTarget, choose_targets, targets_by_cost
from planner.solvers.joint.search.linear import Answer, Linear, VariantCapacity
from planner.solvers.joint.search.relaxation import Gates, Start

EASY = 5  # programs a level, fewer than which leave time to climb from the next best too
ENDS = 4  # of the best sets, which are made whole
ROUNDS = 8
CLIMB = 60  # programs after which no more sets are tried: .0002 spans on average, 64 workers and 8 levels
TRIED = 3  # sets a step
GAIN = 1e-4  # spans of quality: less is no improvement


class Found(NamedTuple):
    """Gates with what the program makes of them."""

    gates: Gates
    modes: dict[int, int]  # variant -> its mode
    capacities: dict[int, VariantCapacity]
    answer: Answer

    @property
    def value(self) -> float:
        """Higher is better."""
        return self.answer.value


class Search:
    """One problem's search, with what it knows by now."""

    def __init__(self, problem: Problem, linear: Linear) -> None:
        self.problem, self.linear = problem, linear
        self.ways: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for g in sorted(range(len(problem.gates)), key=lambda g: problem.gates[g].threshold):
            self.ways[way_of(problem.gates[g])].append(g)
        self._in_ways = np.array([g for way in self.ways.values() for g in way], dtype=int)
        self._firsts = np.cumsum([0, *map(len, self.ways.values())])
        self._legs = np.array([(gate.level, gate.next_level) for gate in problem.gates], dtype=int).reshape(-1, 2)
        self._gate_of, self._straight_to = (np.array([option[at] for option in problem.options]) for at in (0, 1))
        self._open_legs = [gate._replace(threshold=0.0, refine_from_step=0) for gate in problem.gates]
        self._compatibles: dict[int, np.ndarray] = {}
        self._seen: dict[Gates, Found] = {}
        self._targets: dict[tuple[int, int], list[LatencyTarget]] = {}
        self._capacities: dict[tuple[int, int, int], VariantCapacity] = {}
        self._modes: dict[tuple[frozenset[Gate], tuple[int, ...]], dict[int, int] | None] = {}

    def best(self, starts: Iterable[Start], counts: np.ndarray) -> list[Found]:
        """Return the best plan found from these starts. `counts`: [V] workers, roughly."""
        tried = (self.free(start.gates, counts) or self.free(start.taken, counts) for start in starts)
        begun = [found for found in tried if found]
        for found in sorted(begun, key=lambda found: -found.value):
            if self.linear.asked < EASY * len(self.problem.levels):
                self._climbed(found)
        return sorted(self._seen.values(), key=lambda found: -found.value)[:ENDS]

    def _climbed(self, found: Found) -> Found:
        """From here to where no step helps."""
        for _ in range(ROUNDS):
            if self.linear.asked >= CLIMB:
                return found
            better = self._stepped(found)
            if better.value <= found.value + GAIN:
                return found
            found = better
        return found

    def _stepped(self, found: Found) -> Found:
        """The best of some steps: one gate less, or one more than that or than now, those first that may gain most."""
        fewer = self.fewer(found)
        best = max([found, *fewer.values()], key=lambda one: one.value)
        for gates, most in self.promising(found, fewer):
            if most > best.value + GAIN and (other := self.free(gates, found.answer.staff)):
                best = max(best, other, key=lambda one: one.value)
        return best

    def fewer(self, found: Found) -> dict[Gates, Found]:
        """With one gate less."""
        sets = [found.gates - {g} for g in found.gates] if len(found.gates) > 1 else []
        return {gates: other for gates in sets if (other := self.free(gates, found.answer.staff))}

    def promising(self, found: Found, fewer: Mapping[Gates, Found], most: int = TRIED) -> list[tuple[Gates, float]]:
        """Some sets of one gate more than that or than `fewer`, with bounds on their values, the highest first."""
        band_gains, sets = self.linear.gains_at_prices(self.prices(found)), dict[Gates, float]()
        self._promising(found.gates, found, 0.0, band_gains, sets)
        for g in found.gates if len(found.gates) > 1 else ():
            held = found.gates - {g}
            spares = self._spared(found, held)
            if held in fewer:
                taken = band_gains[list(held)].max(axis=0)
                spares = max(spares, fewer[held].value - self._value_at_prices(found, taken))
            self._promising(held, found, spares, band_gains, sets)
        sets.pop(found.gates, None)
        return sorted(sets.items(), key=lambda one: -one[1])[:most]

    def _spared(self, found: Found, held: Gates) -> float:
        """The value, at a worker's price, of the workers that only the other gates need, whatever little they do."""
        needed = {level for g in held for level in self.problem.levels_of(self.problem.gates[g])}
        idle = 0.0
        for v, capacity in found.capacities.items():
            if v not in needed:
                has_slack = found.answer.prices[v] < SPENT
                idle += float(found.answer.staff[v]) if has_slack else capacity.line.lost / capacity.line.slope
        return found.answer.price * idle

    def _value_at_prices(self, found: Found, taken: np.ndarray) -> float:
        """Return the program's value at its prices if bands took the shares `taken`."""
        return found.value + float((taken - found.answer.bands).sum())

    def _promising(
        self, held: Gates, found: Found, spares: float, band_gains: np.ndarray, sets: dict[Gates, float]
    ) -> None:
        """Add the sets of these gates and one more that may gain most, one of each way, and bounds on their values."""
        taken = np.full_like(band_gains, -SHED)  # [G, C] of what stays when a gate comes
        for g in held:
            np.maximum(taken, band_gains[g], out=taken, where=self._compatible(g)[:, None])
        gains = np.maximum(band_gains, taken).sum(axis=1)[self._in_ways]
        known = found.value + spares - float(found.answer.bands.sum())
        most = np.maximum.reduceat(gains, self._firsts[:-1])
        for way in np.argsort(-most, kind="stable")[: TRIED + 1]:  # one may be what is held now
            first, end = self._firsts[way : way + 2]
            comes = int(self._in_ways[first + gains[first:end].argmax()])
            with_it = frozenset((*(g for g in held if self._compatible(g)[comes]), comes))
            sets[with_it] = max(known + float(most[way]), sets.get(with_it, -np.inf))

    def _compatible(self, g: int) -> np.ndarray:
        """[G] whether a gate is compatible with this one: one a level is in force, and nothing is judged twice."""
        if g not in self._compatibles:
            gate, (levels, nexts) = self.problem.gates[g], self._legs.T
            again = (nexts >= 0) & ((levels == gate.next_level) | ((nexts == gate.level) & (gate.next_level >= 0)))
            self._compatibles[g] = (levels != gate.level) & ~again
        return self._compatibles[g]

    def free(self, gates: Gates, counts: np.ndarray) -> Found | None:
        """These gates, those that nothing takes left out, and workers not whole. `counts`: [V] workers, roughly."""
        about = self._about(counts)
        modes = self._choose_modes(frozenset(self._open_legs[g] for g in gates), about)
        if modes is None:
            return None
        capacities = {v: self._capacity(v, m, about[v]) for v, m in modes.items()}
        answer = self.linear.ask(gates, capacities)
        if not answer:
            return None
        kept = self._used(gates, answer)
        if kept and kept != gates:
            return self.free(kept, answer.staff)
        found = Found(gates, modes, capacities, answer)
        self._seen[gates] = max(found, self._seen.get(gates, found), key=lambda one: one.value)
        return found

    def _choose_modes(self, legs: frozenset[Gate], about: tuple[int, ...]) -> dict[int, int] | None:
        if (legs, about) not in self._modes:
            targets = list(map(self._targets_of, range(len(about)), about))
            images = [count / its[0].staff_s if its else 0.0 for count, its in zip(about, targets, strict=True)]
            self._modes[legs, about] = choose_targets(self.problem, legs, images, targets)
        return self._modes[legs, about]

    def _used(self, gates: Gates, answer: Answer) -> Gates:
        taken = answer.options[(answer.given > SPENT).any(axis=0)]
        used, straight_to = (set(of[taken].tolist()) for of in (self._gate_of, self._straight_to))
        return frozenset(g for g in gates if g in used or self.problem.gates[g].level in straight_to)

    def _about(self, counts: np.ndarray) -> tuple[int, ...]:
        """Counts of the grid; of who has none yet as if some came."""
        some = max(1, self.problem.workers // 8)
        return tuple(GRID[bisect(GRID, max(1, count)) - 1] if count > 0 else some for count in counts.tolist())

    def _targets_of(self, v: int, count: int) -> list[LatencyTarget]:
        if (v, count) not in self._targets:
            self._targets[v, count] = targets_by_cost(self.problem.modes[v], count)
        return self._targets[v, count]

    def _capacity(self, v: int, m: int, count: int) -> VariantCapacity:
        if (v, m, count) not in self._capacities:
            line = straight(self.problem.modes[v][m], count, self.problem.workers).lines[0]
            self._capacities[v, m, count] = VariantCapacity(line)
        return self._capacities[v, m, count]

    def prices(self, found: Found) -> np.ndarray:
        """Return [V] the price of an image a second: the program's, or without workers, by a worker's price."""
        about = self._about(found.answer.staff)
        targets = map(self._targets_of, range(len(about)), about)
        prices = np.array([its[0].staff_s if its else np.inf for its in targets])
        of_worker = found.answer.price + np.where(np.array(self.problem.before) > 0, 0.0, -self.linear.came)
        np.multiply(prices, of_worker, out=prices, where=np.isfinite(prices))  # a worker may cost nothing
        for v in found.capacities:
            prices[v] = found.answer.prices[v]
        return prices


def way_of(gate: Gate) -> tuple[object, ...]:
    """Return the key of gates that differ in threshold and step only."""
    return gate.level, gate.next_level, gate.discriminator, gate.extra_s
