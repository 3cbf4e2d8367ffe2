"""Phases of easy and hard prompts, and the command that writes a trace of the papers."""

import pathlib

import numpy as np
import pytest
from click.testing import CliRunner

from replay.bench.traces.made import phased
from replay.traces import read
from streams.cli import main


def test_phases_change_hardness_and_not_demand() -> None:
    trace = phased(400, seed=1, rate_rps=5)
    counts = np.histogram(trace.arrival_ms, np.arange(0, 400_001, 100_000))[0]
    assert counts.min() > 0.85 * counts.max()
    parts = np.split(trace.hardness, np.cumsum(counts)[:-1])
    assert all(part.max() < 0.5 for part in parts[::2])
    assert all(part.min() >= 0.5 for part in parts[1::2])
    assert parts[0].mean() == pytest.approx(0.25, abs=0.03)
    assert not trace.has_prompts


def test_a_made_trace_is_written_and_a_name_that_is_none_is_reported(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "phases.csv"
    done = CliRunner().invoke(main, ["bench", "trace", "phases", "--limit", "50", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert len(read(out)) == 50
    assert "did you mean 'phases'" in CliRunner().invoke(main, ["bench", "trace", "phase", "--out", "x"]).output
