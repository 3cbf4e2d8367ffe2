"""`report.json` of four policies on four traces, one of each shape of `replay make`, and on a million requests."""

import resource
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tests.behaviour.sections.reports import simulated
from tests.behaviour.tree import Tree

CASCADING = ("joint", "diffserve", "hadis", "argus")
COUNTS = (40, 55, 80, 130, 210, 300, 330, 280, 170, 90, 60, 45, 150, 320, 240, 100)  # by the hour, of two days' shape


class Case(NamedTuple):
    """A trace, and the fleet that it nearly overloads."""

    made: tuple[str, ...]  # options of `pochade replay make`
    catalog: str
    workers: int
    slo_s: float
    policies: tuple[str, ...] = CASCADING


CASES = {
    "ramp": Case(("--rate", "60/m", "--rate", "400/m", "--for", "20m"), "argus-a100", 12, 12.6),
    "burst": Case(("--rate", "4", "--rate", "28", "--every", "1m", "--for", "6m"), "diffserve-sdturbo", 16, 5),
    "steps": Case(("--rate", "40", "--rate", "150", "--rate", "80", "--for", "1m"), "tiny", 12, 2),
    "counts": Case(("--to", "4:32", "--interval", "15s"), "diffserve-sdxs", 16, 5),
}
MILLION = Case(("--shape", "steps", "--rate", "500", "--for", "2000s"), "diffserve-sdturbo", 256, 5, ("diffserve",))


def record(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """shape -> what is recorded of its report."""
    counts = tree.work / "counts.csv"
    rows = "".join(f"{hour},{count}\n" for hour, count in enumerate(COUNTS))
    counts.write_text(f"hour,invocations\n{rows}")
    found = {}
    for shape, case in track(list(CASES.items())):
        given = (str(counts),) if shape == "counts" else ()
        found[shape] = _reported(tree, case, "--shape", shape, *given)
    return found


def record_million(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """What is recorded of the report, and how long it took, making the trace included."""
    (case,) = track([MILLION])
    begun_s, cpu_s = time.monotonic(), _cpu_s()
    report = _reported(tree, case)
    took = {"wall_s": round(time.monotonic() - begun_s, 1), "cpu_s": round(_cpu_s() - cpu_s, 1)}
    return {**report, "took (information)": took}


def _reported(tree: Tree, case: Case, *more: str) -> dict[str, Any]:
    trace = tree.work / "trace.csv"
    tree.pochade("replay", "make", *case.made, *more, "--seed", "7", "--out", str(trace))
    return simulated(tree, trace, case.catalog, case.policies, case.workers, case.slo_s)


def _cpu_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
