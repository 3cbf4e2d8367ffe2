"""Two policies on stretches of a made-up GenTD26, pair by pair."""

import itertools
import json
import pathlib
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from replay.bench import genai
from replay.bench.genai import FIGURES, Asked, measure, read_files
from replay.traces import Trace
from streams.catalogs import measured
from streams.cli import main
from tests.replay.bench.traces.test_gentd26_folder import folder_of, processed, timed


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with 120 requests for five bases, skewed, in runs."""
    dice = np.random.default_rng(1)
    bases = [f"b{rank}" for rank in range(5) for _ in range(10 // (rank + 1))]
    requests = [(bases[dice.integers(len(bases))], [("x", 1.0)] if dice.random() < 0.2 else []) for _ in range(120)]
    users = [(f"u{n % 7}", f"M{n % 3}") for n in range(60)]
    return folder_of(tmp_path, processed(*requests), timed(*users))


def test_each_pair_has_another_stretch_and_both_policies_the_same(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed: list[tuple[str, tuple[float, ...], tuple[str, ...]]] = []
    run = genai.run

    def spy(policy: str, trace: Trace, *rest: Any) -> Any:
        bases = tuple(row.wish.options.model for row in trace.rows())
        replayed.append((policy, tuple(trace.arrival_ms.tolist()), bases))
        return run(policy, trace, *rest)

    monkeypatch.setattr(genai, "run", spy)
    asked = Asked(speeds=(2000.0,), pairs=2, requests=60, workers=2)
    found = measure(read_files(folder), measured("genai2026"), asked, lambda _: None)["x2000"]
    ours, theirs = ([rest for policy, *rest in replayed if policy == name] for name in ("mlora", "lru-round-robin"))
    assert ours == theirs
    assert ours[0][0] != ours[1][0]
    assert ours[0][1] != ours[1][1]
    for figure in found.values():
        assert figure["difference"] == pytest.approx(figure["mlora"] - figure["lru-round-robin"], abs=1e-3)
        assert figure["interval"][0] <= figure["difference"] <= figure["interval"][1]
    assert found["loads"]["mlora"] > 0
    hits = found["device_hits"]
    assert 0 < max(hits["mlora"], hits["lru-round-robin"]) <= hits["bound"] < 1


def test_a_policy_against_itself_differs_in_nothing_and_is_undecided(folder: pathlib.Path) -> None:
    asked = Asked(speeds=(2000.0,), pairs=2, requests=30, workers=2, ours="mlora", baseline="mlora")
    found = measure(read_files(folder), measured("genai2026"), asked, lambda _: None)["x2000"]
    assert {figure["difference"] for figure in found.values()} == {0.0}
    assert {name: figure["verdict"] for name, figure in found.items() if "verdict" in figure} == {
        "network_gb": "undecided", "p99_s": "undecided",
    }  # fmt: skip


def test_less_is_ahead_only_where_chance_seldom_makes_such_a_difference() -> None:
    def figures(*p99_s: float) -> list[Any]:
        return [
            {
                "bytes_moved": dict.fromkeys(("volume", "host", "device"), 1e9 * value), "loads": value,
                "load_s": value, "hits_by_tier": {"device": value}, "cold_starts": value,
                "replicas": {"mean": value, "most": value}, "latency_s": {"mean": value, "p50": value, "p99": value},
            }
            for value in p99_s
        ]  # fmt: skip

    def verdict(ours: list[Any], theirs: list[Any]) -> str:
        return str(genai.compare(ours, theirs, Asked())["p99_s"]["verdict"])

    assert verdict(figures(1.0, 2.1, 3.0, 4.0), figures(5.0, 6.0, 7.1, 8.0)) == "ahead"
    assert verdict(figures(5.0, 6.0, 7.1, 8.0), figures(1.0, 2.1, 3.0, 4.0)) == "behind"
    assert verdict(figures(1.0, 6.0, 3.0, 8.0), figures(5.0, 2.0, 7.0, 4.5)) == "undecided"


def test_the_command_prints_figures_by_speed_in_one_line_of_json(folder: pathlib.Path) -> None:
    options = ["--speed", "2000", "--pairs", "2", "--requests", "30", "--workers", "2", "-o", "json"]
    done = CliRunner().invoke(main, ["bench", "genai2026", str(folder), *options])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["engine"] == "simulated"
    assert set(itertools.chain(report["x2000"])) == set(FIGURES)
