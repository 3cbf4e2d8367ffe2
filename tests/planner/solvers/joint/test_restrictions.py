"""Every policy of the papers is `joint` with something fixed: it must reach what their own solvers reach."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from planner.solvers.joint.program.problem import Gate, Option, Problem, score
from planner.solvers.joint.solve import solve
from planner.solvers.levels.level_mix import Offer, maximize_quality, mean_quality
from planner.solvers.levels.pasm import shift_map
from planner.solvers.two_stage import problem as two_stage
from planner.solvers.two_stage.solve import solve as solve_two_stage
from tests.planner.solvers.joint.exactness import seeds
from tests.planner.solvers.joint.problems import a_problem, faults, without_queues

SEEDS = seeds(8)
CLOSE = 2e-3  # spans of quality: what all workers' time is worth (BUSY), and the solver's tolerance


@pytest.mark.parametrize("seed", SEEDS)
def test_one_class_without_cascades_is_proteus(seed: int) -> None:
    rng = np.random.default_rng(seed)
    run_s, quality = _levels(rng, 3)
    demand_rps, workers = float(rng.uniform(1, 20)), int(rng.integers(1, 7))
    problem = a_problem([[q] for q in quality], run_s, workers=workers, demand_rps=demand_rps)
    mix = maximize_quality(_offers(run_s, quality), workers, demand_rps)
    worth = score(problem, solve(problem))
    if mix.carried < 1 - 1e-6:
        assert worth.shed == pytest.approx(1 - mix.carried, abs=1e-5)
    else:
        assert worth.shed == pytest.approx(0, abs=1e-6)
        proteus = mean_quality(mix.shares, _offers(run_s, quality))
        assert worth.quality == pytest.approx(_merit(problem, proteus), abs=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_classes_without_cascades_are_at_least_as_good_as_argus(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    run_s, means = _levels(rng, 3)
    classes = rng.dirichlet(np.ones(3))
    lost = rng.uniform(0, 0.3, (3, 3)) * np.tri(3, 3, -1).T
    quality = np.clip(np.array(means)[:, None] - lost, 0, 1)  # [level, class]
    workers = 4
    demand_rps = float(rng.uniform(0.3, 0.95)) * workers / run_s[0]  # at most what the fastest level carries
    problem = a_problem(quality.tolist(), run_s, workers=workers, demand_rps=demand_rps, shares=classes)
    at = {"v2": 2, "v1": 1, "v0": 0}  # the slowest first
    names = list(at)
    mix = maximize_quality(_offers(run_s, (quality @ classes).tolist()), workers, demand_rps)
    assert mix.carried == pytest.approx(1)
    loss = {c: {level: quality[at[c], at[c]] - quality[at[level], at[c]] for level in names} for c in names}
    rows = shift_map(names, {name: classes[at[name]] for name in names}, mix.shares, loss).rows
    argus = sum(classes[at[c]] * p * quality[at[level], at[c]] for c, row in rows.items() for level, p in row.items())
    found = solve(problem)
    assert faults(problem, found) == []
    assert score(problem, found).quality >= _merit(problem, argus) - CLOSE


@pytest.mark.parametrize("seed", SEEDS)
def test_one_class_and_one_pair_is_diffserve(seed: int) -> None:
    rng = np.random.default_rng(2000 + seed)
    thresholds = np.sort(rng.uniform(0, 1, 5))
    rows = tuple(
        two_stage.Row(score=float(t), straight=0.0, deferred=float(f), threshold=float(t))
        for t, f in zip(thresholds, np.sort(rng.uniform(0, 1, 5)), strict=True)
    )
    given, problem = _both(rng, rows)
    best, found = solve_two_stage(given), solve(problem)
    assert faults(problem, found) == []
    worth = score(problem, found)
    if best is None:
        assert worth.shed > 0
    else:
        assert worth.shed == pytest.approx(0, abs=1e-6)
        assert worth.quality == pytest.approx(_merit(problem, best.row.score), abs=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_pair_with_its_measured_rows_is_at_least_as_good_as_hadis(seed: int) -> None:
    rng = np.random.default_rng(3000 + seed)
    rows = tuple(
        two_stage.Row(score=float(rng.uniform(-30, -19)), straight=r, deferred=d, threshold=d, hardness=1 - r)
        for r in (0.0, 0.2, 0.6)
        for d in (0.1, 0.4, 0.8)
    )
    given, problem = _both(rng, rows)
    best, found = solve_two_stage(given), solve(problem)
    assert faults(problem, found) == []
    if best is not None:
        assert score(problem, found).shed == pytest.approx(0, abs=1e-6)
        assert score(problem, found).quality >= _merit(problem, best.row.score) - CLOSE


def _levels(rng: np.random.Generator, n: int) -> tuple[list[float], list[float]]:
    return np.sort(rng.uniform(0.1, 2.0, n)).tolist(), np.sort(rng.uniform(0.3, 1.0, n)).tolist()


def _offers(run_s: Sequence[float], quality: Sequence[float]) -> list[Offer]:
    """The slowest first, as ARGUS has them."""
    return [Offer(f"v{v}", f"v{v}", 1 / run_s[v], quality[v]) for v in reversed(range(len(run_s)))]


def _merit(problem: Problem, quality: float) -> float:
    return (quality - problem.least) / problem.unit


def _both(rng: np.random.Generator, rows: tuple[two_stage.Row, ...]) -> tuple[two_stage.Problem, Problem]:
    """The same pair for a two-stage solver and as a joint problem."""
    run_ms = [{b: ms * (0.4 + 0.6 * b) for b in (1, 2, 4)} for ms in (rng.uniform(50, 200), rng.uniform(500, 2000))]
    waits_ms = [float(w) for w in rng.uniform(0, 500, 2)]
    given = two_stage.Problem(
        light=two_stage.stage("v0", run_ms[0], waits_ms[0]),
        heavy=two_stage.stage("v1", run_ms[1], waits_ms[1]),
        rows=rows,
        demand_rps=float(rng.uniform(1, 12)),
        workers=int(rng.integers(2, 9)),
        slo_ms=float(rng.uniform(2000, 8000)),
        judging_ms=20.0,
    )
    gates = sorted({Gate(0, 1, "judge", row.threshold, 0, 0.02) for row in rows})
    problem = dataclasses.replace(
        a_problem([[0.0], [0.0]], [1.0, 1.0]),
        gates=(*gates, Gate(1)),
        options=tuple(_option(gates.index(Gate(0, 1, "judge", row.threshold, 0, 0.02)), row) for row in rows),
        load=np.array([[[row.light, row.heavy]] for row in rows]),
        quality=np.array([[row.score] for row in rows]),
        modes=tuple(
            without_queues({b: ms / 1000 for b, ms in times.items()}, given.workers, wait / 1000)
            for times, wait in zip(run_ms, waits_ms, strict=True)
        ),
        demand_rps=given.demand_rps,
        workers=given.workers,
        slo_s=given.slo_ms / 1000,
    )
    return given, problem


def _option(gate: int, row: two_stage.Row) -> Option:
    return Option(gate, 1, row.hardness) if row.straight > 0 else Option(gate)
