"""States the choice of `two_stage.solve` as an integer program for PuLP, to check it, and as a baseline of its speed.

Source: DiffServe 3.3, HADIS 3.4. As printed both are bilinear, x T(b) with x and b variables; here u[i,b] = x_i y[i,b],
workers of level i if its batch size is b, makes them linear (planner/policies/SOURCES.md 6.4).

    sum_k z[k] = 1, sum_b y[i,b] = 1, 0 <= u[i,b] <= S y[i,b], sum_{i,b} u[i,b] <= S
    sum_b T_i(b) u[i,b] >= D sum_k share_i(k) z[k]           throughput, heavy's share in images from noise
    sum_b u[i,b] >= sum_{k: share_i(k) > 0} z[k]             one worker at least
    path latency <= SLO + M (1 - sum_{k: path taken} z[k])   for light alone, heavy alone, both
    max sum_k score(k) z[k]
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import pulp

from planner.solvers.milp import LIMIT_S, solve
from planner.solvers.two_stage.problem import Problem, Row, Stage

HALF = 0.5  # of a binary variable, which solvers return with rounding


class Chosen(NamedTuple):
    """The choice of the program, which need not use all workers."""

    row: Row
    workers: tuple[int, int]  # light, heavy
    batches: tuple[int, int]
    is_stopped: bool  # at the limit: there may be a better choice


class _Level(NamedTuple):
    """The variables of one level."""

    stage: Stage
    taken: dict[int, pulp.LpVariable]  # y: batch size -> 0 or 1
    workers: dict[int, pulp.LpVariable]  # u

    def latency_ms(self, part: float = 1.0) -> pulp.LpAffineExpression:
        return pulp.lpSum(self.stage.latency_ms(b, part) * y for b, y in self.taken.items())


def solve_program(problem: Problem, limit_s: float = LIMIT_S) -> Chosen | None:
    """The fitting choice of the highest score by HiGHS; None where there is none."""
    if not (problem.rows and problem.light.run_ms and problem.heavy.run_ms):
        return None
    program = pulp.LpProblem("cascade", pulp.LpMaximize)
    z = [program.add_variable(f"z{k}", cat="Binary") for k in range(len(problem.rows))]
    program += pulp.lpSum(row.score * z[k] for k, row in enumerate(problem.rows))
    program += pulp.lpSum(z) == 1
    light = _level(program, "light", problem.light, problem, z, lambda row: row.light)
    heavy = _level(program, "heavy", problem.heavy, problem, z, problem.work)
    program += pulp.lpSum([*light.workers.values(), *heavy.workers.values()]) <= problem.workers
    judged_ms, heavy_ms = light.latency_ms() + problem.judging_ms, heavy.latency_ms()
    taken = [
        (judged_ms, lambda row: row.light),
        (heavy_ms, lambda row: row.straight),
        (judged_ms + heavy.latency_ms(problem.over), lambda row: row.refined_share),
    ]
    for latency_ms, share in taken:
        _bound(program, latency_ms, problem, _where(problem, z, share))
    solved = solve(program, limit_s)
    if not solved.is_found:
        return None
    row = next(row for k, row in enumerate(problem.rows) if z[k].value() > HALF)
    workers, batches = (_workers(light), _workers(heavy)), (_batch(light), _batch(heavy))
    return Chosen(row, workers, batches, bool(solved.trouble))


def _level(
    program: pulp.LpProblem,
    name: str,
    stage: Stage,
    problem: Problem,
    z: list[pulp.LpVariable],
    share: Callable[[Row], float],
) -> _Level:
    taken = {b: program.add_variable(f"y_{name}_{b}", cat="Binary") for b, _ in stage.run_ms}
    workers = {b: program.add_variable(f"u_{name}_{b}", 0, problem.workers, cat="Integer") for b, _ in stage.run_ms}
    program += pulp.lpSum(taken.values()) == 1
    for b, _ in stage.run_ms:
        program += workers[b] <= problem.workers * taken[b]
    offered = pulp.lpSum(problem.demand_rps * share(row) * z[k] for k, row in enumerate(problem.rows))
    program += pulp.lpSum(stage.throughput_rps(b) * u for b, u in workers.items()) >= offered
    program += pulp.lpSum(workers.values()) >= pulp.lpSum(_where(problem, z, share))
    return _Level(stage, taken, workers)


def _where(problem: Problem, z: list[pulp.LpVariable], share: Callable[[Row], float]) -> list[pulp.LpVariable]:
    return [z[k] for k, row in enumerate(problem.rows) if share(row) > 0]


def _bound(
    program: pulp.LpProblem, latency_ms: pulp.LpAffineExpression, problem: Problem, rows: Iterable[pulp.LpVariable]
) -> None:
    """Latency within the SLO where one of these rows is chosen; M is more than any latency there is."""
    if problem.slo_ms < float("inf"):
        longest = sum(max(s.latency_ms(b) for b, _ in s.run_ms) for s in (problem.light, problem.heavy))
        program += latency_ms <= problem.slo_ms + (longest + problem.judging_ms) * (1 - pulp.lpSum(rows))


def _batch(level: _Level) -> int:
    return next(b for b, y in level.taken.items() if y.value() > HALF)


def _workers(level: _Level) -> int:
    return round(sum(float(u.value()) for u in level.workers.values()))
