"""`pochade bench simulate`: worlds that differ from what deployments and catalogs are."""

import json
import pathlib

import pytest
from click.testing import CliRunner, Result

from streams.cli import main
from tests.replay.simulation.test_simulate_command import OPTIONS, trace

__all__ = ["trace"]


def simulated(trace: pathlib.Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["bench", "simulate", str(trace), *OPTIONS, *more])


def test_a_truth_changes_what_happens_and_is_named_in_the_report(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    asked = ["--catalog", "diffserve-sdturbo", "--truth", "time.sd-turbo=5", "--truth-catalog", "diffserve-sdturbo"]
    reported = simulated(trace, *asked, "--report", str(tmp_path))
    assert reported.exit_code == 0, reported.output
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["policies"]["clipper-light"]["latency_s"]["p50"] >= 0.5  # 0.1 s is profiled
    assert found["setup"]["truth"] == "diffserve-sdturbo, but time.sd-turbo=5"


def test_workers_hold_as_many_models_as_are_preloaded_and_calls_straggle(
    trace: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = ["--preload", "light,heavy", "--load-beside", "1.3", "--stragglers", "0.01:5", "--load-cv", "0.88"]
    reported = simulated(trace, *options, "--report", str(tmp_path))
    assert reported.exit_code == 0, reported.output
    assert "stragglers 1.0%" in reported.output
    setup = json.loads((tmp_path / "report.json").read_text())["setup"]
    assert setup["timing"]["residency"] == {"models": 2, "preloaded": ["light", "heavy"], "beside_factor": 1.3}
    assert "must hold 2 models" in simulated(trace, "--preload", "light,heavy", "--resident", "1").output


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--stragglers", "0.5"], "write SHARE:FACTOR"),
        (["--stragglers", "2:3"], "write SHARE:FACTOR"),
        (["--truth", "luck=1"], "unknown aspect of truth 'luck'"),
        (["--truth", "choice=0.5", "--recorded"], "leave --truth out"),
        (["--no-load", "--load-cv", "0.5"], "--load-cv has no effect with --no-load"),
        (["--no-load", "--preload", "light", "--load-beside", "2"], "--preload, --load-beside have no effect"),
    ],
)
def test_what_cannot_be_is_refused(trace: pathlib.Path, options: list[str], fault: str) -> None:
    refused = simulated(trace, *options)
    assert refused.exit_code != 0
    assert fault in " ".join(refused.output.split())
