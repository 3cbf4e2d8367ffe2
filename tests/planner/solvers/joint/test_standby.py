import dataclasses

import numpy as np
import pytest

from planner.observation.observation import Observation
from planner.solvers.joint.demand import FULL
from planner.solvers.joint.problem import SHED, Option, Problem, score
from planner.solvers.joint.rises import Rise
from planner.solvers.joint.solve import solve
from planner.solvers.joint.standby import Standby, standbys, with_standby, without_standby
from tests.planner.solvers.joint.problems import a_problem

SETTINGS = {"overprovision": FULL, "remember_s": 600.0}
JUMP = Rise(0, 2.0, 12.0, 60.0)


def calm(**changes: object) -> Problem:
    """A light level at 10 pictures a second a worker, a heavy one at a quarter, half of the pictures painted again."""
    return a_problem([[0.0], [1.0]], [0.1, 4.0], [(0, 1, 0.5, [0.5], [0.9])], demand_rps=FULL * 2.0, **changes)


def seen(rps: float = 2.0) -> Observation:
    return Observation(now_ms=0, demand_rps=rps)


def test_what_jumped_may_jump_again() -> None:
    (standby,) = standbys(calm(), [JUMP], seen(), SETTINGS)
    assert standby.rps == pytest.approx((12 - 2) * FULL)
    assert standbys(calm(), [], seen(), SETTINGS) == ()


def test_who_provides_for_less_than_comes_stands_by_for_nothing() -> None:
    assert standbys(calm(), [JUMP], seen(), SETTINGS | {"overprovision": 0.9}) == ()
    assert standbys(calm(), [JUMP], seen(), SETTINGS | {"overprovision": 1.0}) != ()


def test_readiness_may_cost_as_much_as_the_jumps_did() -> None:
    once, thrice = (standbys(calm(), [JUMP] * times, seen(), SETTINGS)[0] for times in (1, 3))
    assert thrice.weight == pytest.approx(3 * once.weight)
    assert SHED * once.weight * once.rps == pytest.approx(5 * 60 / 600), "LATE spans a request, a second remembered"


def test_over_provisioning_beyond_the_whole_work_is_of_the_calm() -> None:
    settings = SETTINGS | {"overprovision": 4.0}
    (asked,) = standbys(calm(), [], seen(), settings)
    assert asked.rps == pytest.approx(4 * 2 - FULL * 2)
    in_the_jump = calm().demand_rps * 6, seen(12.0)
    problem = a_problem([[0.0], [1.0]], [0.1, 1.0], demand_rps=in_the_jump[0])
    assert standbys(problem, [JUMP], in_the_jump[1], settings) == (), "twelve now, and eight are asked for"
    (again,) = standbys(problem, [], in_the_jump[1], settings)
    assert again.rps == pytest.approx(4 * 12 - in_the_jump[0]), "none has jumped: this is the demand"


def test_workers_stand_by_for_first_pictures_and_quality_is_that_of_the_requests_there_are() -> None:
    problem = calm(workers=4, slo_s=6.0)
    alone = solve(problem, 10.0)
    ready = without_standby(solve(with_standby(problem, [Standby(17.0, 0.05)]), 10.0), problem)
    assert alone.counts[0] == 1
    assert ready.counts[0] == 2, "19.1 a second at ten a worker"
    assert ready.given.shape == alone.given.shape
    assert score(problem, ready).shed == pytest.approx(0)
    assert score(problem, ready).quality == pytest.approx(2 * 0.25 / problem.demand_rps), "all the others can"


def test_what_is_worth_little_is_not_stood_by_for() -> None:
    problem = calm(workers=2, slo_s=6.0)
    ready = without_standby(solve(with_standby(problem, [Standby(17.0, 1e-7)]), 10.0), problem)
    assert ready.counts == solve(problem, 10.0).counts


def test_moves_and_indifference_weigh_as_before_among_real_requests() -> None:
    problem = calm(before=(4, 0), switch_s=(3.0, 3.0), indifference=0.02)
    wider = with_standby(problem, [Standby(6.0, 0.0), Standby(3.0, 0.0)])
    real = problem.demand_rps / wider.demand_rps
    assert wider.shares.sum() == pytest.approx(1)
    assert wider.shares[0] == pytest.approx(real)
    assert (wider.slack, 1 / wider.hold_s) == pytest.approx((problem.slack * real, real / problem.hold_s))
    assert wider.merit[:, 0] == pytest.approx(problem.merit[:, 0])


def test_hard_prompts_that_go_straight_stay_straight_but_nobody_paints_again() -> None:
    problem = calm()
    load = np.concatenate([problem.load, np.array([[[0.75, 0.25 + 0.3]]])])
    options, quality = (*problem.options, Option(2, 1, 0.75)), np.concatenate([problem.quality, [[0.95]]])
    told = dataclasses.replace(problem, options=options, load=load, quality=quality)
    wider = with_standby(told, [Standby(1.0, 0.1)])
    assert wider.load[:, 1].tolist() == [[1, 0], [0, 1], [1, 0], [0.75, 0.25]]
    assert with_standby(told, []) is told
