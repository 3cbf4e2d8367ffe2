"""The joint problem as a mixed-integer linear program (pulp). `objective` in `problem.score`'s order, as one sum.

| given for each band and option, shed for each band | shares of the band's requests, they sum to 1              |
| held for each gate                                  | 1 where it is in force: one a level, none after another   |
| runs, staff for each line of each variant's modes   | which piece the variant runs on, and with how many workers |
| came for each variant                               | workers more than in the plan in force                     |
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pulp

from planner.solvers import milp
from planner.solvers.joint.program.problem import (
    Line,
    Mode,
    Objective,
    Problem,
    Running,
    Solution,
    objective,
    solution_of,
)


class Piece(NamedTuple):
    """A line of a mode of a variant, with its two unknowns."""

    mode: Mode
    line: Line
    runs: pulp.LpVariable  # 0 or 1
    staff: pulp.LpVariable  # workers


@dataclass(frozen=True, slots=True)
class Program:
    """The program and its unknowns."""

    model: pulp.LpProblem
    given: dict[tuple[int, int], pulp.LpVariable]  # (band, option)
    shed: list[pulp.LpVariable]
    held: dict[int, pulp.LpVariable]  # per gate
    pieces: list[list[Piece]]  # per variant
    came: list[pulp.LpVariable] = field(default_factory=list)


def optimum(problem: Problem, time_limit_s: float) -> Solution | None:
    """The best plan of all, with `trouble` where there may be a better one; None where the solver found none."""
    made = program(problem)
    solved = milp.solve(made.model, time_limit_s)
    return _read(problem, made, solved.trouble) if solved.is_found else None


def _read(problem: Problem, made: Program, trouble: str) -> Solution:
    given = np.zeros((len(problem.shares), len(problem.options)))
    for (c, o), unknown in made.given.items():
        given[c, o] = _value(unknown)
    running = {
        v: Running(round(_value(piece.staff)), piece.line, piece.mode.sojourn_s)
        for v, pieces in enumerate(made.pieces)
        for piece in pieces
        if _value(piece.runs) > 0.5
    }
    shed = np.array([_value(unknown) for unknown in made.shed])
    return solution_of(problem, given, shed, running, trouble)


def _value(unknown: object) -> float:
    return float(getattr(unknown, "varValue", None) or 0.0)


def program(problem: Problem) -> Program:
    """The unknowns under all constraints; what no worker of the deployment could ever do is left out."""
    model = pulp.LpProblem("serving", pulp.LpMaximize)
    bands, possible = range(len(problem.shares)), np.flatnonzero(problem.possible).tolist()
    gates = {problem.options[o].gate for o in possible}
    made = Program(
        model,
        {(c, o): _share(model, f"e{c}_{o}") for c in bands for o in possible},
        [_share(model, f"s{c}") for c in bands],
        {g: model.add_variable(f"z{g}", cat=pulp.LpBinary) for g in sorted(gates)},
        [_pieces(problem, model, v) for v in range(len(problem.levels))],
        [model.add_variable(f"d{v}", 0) for v in range(len(problem.levels))],
    )
    model.setObjective(_maximised(made, objective(problem)))
    _serve(problem, made)
    _hold(problem, made)
    _carry(problem, made)
    _fit_slo(problem, made)
    return made


def _share(model: pulp.LpProblem, name: str) -> pulp.LpVariable:
    return model.add_variable(name, 0, 1)


def _pieces(problem: Problem, model: pulp.LpProblem, v: int) -> list[Piece]:
    return [
        Piece(
            mode,
            line,
            model.add_variable(f"y{v}_{m}_{i}", cat=pulp.LpBinary),
            model.add_variable(f"n{v}_{m}_{i}", 0, line.most, pulp.LpInteger),
        )
        for m, mode in enumerate(problem.modes[v])
        for i, line in enumerate(mode.lines)
        if mode.sojourn_s <= problem.slo_s
    ]


def _maximised(made: Program, terms: Objective) -> pulp.LpAffineExpression:
    shed = zip(made.shed, map(float, terms.shed), strict=True)
    came = zip(made.came, map(float, terms.came), strict=True)
    given = ((share, float(terms.given[o, c])) for (c, o), share in made.given.items())
    return pulp.LpAffineExpression([*given, *shed, *came])


def _serve(problem: Problem, made: Program) -> None:
    """Every band is served or shed; an option serves only while its gate holds, and where hard prompts go none does."""
    by_gate: defaultdict[tuple[int, int], list[pulp.LpVariable]] = defaultdict(list)
    plain = {problem.gates[g].level: g for g in made.held if problem.gates[g].next_level < 0}
    for (c, o), given in made.given.items():
        option = problem.options[o]
        by_gate[c, option.gate].append(given)
        if option.straight_to in plain:
            by_gate[c, plain[option.straight_to]].append(given)
    for c, shed in enumerate(made.shed):
        made.model.addConstraint(_sum([shed, *(given for (k, _), given in made.given.items() if k == c)]) == 1)
    for (_, g), options in by_gate.items():
        made.model.addConstraint(_sum(options) - made.held[g] <= 0)


def _hold(problem: Problem, made: Program) -> None:
    """Constrain gates: one a level, at levels with workers; images of an escalation are not judged again."""
    for level, variant in enumerate(range(len(problem.levels))):
        here = [g for g in made.held if problem.gates[g].level == level]
        made.model.addConstraint(_sum([made.held[g] for g in here]) - _running(made, variant) <= 0)
        judged = [made.held[g] for g in here if problem.gates[g].next_level >= 0]
        for source in range(len(problem.levels)):
            ways = [held for g, held in made.held.items() if problem.gates[g][:2] == (source, level)]
            if ways:
                made.model.addConstraint(_sum(ways) - _running(made, variant) <= 0)
                made.model.addConstraint(_sum([*ways, *judged]) <= 1)


def _carry(problem: Problem, made: Program) -> None:
    """Constrain the load of a second to what the workers carry, and the workers to the fleet."""
    for v, pieces in enumerate(made.pieces):
        terms = [
            (given, problem.demand_rps * float(problem.shares[c] * problem.load[o, c, v]))
            for (c, o), given in made.given.items()
            if problem.load[o, c, v] > 0
        ]
        terms += [(piece.staff, -piece.line.slope) for piece in pieces]
        terms += [(piece.runs, piece.line.lost) for piece in pieces]
        made.model.addConstraint(pulp.LpAffineExpression(terms) <= 0)
        made.model.addConstraint(_running(made, v) <= 1)
        for piece in pieces:
            made.model.addConstraint(piece.staff - piece.line.most * piece.runs <= 0)
            made.model.addConstraint(piece.staff - piece.line.least * piece.runs >= 0)
        made.model.addConstraint(_sum([piece.staff for piece in pieces]) - made.came[v] <= problem.before[v])
    made.model.addConstraint(_sum([piece.staff for pieces in made.pieces for piece in pieces]) <= problem.workers)


def _fit_slo(problem: Problem, made: Program) -> None:
    """The two latency targets on the way of a request, and what lies between, fit the SLO: slower pairs are excluded.

    For each target of the first level: a gate, this target or a longer one, and all of the second's that are too long
    with it: of these three at most two.
    """
    ways: defaultdict[tuple[int, int, float], list[pulp.LpVariable]] = defaultdict(list)
    for g, held in made.held.items():
        gate = problem.gates[g]
        ways[gate.level, gate.next_level, gate.extra_s].append(held)
    for (level, next_level, extra_s), gates in ways.items():
        first, left_s = made.pieces[level], problem.slo_s - extra_s
        second = made.pieces[next_level] if next_level >= 0 else []
        for target_s in sorted({piece.mode.first_s for piece in first}):
            slow = [piece.runs for piece in first if piece.mode.first_s >= target_s]
            late = [piece.runs for piece in second if piece.mode.sojourn_s > left_s - target_s + 1e-9]
            if target_s > left_s + 1e-9:
                made.model.addConstraint(_sum([*gates, *slow]) <= 1)
            elif late:
                made.model.addConstraint(_sum([*gates, *slow, *late]) <= 2)


def _running(made: Program, variant: int) -> pulp.LpAffineExpression:
    return _sum([piece.runs for piece in made.pieces[variant]])


def _sum(unknowns: list[pulp.LpVariable]) -> pulp.LpAffineExpression:
    return pulp.LpAffineExpression([(unknown, 1.0) for unknown in unknowns])
