"""The bench of promises: what it counts of splits of a pool whose truth is known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from agents.lab.guarantee_bench import run
from agents.lab.judged_drafts import Drafts
from replay.bench.commands.bench_guarantee import table


def a_pool(count: int = 20_000, seed: int = 1) -> Drafts:
    """Confidences s that are right with probability s in the easy half, s^3 in the hard one."""
    rng = np.random.default_rng(seed)
    scores, hardness = rng.random(count), rng.random(count)
    right = rng.random(count) < np.where(hardness < 0.5, scores, scores**3)
    return Drafts("light", "look", scores, right, hardness, (0.0, 0.5, 1.0))


def rows(report: dict[str, Any]) -> dict[tuple[float, str], dict[str, Any]]:
    return {(row["alpha"], row["band"]): row for row in report["rows"]}


def test_a_promise_is_broken_in_at_most_delta_of_the_splits_and_keeps_nearly_what_it_could() -> None:
    found = rows(run(a_pool(), seeds=range(40), n=8000, alphas=(0.2,), delta=0.05))
    for band in ("overall", "0 to 0.5", "0.5 to 1", "together"):
        assert found[0.2, band]["within_share"] >= 0.9, band
    assert found[0.2, "overall"]["refused_share"] == 0
    assert found[0.2, "overall"]["kept_of_true"] > 0.7
    assert found[0.2, "0.5 to 1"]["kept_share"] < found[0.2, "0 to 0.5"]["kept_share"]


def test_what_is_within_reach_of_no_split_is_refused_and_counts_as_within() -> None:
    found = rows(run(a_pool(), seeds=range(3), n=200, alphas=(0.02,), delta=0.05))[0.02, "overall"]
    assert (found["refused_share"], found["within_share"], found["kept_share"]) == (1.0, 1.0, None)


def test_thresholds_that_are_too_low_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "agents.learning.bounds.stats.binom.cdf", lambda wrong, kept, alpha: 1.0 * (wrong > alpha * kept)
    )
    found = rows(run(a_pool(), seeds=range(40), n=2000, alphas=(0.2,), delta=0.05))
    assert found[0.2, "overall"]["within_share"] < 0.8, "the observed share alone promises too much"


def test_the_table_has_a_line_for_each_row() -> None:
    report = run(a_pool(2000), seeds=range(2), n=1000, alphas=(0.2, 0.3), delta=0.05)
    assert len(table(report)) == 1 + 2 * 4
    assert json.loads(json.dumps(report)) == report


def test_the_command_needs_drafts_to_test_with(tmp_path: Path) -> None:
    from streams.cli import main

    asked = ["bench", "guarantee", "--drafts", "100", "--calibration", "100", "--folder", str(tmp_path)]
    found = CliRunner().invoke(main, asked)
    assert found.exit_code == 2
    assert "--calibration must be below --drafts: got 100 of 100" in found.output
