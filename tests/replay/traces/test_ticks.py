"""Access logs have whole seconds: their requests arrive within the second, and it is said."""

import json
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from click.testing import CliRunner

from replay.traces import Asked, poisson
from replay.traces.ticks import tick_of
from replay.traces.trace import Trace
from streams.cli import main
from tests.replay.traces.files import arrivals, read_in
from tests.replay.traces.test_replay_command import called

TIMES = poisson(20, 2000, seed=1)
UNITS = {"second": 1000, "minute": 60_000, "hour": 3_600_000}


def cut(unit: str, times: Sequence[float] = TIMES) -> list[int]:
    """Times in whole units, as many in each as there were a second."""
    return [int(at // 1000 * UNITS[unit]) for at in times]


def of_log(folder: pathlib.Path, at_s: list[int]) -> Trace:
    lines = "".join(
        f'h - - [22/Nov/2026:03:{at // 60:02d}:{at % 60:02d} +0000] "GET / HTTP/1.1" 200 1\n' for at in at_s
    )
    return read_in(folder, lines)


@pytest.mark.parametrize("unit", UNITS)
def test_requests_of_a_whole_unit_arrive_within_it_in_their_order(unit: str, tmp_path: pathlib.Path) -> None:
    times = np.array(cut(unit))
    found = read_in(tmp_path, arrivals(*times.tolist()))
    assert found.spread_within == unit
    assert (found.arrival_ms // UNITS[unit] == times // UNITS[unit]).all(), "none has left its unit"
    assert len({*found.arrival_ms.tolist()}) == len(times), "no two at one moment"
    gaps = np.diff(found.arrival_ms)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.1), "as a Poisson process has it"


def test_the_seed_alone_decides_where_in_its_second_a_request_arrives(tmp_path: pathlib.Path) -> None:
    times = arrivals(*cut("second"))
    same, again, other = (read_in(tmp_path, times, Asked(seed=seed)).arrival_ms.tolist() for seed in (1, 1, 2))
    assert same == again != other


def test_an_access_log_is_spread_from_any_second_on(tmp_path: pathlib.Path) -> None:
    found = of_log(tmp_path, [7, 7, 7, 8, 9, 9, 61])
    assert found.spread_within == "second"
    assert (found.arrival_ms // 1000).tolist() == [0, 0, 0, 1, 2, 2, 54]


@pytest.mark.parametrize(
    "times", [[0, 1000, 2000, 3000], [0, 0, 1000], [0, 0, 0], [0, 12.5, 12.5, 1000], [0, 1, 1, 2, 3], [5]]
)
def test_times_that_are_fine_enough_stay(times: list[float], tmp_path: pathlib.Path) -> None:
    """One request a second, too few times to tell, and a finer resolution."""
    found = read_in(tmp_path, arrivals(*times))
    assert (found.arrival_ms.tolist(), found.spread_within) == (times, "")


def test_whole_times_stay_where_this_is_asked_for(tmp_path: pathlib.Path) -> None:
    found = read_in(tmp_path, arrivals(*cut("second")), Asked(spreads=False))
    assert (found.arrival_ms.tolist(), found.spread_within) == (cut("second"), "")


def test_counts_are_drawn_within_their_rows_and_no_more(tmp_path: pathlib.Path) -> None:
    assert read_in(tmp_path, "minute,requests\n0,9\n1,20\n2,4\n").spread_within == ""


def test_a_spread_trace_is_not_spread_again() -> None:
    assert tick_of(np.array([0.0, 0.0, 1000.0, 2000.0])) == "second"
    assert tick_of(np.array([12.0, 313.0, 1000.5, 2000.0])) == ""


def test_the_commands_say_that_arrivals_were_spread(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(arrivals(*cut("second")))
    says = (
        "states times in whole seconds, and several requests share one: each request arrives at a moment drawn evenly"
    )
    assert says in " ".join(called("inspect", path).output.split())
    assert json.loads(called("inspect", path, "-o", "json").output)["spread_within"] == "second"
    assert f"{says} within its second; --no-spread keeps" in called("save", path, "--out", tmp_path / "out.csv").output
    assert says not in called("save", path, "--no-spread", "--out", tmp_path / "out.csv").output


def test_a_simulation_reports_it_and_has_the_violations_of_the_trace_before_it_was_cut(tmp_path: pathlib.Path) -> None:
    times, out = poisson(10, 1000, seed=3), tmp_path / "out"
    rates = {}
    for name, at, more in (
        ("fine", times, []),
        ("spread", cut("second", times), []),
        ("whole", cut("second", times), ["--no-spread"]),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_text(arrivals(*at))
        options = ["--policy", "clipper-heavy", "--workers", "2", "--slo", "0.5", "--no-baseline", "--report", str(out)]
        done = CliRunner().invoke(main, ["simulate", str(path), *options, *more])
        assert done.exit_code == 0, done.output
        report, page = json.loads((out / "report.json").read_text()), (out / "report.html").read_text()
        said = ["states times in whole seconds" in text for text in (done.output, page)]
        said.append(report["trace"].get("spread_within") == "second")
        assert said == [name == "spread"] * 3
        rates[name] = report["policies"]["clipper-heavy"]["violation_rate"]
    assert rates["spread"] == pytest.approx(rates["fine"], abs=0.03)
    assert rates["whole"] > rates["fine"] + 0.2, rates
