"""Two policies in turn on the same arrivals, live on the broker: the simulator has their order and differences.

Each pair of runs has arrivals of its own, drawn at the same rates; both policies serve them, one after the other. The
simulator is given the arrivals, how hard the classifier found their prompts, the settings, the warm-up request and the
times between processes that ship, scaled to the speed that the machine had in each run: nothing that workers, plans or
discriminators made of them, and no moment at which the planner looked.

Of each figure the difference of the policies is taken pair by pair. Its order agrees unless live and simulated
differences lie on either side of 0, both beyond chance. Its size agrees if the 95 % interval of live less simulated,
over the pairs and for all figures at once (Bonferroni), has 0 in it. A run that has its report is not run again.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from replay.bench.validation import AFTER_MS, setup_of
from replay.load.record.folder import RunFolder, read_run
from replay.reports import files
from replay.reports.intervals import CONFIDENCE, reach
from replay.simulation.draws.hop_latencies import HopLatencies
from replay.simulation.draws.run_times import measured_variation
from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.results.figures import Figures, figures_of
from replay.simulation.run import Simulation
from replay.traces.shapes import Shape, shaped
from replay.traces.writing import write
from streams.catalogs import measured
from tests.replay.simulation.live_latencies import shipped_hop_latencies_at

POCHADE = "from streams.cli import main; main(prog_name='pochade')"
POLICIES = tuple(os.environ.get("TEST_ORDER_POLICIES", "diffserve,joint").split(","))
CATALOG = os.environ.get(
    "TEST_ORDER_CATALOG", "profile"
)  # profile or tiny, or a file with tiny's levels, profiled anew
PAIRS = int(os.environ.get("TEST_ORDER_PAIRS", "8"))  # 2 or more
SPAN_S = float(os.environ.get("TEST_ORDER_SPAN_S", "45"))
OUT = os.environ.get("TEST_ORDER_OUT", "")  # a folder that the runs are left in, with order.json
WORKERS = 2
DRAWS = 20  # simulations of each live run, whose mean counts
SLO_S = 2.0
RATES_RPS = (
    (10.0, 20.0, 10.0) if CATALOG == "profile" else (3.0, 6.0, 3.0)
)  # at the peak more than heavy alone can serve
ENGINE = "profile" if CATALOG == "profile" else "diffusers"

FIGURES: dict[str, Callable[[Figures], float]] = {
    "quality": lambda figures: float(figures["quality"]),
    "violation rate": lambda figures: float(figures["violation_rate"]),
    "mean latency, s": lambda figures: float(figures["latency_s"]["mean"]),
}


class Spread(NamedTuple):
    """A mean over pairs of runs, and half the width of its interval."""

    mean: float
    half: float

    @property
    def sign(self) -> int:
        """Return 1 or -1 of a difference beyond chance, else 0."""
        return 0 if abs(self.mean) <= self.half else int(np.sign(self.mean))


class ComparedDifference(NamedTuple):
    """By how much the second policy is above the first in one figure, live and simulated."""

    figure: str
    live: Spread
    simulated: Spread
    apart: Spread  # live less simulated, pair by pair

    @property
    def is_same_order(self) -> bool:
        """Whether live and simulated differences do not contradict each other beyond chance."""
        return self.live.sign * self.simulated.sign >= 0

    @property
    def is_within(self) -> bool:
        """Whether the simulated difference is the live one but for chance."""
        return self.apart.sign == 0


def spread(values: Sequence[float], confidence: float = CONFIDENCE) -> Spread:
    """The mean of two values or more, with the half width of its interval by Student's t."""
    return Spread(statistics.fmean(values), reach(len(values), confidence) * statistics.stdev(values))


def compared_difference(
    figure: str, live: Sequence[float], simulated: Sequence[float], figures: int
) -> ComparedDifference:
    """Compare the differences of the policies, one a pair; intervals hold for so many `figures` at once."""
    confidence = 1 - (1 - CONFIDENCE) / figures
    apart = [own - other for own, other in zip(live, simulated, strict=True)]
    return ComparedDifference(figure, *(spread(values, confidence) for values in (live, simulated, apart)))


def served(policy: str, pair: int, home: pathlib.Path, folder: pathlib.Path) -> RunFolder:
    """Run a policy on a pair's arrivals live, unless its folder has the report of that run."""
    name = f"{policy}-{pair}-{SPAN_S:g}-s"
    own = folder / name
    if (own / files.JSON_NAME).exists():
        return read_run(own)
    own.mkdir(parents=True, exist_ok=True)
    trace = own / "arrivals.jsonl.gz"
    write(shaped(Shape(name="steps", rates_rps=RATES_RPS, seconds=SPAN_S), "poisson", pair), trace)
    words = ["--home", str(home), "replay", "run", str(trace), "--name", name, "--serve", str(WORKERS)]
    words += ["--engine", ENGINE, "--catalog", CATALOG, "--slo", f"{SLO_S:g}", "--policy", policy]
    words += ["--speed-probe", "--report", str(own)]
    done = subprocess.run([sys.executable, "-c", POCHADE, *words], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_run(own)


def simulated_figures(run: RunFolder, hops: HopLatencies) -> dict[str, float]:
    """The means of a run's figures over `DRAWS` simulations of the same arrivals, hardness and settings."""
    catalog, until_ms = measured(CATALOG), float(run.trace.arrival_ms[-1]) + AFTER_MS
    hardness = np.array([np.nan if each.hardness is None else each.hardness for each in run.seen])
    found = []
    for seed in range(DRAWS):
        setup = dataclasses.replace(
            setup_of(run.report, catalog, hops, until_ms, seed), looks=(), variation=measured_variation(catalog)
        )
        source = SyntheticOutcomes(catalog, seed, hardness)
        found.append(figures_of(Simulation(setup, run.trace.arrival_ms, source).run()))
    return {name: statistics.fmean(of(figures) for figures in found) for name, of in FIGURES.items()}


def live_figures(run: RunFolder) -> dict[str, float]:
    """The figures of a live run."""
    (figures,) = run.report["policies"].values()
    return {name: of(figures) for name, of in FIGURES.items()}


def line_of(row: ComparedDifference) -> str:
    """A row of the table in Markdown."""
    parts = [f"{each.mean:+.4f} ± {each.half:.4f}" for each in (row.live, row.simulated, row.apart)]
    return f"| {row.figure} | {' | '.join(parts)} | {'yes' if row.is_same_order and row.is_within else 'no'} |"


def row_of(figure: str, pairs: Sequence[Mapping[str, Any]]) -> ComparedDifference:
    """Compare how far the second policy is above the first in one figure."""
    first, second = POLICIES
    live, simulated = (
        [pair[second][how][figure] - pair[first][how][figure] for pair in pairs] for how in ("live", "simulated")
    )
    return compared_difference(figure, live, simulated, len(FIGURES))


@pytest.mark.broker
def test_two_policies_in_turn_have_the_order_and_the_differences_that_the_simulator_says(
    broker_home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    first, second = POLICIES
    folder = pathlib.Path(OUT) if OUT else tmp_path / "runs"
    pairs: list[dict[str, Any]] = []
    load = [os.getloadavg()[0]]
    for pair in range(PAIRS):
        found: dict[str, Any] = {}
        for policy in (first, second) if pair % 2 == 0 else (second, first):  # a machine's drift favours neither
            run = served(policy, pair, broker_home, folder)
            speed_ms = tuple(run.report["live"]["speed_ms"])
            predicted = simulated_figures(run, shipped_hop_latencies_at(speed_ms))
            found[policy] = {
                "live": live_figures(run),
                "simulated": predicted,
                "speed_ms": speed_ms[len(speed_ms) // 2],
            }
            load.append(os.getloadavg()[0])
            print(pair, policy, json.dumps(found[policy]), flush=True)
        pairs.append(found)
    rows = [row_of(name, pairs) for name in FIGURES]
    described = {"policies": POLICIES, "catalog": CATALOG, "span_s": SPAN_S, "rates_rps": RATES_RPS, "load": load}
    (folder / "order.json").write_text(json.dumps(described | {"pairs": pairs}, indent=1))
    print(f"{second} less {first}, {len(pairs)} pairs of {SPAN_S:g} s, load average {load}")
    print("\n".join(line_of(row) for row in rows))
    assert all(row.is_same_order for row in rows), "a difference beyond chance has the other sign in the simulation"
    assert all(row.is_within for row in rows), "a simulated difference is not the live one, beyond chance"
    assert any(row.live.sign and row.live.sign == row.simulated.sign for row in rows), (
        "no order was found beyond chance"
    )


def test_differences_on_either_side_of_0_beyond_chance_contradict_each_other() -> None:
    row = compared_difference("quality", [0.10, 0.11, 0.12], [-0.10, -0.11, -0.12], figures=1)
    assert not row.is_same_order
    assert not row.is_within


def test_a_difference_within_chance_contradicts_nothing() -> None:
    row = compared_difference("quality", [0.01, -0.01, 0.02], [0.01, 0.02, 0.01], figures=1)
    assert row.is_same_order
    assert row.is_within
    assert row.live.sign == 0


def test_the_same_order_with_a_difference_twice_as_large_is_not_within() -> None:
    row = compared_difference("quality", [0.10, 0.11, 0.12], [0.20, 0.21, 0.22], figures=3)
    assert row.is_same_order
    assert not row.is_within
