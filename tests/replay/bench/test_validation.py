import functools
import pathlib
from dataclasses import asdict, replace

import pytest
from click.testing import CliRunner

from planner.catalog.model import Catalog
from replay.bench import validation
from replay.bench.commands import bench_validate
from replay.bench.validation import (
    compare_figures,
    measured_elsewhere,
    scaled,
    setup_of,
    simulated,
    speed_ratio,
)
from replay.load.record.folder import RunFolder
from replay.load.record.request_records import RequestRecord
from replay.simulation.draws.hop_latencies import NO_LATENCIES, HopLatencies, of_kinds, whole
from replay.simulation.results.figures import Figures, figures_of
from replay.simulation.run import Simulation
from replay.simulation.session import report_of
from replay.simulation.setup import PlanningTime, Setup, Timing
from replay.simulation.shipped_latencies import hop_latencies
from replay.traces.trace import Overrides
from schemas.errors import PochadeError
from streams.cli import main
from tests.builders import a_catalog
from tests.replay.simulation.runs import arrivals, asking, timed

TRACE = arrivals(12, 600)
TIMES = 8  # that a run is simulated here: fewer than the command does
SLOW = HopLatencies(arrive=whole([(0.0, 20.0), (0.0, 30.0), (0.0, 60.0)]), rest=whole([(0.0, 10.0)]))


def a_run(catalog: Catalog, hops: HopLatencies, seed: int = 5) -> tuple[RunFolder, Figures]:
    """Simulated itself, in place of a live one: with draws that the second simulation does not know."""
    setup = Setup(
        catalog=catalog, policy="diffserve-static", workers=3, slo_ms=2000.0, seed=seed, learns=True, is_cold=True,
        sheds=True, timing=Timing(hops=hops),
    )  # fmt: skip
    ran = Simulation(setup, TRACE).run()
    draws = Simulation(setup, TRACE)._source(0, len(TRACE))
    judged = draws.confidence("light", "look")
    seen = [
        RequestRecord(
            n, f"{seed}-{n}", "COMPLETED", 1.0, "light", draws.hardness[n], None, [["light", "look", judged[n]]]
        )
        for n in range(len(TRACE))
    ]
    report = report_of(timed(TRACE), {"diffserve-static": [ran]}) | {"live": {"hops": asdict(hops)}}
    return RunFolder(report, timed(TRACE), seen), figures_of(ran)


@functools.cache
def a_slow_run() -> tuple[RunFolder, Figures]:
    return a_run(a_catalog(), SLOW)


@pytest.fixture(autouse=True)
def fewer_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "TIMES", TIMES)


def again(run: RunFolder, hops: HopLatencies) -> list[Figures]:
    return simulated(run, a_catalog(), hops)


@functools.cache
def slow_again(*, has_times: bool = True) -> list[Figures]:
    """The slow run, simulated again with its times between processes or without."""
    run, _ = a_slow_run()
    return again(run, hop_latencies(run.report) if has_times else NO_LATENCIES)


def test_a_run_that_is_simulated_again_as_it_was_agrees() -> None:
    _, live = a_slow_run()
    rows = compare_figures(live, slow_again())
    assert {row.name for row in rows} == {
        "p50 latency",
        "p95 latency",
        "violations",
        "share of heavy",
        "share of light",
    }
    assert all(row.is_within for row in rows), rows
    assert [row.apart for row in rows if row.name.startswith("share")] == pytest.approx([0, 0], abs=0.003)


def test_a_simulation_that_leaves_out_what_it_takes_to_get_there_does_not() -> None:
    _, live = a_slow_run()
    apart = [row.name for row in compare_figures(live, slow_again(has_times=False)) if not row.is_within]
    assert "p50 latency" in apart


def test_what_requests_wish_and_tenants_may_is_simulated_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "TIMES", 1)
    run, _ = a_run(a_catalog(), NO_LATENCIES)
    wishes = [Overrides(tier="interactive", tenant="acme"), Overrides(tier="batch", tenant="other")]
    setup = run.report["setup"] | {"quotas": {"acme": {"rate_rps": 1.0, "burst": 1.0, "weight": 1.0}}}
    reported = again(RunFolder(dict(run.report) | {"setup": setup}, asking(TRACE, wishes), run.seen), NO_LATENCIES)[0]
    assert list(reported["by_tier"]) == ["interactive", "batch"]
    assert reported["by_tenant"]["acme"]["over_quota"] > 200
    assert reported["by_tenant"]["other"]["over_quota"] == 0


def test_the_moments_of_a_run_s_plans_and_what_came_before_it_are_given() -> None:
    run, _ = a_slow_run()
    changes = [{"at_s": -8.2}, {"at_s": 12.4}]
    figures = {"diffserve-static": run.report["policies"]["diffserve-static"] | {"changes": changes}}
    live = run.report["live"] | {"came_before_s": [-7.06], "plans_took_ms": [460, 110]}
    report = dict(run.report) | {"policies": figures, "live": live}
    setups = [setup_of(report, a_catalog(), NO_LATENCIES, 30_000.0, seed) for seed in range(2)]
    assert all(PlanningTime(12_400.0, 110) in setup.looks for setup in setups)
    assert setups[0].looks != setups[1].looks
    assert setups[0].before_ms == (-7060,)
    assert setups[0].timing.warm_up_ms == 8200


def test_a_report_of_an_earlier_release_is_simulated_without_what_it_does_not_tell() -> None:
    run, _ = a_slow_run()
    timing = {name: value for name, value in run.report["setup"]["timing"].items() if name != "group_beat_ms"}
    hops = {name: value for name, value in asdict(SLOW).items() if name not in ("plan", "paint_of")}
    report = dict(run.report) | {"setup": run.report["setup"] | {"timing": timing}, "live": {"hops": hops}}
    assert hop_latencies(report) == SLOW
    setup = setup_of(report, a_catalog(), hop_latencies(report), 30_000.0)
    assert (setup.before_ms, setup.timing.group_beat_ms) == ((), 2000)


def test_a_figure_comes_with_the_range_that_chance_makes_of_it() -> None:
    _, live = a_slow_run()
    figures = slow_again()
    p95 = [each["latency_s"]["p95"] for each in figures]
    row = compare_figures(live, figures)[1]
    assert len(figures) == TIMES
    assert (row.least, row.most) == (min(p95), max(p95))
    assert row.least < row.simulated < row.most
    assert row._replace(live=row.most).is_chance
    assert not row._replace(live=row.most + 0.001).is_chance


def test_limits_are_scaled_for_models_that_really_generate() -> None:
    _, live = a_slow_run()
    rows = compare_figures(live, slow_again(has_times=False), scale=2)
    assert [row.limit for row in rows[:3]] == pytest.approx([0.2, 0.2, 0.06])


def test_a_run_without_answers_has_no_latency_to_compare() -> None:
    _, live = a_slow_run()
    nothing = live | {"latency_s": {"p50": None, "p95": None}}
    assert not compare_figures(nothing, slow_again())[0].is_within


def test_a_run_whose_catalog_was_a_file_asks_for_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    run, _ = a_slow_run()
    live = {"hops_by_time": run.report["live"]["hops"]}
    report = dict(run.report) | {"setup": run.report["setup"] | {"catalog": "mine"}, "live": live}
    monkeypatch.setattr("replay.load.record.folder.read_run", lambda _: replace(run, report=report))
    with pytest.raises(PochadeError, match=r"was a file, mine\.toml: add --catalog FILE"):
        bench_validate.show(tmp_path, None, None, 0.1)


def test_another_run_s_times_are_scaled_to_the_speed_of_this_run_s_machine() -> None:
    there = {"live": {"hops": asdict(SLOW), "speed_ms": [1.0] * 51}}
    assert measured_elsewhere(there, {"live": {"speed_ms": [3.0] * 51}}).rest[0][0] == 30.0
    assert measured_elsewhere(there, {"live": {"speed_ms": []}}) == SLOW


def test_times_of_a_slower_machine_are_longer_by_its_ratio() -> None:
    hops = of_kinds(
        {"arrive": whole([(0.0, 10.0), (0.0, 20.0)]), "paint": whole([(0.0, -4.0)])}, {"light": ((8.0,) * 51,)}
    )
    rarely = (*[3.0] * 30, *[500.0] * 21)  # medians count, not what rare moments take
    slower = scaled(hops, speed_ratio((2.0,) * 51, rarely))
    assert (slower.arrive[0][0], slower.arrive[0][50]) == (15.0, 30.0)
    assert slower.paint[0][25] == -4.0, "a call that is faster than its profile stays so"
    assert slower.paint_of["light"][0][25] == 12.0
    assert scaled(hops, 1.0) == hops


def test_a_run_that_is_not_there_names_the_path_and_what_makes_one(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nope", tmp_path / "empty"):
        refused = CliRunner().invoke(main, ["bench", "validate", str(path)])
        assert refused.exit_code == 1
        said = " ".join(refused.output.split())
        assert f"no live run at {path}: make one with `pochade replay run TRACE ... --report DIR`" in said
