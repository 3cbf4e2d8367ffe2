"""The planner's bench: what it asks, how it compares, and that its instances are the same for the same seed."""

import json
import os
import threading
from dataclasses import replace

import pytest
from click.testing import CliRunner

from planner.catalog.bands import bounds_of, cascade_table
from planner.control.proposal import validate_parameters
from planner.policies import POLICIES, argus, clipper_light, diffserve, hadis, joint
from planner.solvers.joint.program.build import problem_of
from planner.solvers.levels.level_mix import Offer
from replay.bench.baselines import planner_baselines as plain
from replay.bench.baselines.planner_baselines import Found
from replay.bench.commands.bench import bench
from replay.bench.environment.planner_cases import Case, Size, a_case, cases, sizes
from replay.bench.environment.planner_instance import catalog, observations
from replay.bench.planner import Effort, one_core, run, table, timed
from schemas.errors import PochadeError, Unknown
from streams.catalogs import measured
from streams.settings import Settings

QUICK = Effort(solves=3, baselines=3, seconds=5.0, limit_s=5.0)
MACHINE = {"machine": {"cores": 2}}


def ran(*chosen: Case) -> dict[str, object]:
    return run(chosen, QUICK, lambda *_: None)


def test_a_made_up_catalog_has_the_size_asked_for_and_follows_from_its_seed() -> None:
    made = catalog(8, 6, seed=3)
    assert (len(made.variants), len(bounds_of(made)) - 1) == (8, 6)
    assert made == catalog(8, 6, seed=3)
    assert made != catalog(8, 6, seed=4)
    table_of_one = cascade_table(made, made.cascades[0])
    assert all(list(row) == sorted(row) for row in table_of_one.deferred), "a higher threshold never defers less"
    assert None not in {quality for row in table_of_one.quality for quality in row}
    times = [variant.latency_ms[1] for variant in made.variants.values()]
    assert times == sorted(times)


def test_observations_vary_and_follow_from_their_seed() -> None:
    made = catalog(3, 2, seed=0)
    seen = observations(made, 64, 20, seed=5)
    assert seen == observations(made, 64, 20, seed=5)
    assert len({one.demand_rps for one in seen}) == 20
    assert {len(one.workers) for one in seen} == {64}
    assert {bool(one.queues) for one in seen} == {True, False}


def test_every_policy_is_asked_and_one_that_is_new_at_the_default_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "new", new := lambda *given: argus.plan(*given))
    assert {size.policy for size in sizes()} == set(POLICIES.values())
    assert [size for size in sizes() if size.policy is new] == [Size(new)]
    (case,) = cases(measured, 3, 1, ["new"])
    assert ran(case)["cases"][case.name]["solves"] == 3  # type: ignore[index]


def test_policies_with_a_limit_are_asked_at_its_size() -> None:
    wanted = {(size.policy, size.workers): size.wanted_ms for size in sizes() if size.wanted_ms}
    assert wanted == {
        (diffserve.plan, 16): 10, (hadis.plan, 16): 10, (argus.plan, 64): 50, (joint.plan, 64): 100,
        (joint.plan, 1000): 2000,
    }  # fmt: skip


def test_only_the_policies_named_are_asked_and_an_unknown_one_is_refused() -> None:
    assert [case.policy for case in cases(measured, 3, 1, ["hadis"])] == [hadis.plan]
    with pytest.raises(Unknown, match="hadis"):
        cases(measured, 3, 1, ["hadys"])


@pytest.mark.parametrize(
    ("policy", "shipped", "workers"),
    [("diffserve", "diffserve-sdturbo", 6), ("hadis", "hadis-l40s", 6), ("argus", "argus-a100", 6), ("joint", "", 2)],
)
def test_a_policy_s_plans_are_no_worse_than_the_plain_model_s(policy: str, shipped: str, workers: int) -> None:
    chosen = measured(shipped) if shipped else catalog(2, 1, seed=1)
    case = a_case(POLICIES[policy], chosen, workers, 3, seed=2, wanted_ms=1e6)
    found = ran(case)["cases"][case.name]  # type: ignore[index]
    assert found["solves"] == found["baseline"]["solves"] == 3
    assert found["baseline"]["worse"] == 0, found
    assert found["met"]


def test_a_plan_that_is_worse_is_counted() -> None:
    case = a_case(diffserve.plan, measured("diffserve-sdturbo"), 4, 3, seed=1)
    better = replace(case, baseline=lambda *_: Found(2.0))
    missing = replace(case, objective=lambda *_: None, baseline=lambda *_: Found(0.0, True))
    nobody = replace(case, baseline=lambda *_: Found(None, True))
    assert [ran(one)["worse"] for one in (better, missing, nobody)] == [3, 3, 0]
    judged = ran(nobody)["cases"][nobody.name]["baseline"]  # type: ignore[index]
    assert (judged["stopped"], judged["without_answer"], judged["largest_lag"]) == (3, 3, 0)


def test_eq_1_as_printed_gives_each_worker_one_level_and_carries_all() -> None:
    levels = (Offer("slow", "slow", 1.0, 1.0), Offer("fast", "fast", 4.0, 0.5))
    found = plain.equation_1(levels, 2, 5.0, 5.0)
    assert found.objective == pytest.approx(0.2 * 1.0 + 0.8 * 0.5)  # one worker each: 1 + 4 a second
    assert plain.equation_1(levels, 1, 5.0, 5.0).objective is None


def test_the_joint_baseline_is_stopped_at_its_limit_and_says_so() -> None:
    made = catalog(6, 4, seed=1)
    (seen,) = observations(made, 200, 1, seed=1)
    assert plain.joint(problem_of(seen, made, validate_parameters({}, joint.PARAMETERS)), 0.01).is_stopped


def test_a_series_ends_with_its_time_but_not_before_three_solves() -> None:
    case = a_case(clipper_light.plan, measured("diffserve-sdturbo"), 4, 50, seed=1)
    found = run([case], Effort(50, 3, 0.0, 1.0), lambda *_: None)["cases"][case.name]
    assert found["solves"] == 3


def test_cpu_time_counts_and_waiting_does_not() -> None:
    _, busy = timed(lambda: sum(range(2_000_000)))
    assert busy.cpu_ms > 10
    _, idle = timed(lambda: threading.Event().wait(0.1))
    assert idle.wall_ms >= 100
    assert idle.cpu_ms < 50


def test_it_runs_on_one_core_and_gives_the_others_back() -> None:
    before = os.sched_getaffinity(0)
    with one_core():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_the_table_has_a_line_for_each_side() -> None:
    case = a_case(diffserve.plan, measured("diffserve-sdturbo"), 4, 3, seed=1, wanted_ms=0.0)
    lines = table(ran(case) | MACHINE)
    assert case.name in lines[1]
    assert "0 missed" in lines[1]
    assert "no plan worse" in lines[2]


def test_the_command_prints_one_line_of_json_and_fails_for_a_worse_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["planner", "--policy", "diffserve", "--solves", "3", "--baselines", "3", "-o", "json"]
    fine = CliRunner().invoke(bench, options, obj=Settings)
    assert fine.exit_code == 0, fine.output
    assert json.loads(fine.stdout)["worse"] == 0

    sides = {diffserve.plan: (lambda *_: -1.0, lambda *_: Found(0.5))}
    monkeypatch.setattr("replay.bench.environment.planner_cases._SIDES", sides)
    failed = CliRunner().invoke(bench, options, obj=Settings)
    assert isinstance(failed.exception, PochadeError)
    assert "3 plans were worse" in str(failed.exception)
