"""The effect of placing components by demand on GenTD26, against LRU tiers and jobs in turn, simulated.

Each pair of runs has another stretch of the file with ids, and other times and users, so that pairs are independent;
both policies get the same. Source of the question: MLoRA 7.3 to 7.5 (Figs. 10 to 13), on 300 GPUs of one service.
"""

import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.catalog.model import Catalog
from replay.bench.comparison import AHEAD, BEHIND, LEVEL, UNDECIDED, PairedDifference, paired
from replay.bench.hits_bound import max_hit_rate
from replay.bench.papers.runs.names import IN_TURN, MLORA
from replay.bench.traces.gentd26_folder import Drawing, RequestFiles
from replay.simulation.component_setup import ComponentSetup, budgets_of, needs_by_row, needs_of, table_of
from replay.simulation.overrides import requested_overrides
from replay.simulation.results.figures import Figures, figures_of
from replay.simulation.run import Simulation
from replay.simulation.setup import Setup, Timing
from replay.traces.trace import Trace
from replay.traces.transforms import sped

SLO_MS: Final = 120_000.0  # beyond which an answer is late; nothing is dropped, so that p99 is of all requests
TIMING: Final = Timing(beat_ms=5000, silent_ms=20_000)  # calls take 9 s and more: ten times fewer heartbeats will do
PLAN_EVERY: Final = 60.0  # mean gaps between requests, bounded as below
PERIOD_MS: Final = (60_000.0, 600_000.0)  # least and most between two plans
HITS: Final = "device_hits"
FIGURES: Final[Mapping[str, Callable[[Figures], float]]] = {
    "network_gb": lambda row: row["bytes_moved"]["volume"] / 1e9,
    "moved_gb": lambda row: sum(row["bytes_moved"][tier] for tier in ("volume", "host", "device")) / 1e9,
    "loads": lambda row: row["loads"],
    "load_s": lambda row: row["load_s"],
    HITS: lambda row: row["hits_by_tier"]["device"],
    "cold_starts": lambda row: row["cold_starts"],
    "replicas": lambda row: row["replicas"]["mean"],
    "replicas_of_hottest": lambda row: row["replicas"]["most"],
    "mean_s": lambda row: row["latency_s"]["mean"],
    "p50_s": lambda row: row["latency_s"]["p50"],
    "p99_s": lambda row: row["latency_s"]["p99"],
}
QUESTIONS: Final = ("network_gb", "p99_s")  # that the bench was made to answer; all other figures explain them


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Options of the bench."""

    speeds: Sequence[float] = (1.0, 40.0)
    pairs: int = 5
    requests: int = 2000  # of each run
    workers: int = 16
    controls: float = 0.0  # share of the requests, drawn
    seed: int = 0  # of the first pair
    ours: str = MLORA
    baseline: str = IN_TURN


def measure(
    files: RequestFiles, catalog: Catalog, asked: Asked, on_progress: Callable[[int], object]
) -> dict[str, Any]:
    """Return by speed the means of both policies, and their difference pair by pair; `on_progress`: requests served.

    Beside the hits stands the mean of what no fleet of equal devices can beat (replay/bench/hits_bound.py).
    """
    found: dict[str, Any] = {}
    for speed in asked.speeds:
        rows: dict[str, list[Figures]] = {asked.ours: [], asked.baseline: []}
        bounds: list[float] = []
        for pair in range(asked.pairs):
            first = (asked.seed + pair) * asked.requests % max(1, len(files) - asked.requests + 1)
            drawing = Drawing(seed=asked.seed + pair, first=first, limit=asked.requests, control_share=asked.controls)
            trace = sped(files.draw(drawing)[0], speed)
            bounds.append(hits_bound(trace, catalog, asked.workers))
            for policy, of_policy in rows.items():
                of_policy.append(run(policy, trace, catalog, asked, on_progress))
        by_figure = compare(rows[asked.ours], rows[asked.baseline], asked)
        by_figure[HITS]["bound"] = round(statistics.fmean(bounds), 4)
        found[f"x{speed:g}"] = by_figure
    return found


def hits_bound(trace: Trace, catalog: Catalog, workers: int) -> float:
    """Return the largest share of a trace's lookups that the workers' devices can answer, nothing loaded ahead."""
    by_row = needs_by_row(trace, catalog)
    order = [by_row[row] for row in trace.wish.tolist()]
    return max_hit_rate(order, table_of(catalog), workers, budgets_of(order, catalog, workers).device)


def run(policy: str, trace: Trace, catalog: Catalog, asked: Asked, on_progress: Callable[[int], object]) -> Figures:
    """Return the figures of one policy on one trace."""
    least_ms, most_ms = PERIOD_MS
    needs = needs_of(trace, catalog)
    setup = Setup(
        catalog=catalog,
        policy=policy,
        workers=asked.workers,
        slo_ms=SLO_MS,
        drops=False,
        period_ms=min(most_ms, max(least_ms, PLAN_EVERY * trace.span_ms / len(trace))),
        timing=TIMING,
        components=ComponentSetup(budgets=budgets_of(needs, catalog, asked.workers)),
    )
    wishes = requested_overrides(trace, catalog)
    return figures_of(Simulation(setup, trace.arrival_ms, wishes=wishes).run(on_progress))


def compare(ours: Sequence[Figures], theirs: Sequence[Figures], asked: Asked) -> dict[str, Any]:
    """Return by figure the means of both policies and their difference, pair by pair."""
    found: dict[str, Any] = {}
    for name, of in FIGURES.items():
        mine, other = [of(row) for row in ours], [of(row) for row in theirs]
        apart = paired(mine, other)
        found[name] = {
            asked.ours: round(statistics.fmean(mine), 4),
            asked.baseline: round(statistics.fmean(other), 4),
            "difference": round(apart.mean, 4),
            "interval": [round(apart.low, 4), round(apart.high, 4)] if apart.pairs > 1 else None,
            "p": round(apart.p, 6),
            **({"verdict": _verdict(apart)} if name in QUESTIONS else {}),
        }
    return found


def _verdict(apart: PairedDifference) -> str:
    """Ahead, behind or undecided for a figure of which less is better, as one of QUESTIONS (Bonferroni)."""
    if apart.p > (1 - LEVEL) / len(QUESTIONS):
        return UNDECIDED
    return AHEAD if apart.mean < 0 else BEHIND


def read_files(folder: pathlib.Path) -> RequestFiles:
    """Read a folder of GenTD26; lines that cannot be read are skipped. Raises InvalidTrace."""
    return RequestFiles(folder, is_lenient=True)
