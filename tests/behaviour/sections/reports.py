"""`report.json` of every policy on every shipped catalog, on two small traces with fixed seeds."""

import csv
import hashlib
import json
import pathlib
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from click.testing import Result

from planner.policies import POLICIES
from streams import catalogs
from tests.behaviour.invoking import invoked
from tests.behaviour.tree import ROOT, Tree

REQUESTS = 1000  # of a trace
WORKERS = 12
SEED = 7
TIERS = ("interactive", "standard", "standard", "batch")
FIGURES = (
    "completed", "violations", "late", "shed", "expired", "failed", "quality", "fid", "heavy_share", "escalated",
    "latency_s", "utilization", "plans", "plan_failures", "switches", "cost_worker_s", "by_level", "planned", "changes",
)  # fmt: skip


class Load(NamedTuple):
    """Demand for which `WORKERS` workers of a catalog are nearly too few at the peak."""

    peak_rps: float
    slo_s: float


LOADS = {
    "argus-a100": Load(5, 12.6),
    "diffserve-sdturbo": Load(24, 5),
    "diffserve-sdxlltn": Load(10, 15),
    "diffserve-sdxs": Load(24, 5),
    "hadis-l40s": Load(12, 60),
    "sdxl-example": Load(12, 15),
    "tiny": Load(80, 2),
}
OTHER = Load(120, 1)  # a catalog that is not named above


def record(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """catalog -> kind of trace -> the report's hash and main figures by policy."""
    names = [path.stem for path in sorted((ROOT / "infra" / "catalogs").glob("*.toml"))]
    asked = [(catalog, kind) for catalog in names for kind in ("plain", "eventful")]
    found: dict[str, Any] = {}
    for catalog, kind in track(asked):
        found.setdefault(catalog, {})[kind] = _reported(tree, catalog, kind)
    return found


def _reported(tree: Tree, catalog: str, kind: str) -> dict[str, Any]:
    load = LOADS.get(catalog, OTHER)
    trace = tree.work / "trace.csv"
    span_s = _write_trace(trace, load, kind)
    more = _events(tree.work / "failures.csv", span_s) if kind == "eventful" else ()
    return simulated(tree, trace, catalog, _policies(catalog), WORKERS, load.slo_s, *more)


def simulated(
    tree: Tree, trace: pathlib.Path, catalog: str, policies: Sequence[str], workers: int, slo_s: float, *more: str
) -> dict[str, Any]:
    """What is recorded of one report of `pochade simulate`: its hash and main figures by policy."""
    out = tree.work / "report"
    tree.pochade(
        "simulate", str(trace), "--policy", ",".join(policies), "--catalog", catalog, "--workers", str(workers),
        "--slo", str(slo_s), "--seed", str(SEED), "--report", str(out), *more,
    )  # fmt: skip
    report = json.loads((out / "report.json").read_text())
    report.pop("made")  # the command line and versions
    return {
        "sha256": _hash(report),
        "policies": {
            name: {figure: row[figure] for figure in FIGURES if figure in row}
            | {f"{part}, sha256": _hash(content) for part, content in row.items() if part not in FIGURES}
            for name, row in report["policies"].items()
        },
    }


def _policies(catalog: str) -> list[str]:
    """Return those that plan for a catalog: one without a cascade is refused by the policies that set thresholds."""
    if catalogs.load(catalog).cascades:
        return list(POLICIES)
    return [name for name in POLICIES if not _solve(catalog, name).exit_code]


def _solve(catalog: str, policy: str) -> Result:
    return invoked("plan", "solve", "--policy", policy, "--catalog", catalog, "--demand", "1", "--workers", "2")


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()  # keys in the order in which they were written


def _events(failures: pathlib.Path, span_s: float) -> tuple[str, ...]:
    """Options of a run with failing workers, load shedding and learned confidences."""
    rows = [(0.3, "3", "down"), (0.35, "5", "down"), (0.6, "3", "up")]
    failures.write_text("at_s,worker,change\n" + "".join(f"{at * span_s:.3f},{who},{what}\n" for at, who, what in rows))
    return ("--failures", str(failures), "--shed", "--learn", "--dispatch", "pull", "--period", "2")


def _write_trace(path: pathlib.Path, load: Load, kind: str) -> float:
    """Write arrivals that rise to the peak and fall again. Returns the time span in seconds.

    The eventful kind adds tiers, numbers of images and slack.
    """
    dice, at_s = random.Random(f"{kind} {load}"), 0.0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        names = ["arrival_ms", "hardness"] + (["tier", "n", "slack_ms"] if kind == "eventful" else [])
        writer.writerow(names)
        for nth in range(REQUESTS):
            part = nth / REQUESTS
            rate = load.peak_rps * (0.2 + 0.8 * (1 - abs(2 * part - 1)))
            at_s += dice.expovariate(rate)
            row: list[Any] = [round(1000 * at_s), f"{dice.random():.4f}"]
            if kind == "eventful":
                row += [dice.choice(TIERS), dice.choice((1, 1, 1, 2)), round(1000 * load.slo_s * dice.uniform(0.5, 3))]
            writer.writerow(row)
    return at_s
