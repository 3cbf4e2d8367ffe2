"""Small joint problems, and their optimum by looking at everything."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.optimize import linprog

from planner.solvers.joint.one_level import throughput
from planner.solvers.joint.program.capacity import modes
from planner.solvers.joint.program.problem import BUSY, SHED, Gate, Line, Mode, Option, Problem, Solution

ROUNDING = 1e-6


def always(servers: int, budgets: np.ndarray) -> np.ndarray:
    """Room of a world without queues."""
    del servers
    return np.where(budgets >= 0, 1.0, 0.0)


def square_root(servers: int, budgets: np.ndarray) -> np.ndarray:
    """Room as square-root staffing has it: more servers and more patience allow more."""
    return np.asarray(np.clip(1 - 0.6 / np.sqrt(servers * np.maximum(budgets, 1e-9)), 0.0, 1.0))


def without_queues(run_s: Mapping[int, float], workers: int, wait_s: float = 0.0) -> tuple[Mode, ...]:
    """A mode for each batch, as in the papers: a fixed wait, and room for all of the run time."""
    return tuple(Mode(wait_s + s, (Line(1, max(workers, 1), b / s, 0.0, b),)) for b, s in run_s.items())


def a_problem(
    quality: Sequence[Sequence[float]],
    run_s: Sequence[float],
    cascades: Sequence[tuple[int, int, float, Sequence[float], Sequence[float]]] = (),
    **changes: object,
) -> Problem:
    """Levels [level][band] with their run times; cascades as (level, next, threshold, phi[band], quality[band])."""
    n, bands = len(run_s), len(quality[0])
    workers = int(changes.get("workers", 4))  # type: ignore[call-overload]
    gates = [*(Gate(v) for v in range(n)), *(Gate(a, b, "judge", t) for a, b, t, _, _ in cascades)]
    load = np.zeros((len(gates), bands, n))
    for v in range(n):
        load[v, :, v] = 1.0
    for at, (a, b, _, phi, _) in enumerate(cascades):
        load[n + at, :, a], load[n + at, :, b] = 1.0, phi
    values: dict[str, object] = {
        "levels": tuple(f"v{v}" for v in range(n)),
        "shares": np.full(bands, 1 / bands),
        "shed_weights": np.ones(bands),
        "gates": tuple(gates),
        "options": tuple(Option(g) for g in range(len(gates))),
        "load": load,
        "quality": np.array([*quality, *(q for *_, q in cascades)], dtype=float),
        "modes": tuple(without_queues({1: s}, workers) for s in run_s),
        "demand_rps": 2.0,
        "slo_s": 10.0,
        "workers": workers,
        "before": (0,) * n,
        "switch_s": (0.0,) * n,
    }
    return Problem(**(values | changes))  # type: ignore[arg-type]


def random_problem(rng: np.random.Generator, levels: int = 3, bands: int = 2, workers: int = 3) -> Problem:
    """Slower is better on average, not for every band; one or two cascades, at two thresholds each; moves cost."""
    run_s = np.sort(rng.uniform(0.1, 2.0, levels))
    quality = np.clip(np.linspace(0.5, 1.0, levels)[:, None] + rng.normal(0, 0.1, (levels, bands)), 0, 1.2)
    pairs = list(itertools.combinations(range(levels), 2))
    rng.shuffle(pairs)
    cascades = []
    for a, b in pairs[: int(rng.integers(1, 3))]:
        phi = np.sort(rng.uniform(0, 1, (2, bands)), axis=0)
        kept = quality[a] + 0.1 * rng.uniform(0, 1, (2, bands))
        cascades += [(a, b, t / 2, phi[t], (1 - phi[t]) * kept[t] + phi[t] * quality[b]) for t in range(2)]
    slo_s = float(rng.uniform(2.5, 8.0))
    made = tuple(modes({1: s, 2: 1.6 * s}, (slo_s, 0.8 * slo_s, 0.2 * slo_s), workers, square_root) for s in run_s)
    return a_problem(
        quality.tolist(), run_s.tolist(), cascades, workers=workers, modes=made, slo_s=slo_s,
        shares=rng.dirichlet(np.ones(bands)), demand_rps=float(rng.uniform(0.2, 1.2) * workers / run_s.mean()),
        before=tuple(int(n) for n in rng.multinomial(workers, np.ones(levels) / levels)),
        switch_s=tuple(rng.uniform(0, 20, levels).tolist()),
    )  # fmt: skip


def best_value(problem: Problem) -> float:
    """The highest score of any plan: every gate a level, mode and count, and a linear program for the shares."""
    best = -SHED * float(problem.shares @ problem.shed_weights)  # everything shed
    candidates = sorted(_candidates(problem), key=lambda candidate: -candidate[0])
    for bound, options, rates, away in candidates:
        if bound <= best:
            break
        best = max(best, _shares(problem, options, rates) - away)
    return best


def _candidates(problem: Problem) -> Iterator[tuple[float, list[int], np.ndarray, float]]:
    """(no plan is above it, options, images a second by variant, cost of moves)."""
    variants, staff = range(len(problem.levels)), max(problem.workers, 1)
    every = itertools.product(range(problem.workers + 1), repeat=len(variants))
    splits = [counts for counts in every if sum(counts) <= problem.workers]
    moved = np.maximum(0, np.array(splits) - problem.before)
    away = moved @ np.array(problem.switch_s) / (staff * problem.hold_s)
    rates = [[[_rate(mode, n) for n in range(problem.workers + 1)] for mode in modes] for modes in problem.modes]
    for gates in _gates(problem):
        options = [o for o, option in enumerate(problem.options) if option.gate in gates]
        most = float(problem.shares @ problem.merit[options].max(axis=0))
        used = {level for g in gates for level in problem.levels_of(problem.gates[g])}
        for chosen in itertools.product(*(range(len(problem.modes[v])) if v in used else [0] for v in variants)):
            if not _in_time(problem, gates, chosen):
                continue
            for split, cost in zip(splits, away, strict=True):
                row = [rates[v][m][n] if v in used else 0.0 for v, (m, n) in enumerate(zip(chosen, split, strict=True))]
                if all(row[v] > 0 for v in used):
                    yield most - float(cost), options, np.array(row), float(cost)


def _gates(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every choice of at most one gate a level, nothing judged twice."""
    gates = list(enumerate(problem.gates))
    for choice in itertools.product(
        *([-1, *(g for g, gate in gates if gate.level == at)] for at in range(len(problem.levels)))
    ):
        held = tuple(g for g in choice if g >= 0)
        judged = {problem.gates[g].level for g in held if problem.gates[g].next_level >= 0}
        if held and not judged & {problem.gates[g].next_level for g in held}:
            yield held


def _in_time(problem: Problem, gates: Sequence[int], chosen: Sequence[int]) -> bool:
    for g in gates:
        levels = problem.levels_of(problem.gates[g])
        runs = [problem.modes[at] for at in levels]
        if not all(runs):
            return False
        modes_ = [mode[chosen[at]] for mode, at in zip(runs, levels, strict=True)]
        seconds = modes_[0].first_s + sum(mode.sojourn_s for mode in modes_[1:])
        if seconds > problem.slo_s - problem.gates[g].extra_s + 1e-9:
            return False
    return True


def _rate(mode: Mode, count: int) -> float:
    return max((throughput(line, count) for line in mode.lines), default=0.0)


def _shares(problem: Problem, options: Sequence[int], rates: np.ndarray) -> float:
    """The best shares of what these options and rates allow, by a linear program."""
    bands, staff = len(problem.shares), max(problem.workers, 1)
    busy = (problem.load[options] @ np.where(np.isfinite(problem.seconds), problem.seconds, 0.0)) / staff
    gain = (problem.merit[options] - BUSY * problem.demand_rps * busy) * problem.shares
    cost = np.concatenate([-gain.T.ravel(), SHED * problem.shares * problem.shed_weights])
    images = problem.shares[:, None, None] * problem.load[options].transpose(1, 0, 2)
    work = problem.demand_rps * images.reshape(-1, len(rates))
    limits = np.hstack([work.T, np.zeros((len(rates), bands))])
    sums = np.hstack([np.kron(np.eye(bands), np.ones(len(options))), np.eye(bands)])
    found = linprog(cost, limits, rates, sums, np.ones(bands), (0, 1))
    return float(-found.fun) if found.success else -np.inf


def faults(problem: Problem, solution: Solution) -> list[str]:
    """What a solution breaks, in words; [] of a feasible one."""
    images = problem.demand_rps * np.einsum("c,co,ocv->v", problem.shares, solution.given, problem.load)
    found = []
    if sum(solution.counts) > problem.workers or min(solution.counts, default=0) < 0:
        found.append(f"{solution.counts} of {problem.workers} workers")
    if not np.allclose(solution.given.sum(axis=1) + solution.shed, 1, atol=ROUNDING):
        found.append("shares that do not sum to 1")
    for v, (line, count) in enumerate(zip(solution.lines, solution.counts, strict=True)):
        rate = throughput(line, count) if line else 0.0
        if images[v] > rate + 1e-4 * max(1.0, rate):
            found.append(f"{problem.levels[v]} carries {rate} of {images[v]}")
    levels = [problem.gates[g].level for g in solution.gates]
    judged = {problem.gates[g].level for g in solution.gates if problem.gates[g].next_level >= 0}
    if len(levels) != len(set(levels)):
        found.append(f"two gates of a level: {solution.gates}")
    for g in solution.gates:
        gate = problem.gates[g]
        seconds = sum(solution.sojourns_s[at] for at in problem.levels_of(gate)) + gate.extra_s
        if seconds > problem.slo_s + ROUNDING:
            found.append(f"{gate} takes {seconds} of {problem.slo_s}")
        if gate.next_level in judged:
            found.append(f"{gate} is judged again")
    return found
