"""`pochade plan solve`: any policy, any demand, no Kafka; what it says is the same for people and for programs."""

import functools
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agents.commands.plan import plan as plan_command
from agents.planner.observation_file import idle_workers
from agents.planner.report import Task, report
from agents.planner.report import solve_task as solved_task
from planner.catalog.entries import variant_of
from planner.observation.observation import Observation
from planner.policies import POLICIES
from streams import catalogs, shipped
from streams.settings import load
from tests.builders import NOW_MS

measured = functools.cache(catalogs.measured)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(plan_command, list(arguments), obj=lambda: load({"catalog": "profile"}))


def solve_task(*arguments: str) -> dict[str, Any]:
    done = run("solve", *arguments, "-o", "json")
    assert done.exit_code == 0, done.output + str(done.exception)
    answer: dict[str, Any] = json.loads(done.output)
    return answer


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_answers_with_all_that_is_asked_of_it(policy: str) -> None:
    found = solve_task("--policy", policy, "--demand", "4", "--workers", "3", "--catalog", "tiny")
    assert found.keys() >= {
        "feasible", "policy", "allocation", "batch", "cascades", "routes", "expected", "solve_ms", "reason",
    }  # fmt: skip
    assert found["expected"].keys() >= {"quality", "fid", "utilization"}
    assert (found["policy"], found["workers"], found["feasible"]) == (policy, 3, True)
    assert sum(found["allocation"].values()) == 3
    assert found["solve_ms"] > 0


@pytest.mark.parametrize("catalog", ["tiny", "profile"])
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(("workers", "demand"), [(1, 0.0), (2, 1000.0)])
def test_the_demo_can_run_every_policy_for_all_workers_have_a_place_and_all_levels_are_served(
    policy: str, catalog: str, workers: int, demand: float
) -> None:
    held = measured(catalog)
    seen = Observation(now_ms=NOW_MS, demand_rps=demand, workers=idle_workers(workers, NOW_MS))
    task = Task(policy, seen, held)
    found = report(task, solved_task(task))
    assert sum(found["allocation"].values()) == workers, found["reason"]
    levels = {level for route in found["routes"] for level, share in route["levels"].items() if share > 0}
    assert set(map(variant_of, levels)) <= held.variants.keys() & found["allocation"].keys()


def test_without_an_slo_the_one_of_the_catalogs_source_is_asked_for() -> None:
    asked = ("--policy", "diffserve", "--catalog", "diffserve-sdturbo", "--workers", "16", "--overprovision", "1")
    found = solve_task(*asked, "--demand", "24")
    assert (found["allocation"], found["batch"]) == ({"sd-turbo": 2, "sd15": 14}, {"sd-turbo": 16, "sd15": 4})
    assert [cascade["threshold"] for cascade in found["cascades"]] == [0.23]
    assert found["expected"]["fid"] == -found["expected"]["quality"]
    assert solve_task(*asked, "--demand", "32")["cascades"][0]["threshold"] == 0.115
    assert solve_task(*asked, "--demand", "24", "--slo", "0")["cascades"][0]["threshold"] > 0.23


def test_cascades_are_reported_with_from_to_and_threshold() -> None:
    (cascade,) = solve_task("--policy", "diffserve-static", "--demand", "4", "--workers", "3")["cascades"]
    assert (cascade["from"], cascade["to"]) == ("light", "heavy")
    assert 0 <= cascade["threshold"] <= 1


@pytest.mark.parametrize("policy", ["diffserve", "random-split"])
def test_overprovisioning_is_planned_for_whether_a_policy_has_a_parameter_for_it_or_not(policy: str) -> None:
    asked = ("--policy", policy, "--workers", "3", "--demand", "10")
    twice = solve_task(*asked, "--overprovision", "2")
    assert (
        twice["routes"]
        == solve_task("--policy", policy, "--workers", "3", "--demand", "20", "--overprovision", "1")["routes"]
    )


def test_an_observation_from_a_file_is_planned_for_and_options_change_it(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "seen.json"
    file.write_text('{"demand_rps": 3, "forecast_rps": 5, "workers": [{"worker_id": "a"}, {"worker_id": "b"}]}')
    asked = ("--policy", "random-split", "--observation", str(file))
    assert solve_task(*asked)["workers"] == 2
    assert solve_task(*asked, "--workers", "5", "--demand", "7")["expected"]["demand_rps"] == 7


def test_demand_that_nobody_serves_is_infeasible() -> None:
    assert solve_task("--policy", "clipper-heavy", "--demand", "4", "--workers", "0")["feasible"] is False
    assert solve_task("--policy", "clipper-heavy", "--demand", "400", "--workers", "2")["feasible"] is False
    assert solve_task("--policy", "clipper-heavy", "--demand", "0", "--workers", "0")["feasible"] is True


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ((), "give --demand and --workers, or --observation FILE"),
        (("--demand", "4"), "give --demand and --workers"),
        (("--demand", "-1", "--workers", "2"), "-1.0 is not in the range"),
        (("--demand", "1", "--workers", "2", "--policy", "hadiss"), "did you mean 'hadis'"),
        (("--demand", "1", "--workers", "2", "--catalog", "tinny"), "did you mean 'tiny'"),
        (("--demand", "1", "--workers", "2", "--parameter", "x"), "is not NAME=NUMBER"),
        (
            ("--demand", "1", "--workers", "2", "--policy", "clipper-light", "--parameter", "x=1"),
            "unknown parameter 'x'",
        ),
    ],
)
def test_what_is_asked_wrongly_is_reported(arguments: tuple[str, ...], reported: str) -> None:
    done = run("solve", *arguments)
    assert done.exit_code != 0
    assert reported in done.output + str(done.exception)


def test_people_get_a_table_with_the_reason() -> None:
    done = run("solve", "--policy", "clipper-light", "--demand", "4", "--workers", "3")
    assert "3 workers of light serve all requests" in done.output
    assert "solved in" in done.output


def test_solving_loads_no_kafka_client_and_no_torch() -> None:
    code = (
        "import sys; from agents.commands.plan import plan; from streams.settings import load\n"
        "plan.main(['solve', '--policy', 'joint', '--demand', '4', '--workers', '3'],"
        " obj=lambda: load({'catalog': 'tiny'}), standalone_mode=False)\n"
        "print([m for m in ('confluent_kafka', 'torch', 'faust') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_explaining_tells_what_binds_and_what_one_more_worker_would_buy(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "seen.json"
    file.write_text('{"demand_rps": 400, "workers": [{"worker_id": "a"}, {"worker_id": "b"}]}')
    asked = ("explain", "--policy", "clipper-heavy", "--observation", str(file))
    done = run(*asked, "-o", "json")
    reported = json.loads(done.output)
    assert [limit.split(":")[0] for limit in reported["binding"]] == ["heavy"]
    sizes = [reported[name]["allocation"]["heavy"] for name in ("one_less", "now", "one_more")]
    assert sizes == [1, 2, 3]
    assert reported["one_more"]["expected"]["utilization"] < reported["now"]["expected"]["utilization"]
    shown = run(*asked).output
    assert "limit: heavy" in shown
    assert "one worker more" in shown


@pytest.mark.parametrize(
    "command", ["solve", "show", "history", "diff", "pin", "unpin", "rollback", "shadow", "explain"]
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    assert "pochade plan" in done.output


def test_a_plan_for_more_workers_time_than_there_is_by_less_than_a_hundredth_is_feasible() -> None:
    answers = [
        solve_task("--policy", "joint", "--demand", demand, "--workers", "2", "--catalog", "genai2026")
        for demand in ("0.9", "0.927", "1")
    ]
    busy = [answer["expected"]["utilization"] for answer in answers]
    assert busy[0] < 1 < busy[1] < 1.01 < busy[2]
    assert [answer["feasible"] for answer in answers] == [True, True, False]


def test_where_the_tiny_models_are_not_installed_their_profile_is_named_with_its_distribution(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    asked = ("solve", "--demand", "4", "--workers", "3", "--catalog")
    assert "pip install" not in run(*asked, "tiny").stderr
    (tmp_path / "catalogs").symlink_to(shipped.INFRA / "catalogs")
    for module in (shipped, catalogs):
        monkeypatch.setattr(module, "INFRA", tmp_path)
    monkeypatch.setattr(catalogs, "MODELS", tmp_path / "models")
    done = run(*asked, "tiny")
    assert (done.exit_code, "pip install pochade-tiny" in done.stderr) == (0, True)
    assert "pip install" not in run(*asked, "profile").stderr
