import dataclasses

import numpy as np
import pytest

from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.solvers.joint.program.problem import Gate, Option, Problem, Solution
from planner.solvers.joint.program.reading import proposal_of, with_spares
from planner.solvers.joint.solve import solve
from tests.planner.solvers.joint.problems import a_problem
from tests.planner.solvers.joint.program.test_offers import shipped

CATALOG = shipped("tiny")


def named(problem: Problem) -> Problem:
    """With the levels of the tiny catalog."""
    names = ("light", "heavy")[-len(problem.levels) :]
    return dataclasses.replace(problem, levels=names)


def drafted(problem: Problem, found: Solution, bounds: tuple[float, ...] = (0.0, 1.0)) -> PlanProposal:
    workers = tuple(WorkerView(f"w{i}", "", "ready", 0, 0.0) for i in range(problem.workers))
    seen = Observation(now_ms=0, demand_rps=problem.demand_rps, slo_ms=1000 * problem.slo_s, workers=workers)
    return proposal_of(problem, found, bounds, seen, CATALOG)


def test_bands_of_the_same_route_are_one() -> None:
    problem = named(a_problem([[0.9, 0.2, 0.2], [1.0, 1.0, 1.0]], [0.1, 1.0], workers=4, demand_rps=4.4))
    draft = drafted(problem, solve(problem), (0.0, 0.25, 0.5, 1.0))
    assert [(r.hardness_from, r.hardness_to) for r in draft.routes] == [(0.0, 0.25), (0.25, 1.0)]
    assert draft.routes[1].levels == {"heavy": 1.0}


def test_hard_prompts_go_straight_from_their_hardness_on() -> None:
    problem = named(a_problem([[0.5], [0.9]], [0.1, 1.0], workers=3, demand_rps=2.0))
    problem = dataclasses.replace(
        problem,
        gates=(Gate(0), Gate(1), Gate(0, 1, "look", 0.4, 5)),
        options=(Option(2, 1, 0.7), Option(1)),
        load=np.array([[[0.7, 0.37]], [[0.0, 9.0]]]),
        quality=np.array([[0.8], [0.1]]),
    )
    draft = drafted(problem, solve(problem))
    assert [(r.levels, r.hardness_from) for r in draft.routes] == [({"light": 1.0}, 0.0), ({"heavy": 1.0}, 0.7)]
    (cascade,) = draft.cascades
    assert (cascade.level, cascade.next_level, cascade.threshold, cascade.refine_from_step) == (
        "light",
        "heavy",
        0.4,
        5,
    )


def test_spare_workers_stay_or_help_where_most_is_to_be_done() -> None:
    problem = named(a_problem([[0.5], [1.0]], [0.1, 1.0], workers=6, demand_rps=2.0))
    found = dataclasses.replace(solve(problem), counts=(1, 2))
    assert sum(with_spares(problem, found)) == 6
    at_home = dataclasses.replace(problem, before=(4, 0))
    assert with_spares(at_home, found)[0] == 4


def test_what_is_expected_is_told_of_what_is_served() -> None:
    problem = named(a_problem([[0.5]], [1.0], workers=1, demand_rps=2.0))
    draft = drafted(problem, solve(problem))
    assert draft.expected is not None
    assert draft.expected.quality == pytest.approx(0.5)
    assert draft.expected.utilization == pytest.approx(1.0, abs=1e-3)
    assert not draft.is_feasible
    assert "50.0% of 2 requests/s is more than 1 worker can serve in time" in draft.reason


def test_without_workers_there_is_a_route() -> None:
    problem = named(a_problem([[0.5]], [1.0], workers=0, demand_rps=2.0))
    draft = drafted(problem, solve(problem))
    assert draft.routes[0].levels == {"light": 1.0}  # the cheapest of the catalog
    assert draft.allocation == {}
