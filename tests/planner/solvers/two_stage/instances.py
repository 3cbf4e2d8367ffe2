"""Two-stage problems: a small one by hand, random ones, and all their solutions by trying everything."""

import itertools
import math
import random
from typing import Any

from planner.solvers.two_stage.problem import Problem, Row, Stage, stage


def a_problem(**changes: Any) -> Problem:
    """Light 10/s and heavy 1/s a worker at batch 1, thresholds in tenths with f(t) = t, four workers."""
    values: dict[str, Any] = {
        "light": stage("light", {1: 100.0, 4: 250.0}), "heavy": stage("heavy", {1: 1000.0, 4: 2000.0}),
        "rows": tuple(Row(at / 10, 0.0, at / 10, threshold=at / 10) for at in range(11)),
        "demand_rps": 5.0, "workers": 4, "slo_ms": 2500.0,
    }  # fmt: skip
    return Problem(**(values | changes))


def random_problem(seed: int, straight: bool) -> Problem:
    """Up to six workers, three batch sizes and six rows; `straight`: rows with shares that skip light, any order."""
    dice = random.Random(seed)
    rows = []
    for at in range(dice.randint(1, 6)):
        skip = dice.choice([0.0, 0.0, 0.2, 0.5, 1.0, dice.random()]) if straight else 0.0
        deferred = dice.choice([0.0, 0.3, 1.0, dice.random()]) if straight else at / 6
        rows.append(Row(dice.choice([1.0, 2.0, dice.random() * 3]) if straight else float(at), skip, deferred))
    return Problem(
        light=_stage(dice, "light", 50),
        heavy=_stage(dice, "heavy", 500),
        rows=tuple(rows),
        demand_rps=dice.choice([0.0, 1.0, 4.0, dice.random() * 30]),
        workers=dice.randint(0, 6),
        slo_ms=dice.choice([math.inf, 600.0, 1500.0, dice.random() * 4000]),
        judging_ms=dice.choice([0.0, 10.0]),
        over=dice.choice([1.0, 1.0, 0.375]),
    )


def best_by_trying(problem: Problem) -> float | None:
    """The highest score of all vectors (row, b1, b2, x1, x2) that meet the equations, written as in the papers."""
    best: float | None = None
    workers = range(problem.workers + 1)
    for row in problem.rows:
        for (b1, e1), (b2, e2) in itertools.product(problem.light.run_ms, problem.heavy.run_ms):
            one = e1 * (1 + problem.light.wait_runs) + problem.light.wait_ms + problem.judging_ms
            two = e2 * (1 + problem.heavy.wait_runs) + problem.heavy.wait_ms
            over = e2 * problem.over * (1 + problem.heavy.wait_runs) + problem.heavy.wait_ms
            paths = [one] * (row.straight < 1) + [two] * (row.straight > 0)
            paths += [one + over] * (row.straight < 1 and row.deferred > 0)
            if max(paths) > problem.slo_ms:
                continue
            for x1, x2 in itertools.product(workers, workers):
                light, heavy = 1 - row.straight, row.straight + (1 - row.straight) * row.deferred * problem.over
                enough = x1 * b1 * 1000 / e1 >= problem.demand_rps * light - 1e-6
                enough = enough and x2 * b2 * 1000 / e2 >= problem.demand_rps * heavy - 1e-6
                present = (x1 or not light > 0) and (x2 or not heavy > 0)
                if enough and present and x1 + x2 <= problem.workers and (best is None or row.score > best):
                    best = row.score
    return best


def _stage(dice: random.Random, name: str, least_ms: float) -> Stage:
    ms, times = least_ms * (1 + dice.random()), {}
    for batch in sorted(dice.sample([1, 2, 4, 8], dice.randint(1, 3))):
        ms *= 1 + dice.random()
        times[batch] = ms
    return stage(name, times, wait_ms=dice.choice([0.0, 0.0, 100.0]), wait_runs=dice.choice([0.0, 0.0, 1.0]))
