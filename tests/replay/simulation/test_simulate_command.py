"""`pochade simulate` as a person calls it."""

import dataclasses
import html
import itertools
import json
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from replay.commands.simulate import simulate
from replay.commands.trace_options import without_unknown_components
from replay.simulation.asked import setups_of
from replay.simulation.results.tables import describe_violations
from replay.simulation.shipped_latencies import shipped_hop_latencies
from replay.traces import COLUMN, poisson, topic
from replay.traces.trace import Overrides, of_arrivals
from schemas.messages import GenerateOptions
from streams.catalogs import measured
from streams.cli import main
from streams.settings import Settings

OPTIONS = ["--policy", "clipper-light,random-split", "--workers", "3", "--catalog", "profile", "--slo", "1"]


def simulated(trace: pathlib.Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["simulate", str(trace), *OPTIONS, *options])


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([COLUMN, *(f"{ms:.0f}" for ms in poisson(20, 200, 1))]))
    return path


def test_it_prints_a_row_a_policy_and_writes_the_report(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    reported = simulated(
        trace, "--report", str(tmp_path / "out"), "--seeds", "2", "--parameter", "random-split.batch=2"
    )
    assert reported.exit_code == 0, reported.output
    for policy in ("clipper-light", "random-split"):
        assert policy in reported.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["policies"].keys() == {"clipper-light", "random-split"}
    assert report["policies"]["random-split"]["requests"] == 200
    assert report["setup"]["parameters"] == {"clipper-light": {}, "random-split": {"batch": 2.0}}
    assert report["trace"]["requests"] == 200


def test_a_fleet_grows_and_shrinks_within_what_the_options_and_settings_say_and_its_cost_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_ms = [*range(0, 20_000, 200), *range(20_000, 40_000, 20), *range(40_000, 90_000, 1000)]  # 5, 50 and 1 a second
    trace = tmp_path / "burst.csv"
    trace.write_text("\n".join([COLUMN, *map(str, at_ms)]))
    monkeypatch.setenv("POCHADE_PLANNER__SCALE__LOAD_FACTOR", "0.6")
    scaling = ["--max-workers", "12", "--pool", "1", "--start", "2", "--scale-period", "1", "--min-workers", "heavy=2"]
    options = ["--policy", "clipper-heavy", "--period", "1", *scaling, "--report", str(tmp_path)]
    done = simulated(trace, *options)
    assert done.exit_code == 0, done.output
    assert "cold starts of workers" in done.output
    assert "worker-seconds" in done.output
    report = json.loads((tmp_path / "report.json").read_text())
    asked = {"max_workers": 12, "warm": 1, "start_ms": 2000.0, "period_ms": 1000.0, "minimum": {"heavy": 2}}
    assert asked.items() <= report["setup"]["scaling"].items()
    assert report["setup"]["scaling"]["load_factor"] == 0.6
    row = report["policies"]["clipper-heavy"]
    assert 4 < row["scale"]["workers_mean"] < row["scale"]["workers_most"] <= 12
    assert row["scale"]["started"] >= 3
    assert row["scale"]["drained"] >= 3
    assert row["scale"]["target_changes"] >= 2
    assert row["cost_worker_s"] == pytest.approx(90 * row["scale"]["workers_mean"], rel=0.05)


def test_a_run_that_takes_too_long_is_reported_as_far_as_it_came(
    trace: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiers = itertools.cycle(["", "", "interactive"])
    lines = ({"arrival_ms": float(line), "tier": next(tiers)} for line in trace.read_text().splitlines()[1:])
    trace.write_text("\n".join(json.dumps({name: each for name, each in line.items() if each}) for line in lines))
    options = ["simulate", str(trace), "--workers", "3", "--catalog", "profile", "--slo", "1", "--policy"]
    one = [*options, "clipper-light"]

    def run(*more: str) -> Result:
        return CliRunner().invoke(main, [*one, *more])

    assert run("--limit", "50", "--no-baseline", "--report", str(tmp_path / "a")).exit_code == 0
    now_s = itertools.count()
    monkeypatch.setattr("replay.commands.covering.time", SimpleNamespace(monotonic=lambda: float(next(now_s))))
    monkeypatch.setattr("replay.commands.simulate.time", SimpleNamespace(monotonic=lambda: 0.0))
    stopped = run("--time-limit", "50", "--report", str(tmp_path / "b"))
    assert stopped.exit_code == 0, stopped.output
    assert "progress: clipper-light: 0 of 9 s, 2 of 200 requests, about 198 s left" in stopped.output
    assert "stopped after 50 s: 2 of 9 s, 50 of 200 requests are simulated" in stopped.output
    limited, part = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("a", "b"))
    assert part["trace"].pop("whole") == {"requests": 200, "seconds": pytest.approx(10, rel=0.2)}
    rows = [report["policies"]["clipper-light"] for report in (limited, part)]
    assert rows[0].pop("by_tier"), "counts by tier are of the whole trace, and a part of it has none"
    for report, row in zip((limited, part), rows, strict=True):
        del report["made"], row["changes"]  # the first plan knows the rate of the trace's first minute
    assert part == limited
    assert run("--time-limit", "5", "--seeds", "2").exit_code == 2


def test_the_same_call_writes_the_same_bytes(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for folder in ("a", "b"):
        assert simulated(trace, "--report", str(tmp_path / folder)).exit_code == 0
    assert (tmp_path / "a" / "report.json").read_bytes() == (tmp_path / "b" / "report.json").read_bytes()


def test_over_provisioning_goes_to_the_policies_that_know_it(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    reported = simulated(trace, "--policy", "diffserve-static", "--overprovision", "1.3", "--report", str(tmp_path))
    assert reported.exit_code == 0, reported.output
    parameters = json.loads((tmp_path / "report.json").read_text())["setup"]["parameters"]
    assert parameters == {"clipper-light": {}, "random-split": {}, "diffserve-static": {"overprovision": 1.3}}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--workers", "0"], "0 is not in the range 1<=x"),
        (["--pool", "2"], "--pool: needs a fleet that is scaled; give also --max-workers"),
        (["--max-workers", "3", "--pool", "1"], "--max-workers must be at least 4"),
        (["--max-workers", "9", "--min-workers", "heavy"], "write VARIANT=NUMBER, such as heavy=2"),
        (["--max-workers", "9", "--min-workers", "hevay=2"], "did you mean 'heavy'"),
        (["--policy", "clipper-lihgt"], "did you mean 'clipper-light'"),
        (["--catalog", "nome"], "unknown catalog 'nome'"),
        (["--dispatch", "fifo"], "'fifo' is not one of"),
        (["--parameter", "batch"], "must be [POLICY.]NAME=NUMBER: got 'batch'"),
        (["--parameter", "argus.batch=2"], "of a policy that is not simulated"),
        (["--parameter", "random-split.batsh=2"], "unknown parameter 'batsh'"),
        (["--slo", "0"], "0.0 is not in the range x>0"),
        (["--truth-catalog", "hadis-l40s"], "lacks variants that plans name"),
    ],
)
def test_what_cannot_be_simulated_is_reported(trace: pathlib.Path, options: list[str], fault: str) -> None:
    reported = simulated(trace, *options)
    assert reported.exit_code != 0
    assert fault in " ".join(reported.output.split())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        (f"{COLUMN}\n", "no "),
        (f"{COLUMN}\n5\n3\n", ":3: arrivals must not fall"),
        (f"{COLUMN}\n-1\n", ":2: an arrival is 0 ms or later"),
        (f"{COLUMN}\nnoon\n", ":2: not a number of milliseconds"),
    ],
)
def test_a_bad_trace_is_reported_with_its_file_and_line(trace: pathlib.Path, text: str, fault: str) -> None:
    trace.write_text(text)
    reported = simulated(trace)
    assert reported.exit_code == 1
    assert f"{trace.name}" in reported.output.replace("\n", "")
    assert fault in reported.output.replace("\n", "")


def test_workers_that_fail_are_read_from_a_file(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    failures = tmp_path / "failures.csv"
    failures.write_text("at_s,worker,change\n1,w-0,down\n6,w-0,up\n")
    assert simulated(trace, "--failures", str(failures), "--report", str(tmp_path)).exit_code == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert [outage["at_ms"] for outage in report["setup"]["outages"]] == [1000.0, 6000.0]
    assert report["policies"]["clipper-light"]["plans"] >= 2


def test_wishes_are_reported_by_tier_and_a_model_that_the_catalog_lacks_is_overridden_as_it_is_live(
    trace: pathlib.Path,
) -> None:
    asked = [
        {"arrival_ms": 100 * n, "tier": ("interactive", "batch")[n % 2]} | ({"model": "sd9"} if n == 5 else {})
        for n in range(20)
    ]
    trace.write_text("\n".join(json.dumps(each | {"prompt": "a red heart"}) for each in asked))
    done = simulated(trace)
    assert done.exit_code == 0, done.output
    assert "models that the catalog lacks: sd9; they are left out" in " ".join(done.output.split())
    assert "clipper-light: interactive 10 requests, 0.00% violations, p95 0." in done.output


def test_what_a_request_names_and_the_catalog_lacks_is_named_by_kind(trace: pathlib.Path) -> None:
    control = {"controls": ["canny"], "control_images": ["s3://images/a.png"], "control_weights": [0.5]}
    named = {"adapters": ["mint"], **control}
    rows: list[dict[str, Any]] = [
        {"arrival_ms": 100 * n, "prompt": "a cat"} | (named if n == 5 else {}) for n in range(20)
    ]
    trace.write_text("\n".join(map(json.dumps, rows)))
    done = simulated(trace)
    said = " ".join(done.output.split())
    assert "adapters that the catalog lacks: mint; they are left out" in said
    assert "ControlNets that the catalog lacks: canny; they are left out" in said
    assert "--model THEIRS=OURS" not in said
    assert "not in time" not in said
    rows[5] |= {"strict": True}
    trace.write_text("\n".join(map(json.dumps, rows)))
    assert (
        "clipper-light: not in time: 1 rejected as no level does what is asked for"
        in simulated(trace).output.splitlines()
    )


def test_components_that_the_catalog_has_keep_their_weights_beside_those_that_it_lacks() -> None:
    options = GenerateOptions(
        adapters=("none", "candy"),
        adapter_weights=(0.3, 0.7),
        controls=("none", "outline"),
        control_images=("a", "b"),
        control_weights=(0.2, 0.4),
    )
    trace = dataclasses.replace(of_arrivals([0.0], "t", "t"), wishes=(Overrides(options=options),))
    [wish] = without_unknown_components(trace, measured("tiny")).wishes
    assert wish.options == GenerateOptions(
        adapters=("candy",), adapter_weights=(0.7,), controls=("outline",), control_images=("b",),
        control_weights=(0.4,),
    )  # fmt: skip


def test_why_requests_were_not_in_time_is_printed_by_what_became_of_them(
    trace: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    trace.write_text("\n".join([COLUMN, *(str(n // 4) for n in range(4000))]))
    reported = simulated(trace, "--no-drop", "--report", str(tmp_path))
    assert reported.exit_code == 0, reported.output
    row = json.loads((tmp_path / "report.json").read_text())["policies"]["clipper-light"]
    assert row["late"] == row["violations"] > 0
    assert f"clipper-light: not in time: {row['late']:,} late" in reported.output.splitlines()


def test_reasons_of_runs_with_several_seeds_are_means() -> None:
    row = {"shed": 27.0, "late": 1234.5, "expired": 3.3333, "failed": 0.0, "open": 0.0}
    assert describe_violations("joint", row) == "joint: not in time: 27 shed, 1,234.5 late, 3.3 expired"


def test_all_that_is_missing_is_asked_for_at_once(trace: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["simulate", str(trace), "--catalog", "profile"])
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "give also --policy, --workers, --slo (the setting planner.slo_s is 0, and catalog 'profile' has" in said


def test_without_a_latency_target_the_catalogs_is_taken(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    words = ["simulate", str(trace), "--catalog", "tiny", "--policy", "clipper-light", "--workers", "2"]
    done = CliRunner().invoke(main, [*words, "--report", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out" / "report.json").read_text())["setup"]["slo_s"] == 2


def p50_of(trace: pathlib.Path, tmp_path: pathlib.Path, *options: str) -> float:
    folder = tmp_path / "-".join(options).replace("/", "_")
    reported = simulated(trace, "--report", str(folder), *options)
    assert reported.exit_code == 0, reported.output
    report = json.loads((folder / "report.json").read_text())
    return float(report["policies"]["clipper-light"]["latency_s"]["p50"])


def test_requests_take_the_time_between_processes_unless_that_is_left_out(
    trace: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    hops = shipped_hop_latencies()
    between_ms = sum(slot[0][25] for slot in (hops.arrive, hops.fetch, hops.judge))  # medians
    added_ms = 1000 * (p50_of(trace, tmp_path, "--hops") - p50_of(trace, tmp_path, "--no-hops"))
    assert 0.5 * between_ms < added_ms < 2 * between_ms  # of a cascade: some requests pass twice
    assert "nothing between processes" in simulated(trace, "--no-hops").output


def test_what_a_run_assumes_is_printed_and_reported(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = ["--run-cv", "0.2", "--speeds", "1,0.5"]
    reported = simulated(trace, "--report", str(tmp_path), *options)
    assert reported.exit_code == 0, reported.output
    assert "spread of run times asked for (variation 20% to 20%)" in reported.output
    assert "hardness drawn uniformly; classes of models cut from hardness" in reported.output
    setup = json.loads((tmp_path / "report.json").read_text())["setup"]
    assert setup["hops"]
    assert setup["variation"]["speeds"] == [1.0, 0.5]
    assert "not measured: none" in simulated(trace).output


def test_hardness_is_that_of_the_trace_where_it_has_one(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "graded.jsonl"
    rows: list[dict[str, Any]] = [
        {"arrival_ms": 100 * n, "prompt": "a cat"} | ({"hardness": 0.1} if n % 4 else {}) for n in range(40)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reported = simulated(file, "--report", str(tmp_path))
    assert "hardness as the trace has it of 75%, else drawn uniformly" in reported.output
    assert json.loads((tmp_path / "report.json").read_text())["trace"]["hardness_known"] == 0.75


@pytest.mark.parametrize("option", [("--speeds", "1,x"), ("--speeds", "0")])
def test_a_deviation_that_cannot_be_is_refused(trace: pathlib.Path, option: tuple[str, str]) -> None:
    refused = simulated(trace, *option)
    assert refused.exit_code == 2
    assert "write " in refused.output


def setup_of(reported: Result, folder: pathlib.Path) -> dict[str, Any]:
    assert reported.exit_code == 0, reported.output
    setup: dict[str, Any] = json.loads((folder / "report.json").read_text())["setup"]
    return setup


def test_the_settings_are_the_default_of_the_latency_target_and_of_the_own_policys_parameters(
    trace: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCHADE_PLANNER__SLO_S", "3")
    monkeypatch.setenv("POCHADE_PLANNER__POLICY", "random-split")
    monkeypatch.setenv("POCHADE_PLANNER__PARAMETERS", '{"batch": 2}')
    words = ["simulate", str(trace), "--policy", "clipper-light,random-split", "--workers", "3", "--catalog", "tiny"]
    by_settings = setup_of(CliRunner().invoke(main, [*words, "--report", str(tmp_path)]), tmp_path)
    assert by_settings["slo_s"] == 3
    assert by_settings["parameters"] == {"clipper-light": {}, "random-split": {"batch": 2.0}}
    given = ["--slo", "2", "--parameter", "random-split.batch=4", "--report", str(tmp_path)]
    by_options = setup_of(CliRunner().invoke(main, [*words, *given]), tmp_path)
    assert by_options["slo_s"] == 2
    assert by_options["parameters"]["random-split"] == {"batch": 4.0}


def test_cells_of_benches_take_no_parameters_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCHADE_PLANNER__PARAMETERS", '{"overprovision": 1.4}')
    words = ["trace.csv", "--policy", "joint", "--workers", "2", "--catalog", "tiny", "--slo", "2"]
    asked = simulate.make_context("simulate", words).params
    [setup] = setups_of(Settings(), measured("tiny"), asked)
    assert setup.parameters == {}


OWN = ["simulate", "--from-topic", "--policy", "clipper-light", "--workers", "2", "--catalog", "tiny"]


@pytest.fixture
def own_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The requests of a deployment that simulations read of its topics."""
    own = of_arrivals([100.0 * n for n in range(50)], "pochade.prompts", "pochade.prompts")
    monkeypatch.setattr(topic, "read_topic", lambda *_asked: own)


@pytest.mark.usefixtures("own_requests")
@pytest.mark.parametrize(
    ("setting", "options", "sheds", "learns"),
    [
        ("true", [], True, True),
        ("false", [], False, True),
        ("true", ["--no-shed", "--no-learn"], False, False),
        ("false", ["--shed"], True, True),
    ],
)
def test_own_requests_meet_load_shedding_and_learning_as_the_deployment_has_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, setting: str, options: list[str], sheds: bool, learns: bool
) -> None:
    monkeypatch.setenv("POCHADE_PLANNER__LOAD_SHEDDING", setting)
    reported = CliRunner().invoke(main, [*OWN, *options, "--report", str(tmp_path)])
    setup = setup_of(reported, tmp_path)
    assert (setup["sheds"], setup["learns"]) == (sheds, learns)
    assert f"load shedding {'on' if sheds else 'off'}; learning {'on' if learns else 'off, but'}" in reported.output


def test_a_files_requests_meet_neither_whatever_the_settings(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    reported = simulated(trace, "--report", str(tmp_path))
    setup = setup_of(reported, tmp_path)
    assert (setup["sheds"], setup["learns"]) == (False, False)
    assert "load shedding off; learning off, but for policies that ask for it" in reported.output
    asked = setup_of(simulated(trace, "--shed", "--learn", "--report", str(tmp_path)), tmp_path)
    assert (asked["sheds"], asked["learns"]) == (True, True)


def test_help_says_the_default_of_what_a_deployment_has_as_a_setting() -> None:
    said = " ".join(CliRunner().invoke(main, ["simulate", "--help"], terminal_width=200).output.split())
    for option, default in (
        ("--slo", "(default: the setting planner.slo_s, else the catalog's)"),
        ("--drop / --no-drop", "[default: drop]"),
        ("--shed / --no-shed", "with --from-topic, the setting planner.load_shedding)"),
        ("--load / --no-load", "[default: load]"),
        ("--learn / --no-learn", "(default: on with --from-topic"),
        ("--hops / --no-hops", "[default: hops]"),
    ):
        assert default in said.split(f" {option} ")[1][:400]


def said_by(*words: str) -> str:
    """Return what `simulate` says of a call that it refuses for the way it is asked."""
    refused = CliRunner().invoke(main, ["simulate", *words])
    assert refused.exit_code == 2, refused.output
    return " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--no-hops", "--measured", "x"], "--measured has no effect with --no-hops"),
    ],
)
def test_an_option_of_another_mode_is_refused(trace: pathlib.Path, options: list[str], fault: str) -> None:
    assert fault in said_by(str(trace), *OPTIONS, *options)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--to", "4:8"], "--to has no effect on"),
        (["--order", "turn"], "--order has no effect without --prompts"),
        (["--until", "1h"], "--until has no effect on a file"),
        (["--budgets", "9:9:9", "--overlap"], "--budgets, --overlap have no effect as no request of the trace needs"),
        (["--eviction", "lru"], "--eviction has no effect as no request of the trace needs a component that catalog"),
        (
            ["--model", "*=haevy"],
            "--model *=haevy: unknown model 'haevy': did you mean 'heavy'? known are heavy, light",
        ),
    ],
)
def test_an_option_that_the_trace_gives_no_use_for_is_refused(
    trace: pathlib.Path, options: list[str], fault: str
) -> None:
    assert fault in said_by(str(trace), *OPTIONS, *options)


@pytest.mark.usefixtures("own_requests")
def test_own_requests_have_a_time_span() -> None:
    assert CliRunner().invoke(main, [*OWN, "--since", "2h", "--until", "1h"]).exit_code == 0


def test_over_provisioning_that_no_policy_has_is_refused(trace: pathlib.Path) -> None:
    refused = simulated(trace, "--overprovision", "1.3")
    assert refused.exit_code == 1
    assert "--overprovision has no effect on clipper-light, random-split" in " ".join(refused.output.split())


def test_reuse_is_told_of_policies_that_looked_latents_up_alone(trace: pathlib.Path) -> None:
    two = ("--catalog", "tiny", "--workers", "2")  # too few for heavy in full, so that ARGUS skips steps
    assert "of all steps saved" in simulated(trace, *two, "--policy", "argus").output
    assert "of all steps saved" not in simulated(trace, *two, "--policy", "joint").output


def test_the_report_states_global_options_rejections_that_no_level_honours_and_one_worker_in_the_singular(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, trace, out = tmp_path / "mine.toml", tmp_path / "trace.jsonl", tmp_path / "out"
    monkeypatch.setenv("POCHADE_CONFIG", "")  # which the command sets, as child processes read the same file
    config.write_text("[planner]\nslo_s = 2\n")
    asked = (
        {"arrival_ms": 100 * n, "quality_at_least": 0.9999} if n % 2 else {"arrival_ms": 100 * n} for n in range(40)
    )
    trace.write_text("".join(json.dumps(each) + "\n" for each in asked))
    options = ["--config", str(config), "--set", "gateway.url_secret=abcdefghijklmnopqrstuvwxyzabcdefgh"]
    rest = [
        "simulate",
        str(trace),
        "--policy",
        "clipper-light",
        "--workers",
        "1",
        "--no-baseline",
        "--report",
        str(out),
    ]
    done = CliRunner().invoke(main, [*options, *rest])
    assert done.exit_code == 0, done.output
    report, page = json.loads((out / "report.json").read_text()), (out / "report.html").read_text()
    command = report["made"]["command"]
    assert command.startswith(f"pochade --set 'gateway.url_secret=(hidden)' --config {config} simulate "), command
    assert command in html.unescape(page)
    figures = report["policies"]["clipper-light"]
    assert (figures["shed"], figures["unhonoured"], figures["violations"]) == (0, 20, 20)
    assert "not in time: 20 rejected as no level does what is asked for" in done.output
    assert ", 1 worker, SLO 2 s" in page
