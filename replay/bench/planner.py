"""How long does a policy take to plan, and is its plan as good as what HiGHS finds for the plain model?

Each policy plans for varied observations, warmed up, on one core; wall and CPU time. Baseline: the model as it is
written, handed to HiGHS through PuLP with a limit for each solve, on the same observations. Objectives are compared: a
plan of the policy may not be worse.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from planner.observation.observation import Observation
from planner.policies import PlanProposal
from replay.bench.environment.figures import percentiles
from replay.bench.environment.planner_cases import Case

T = TypeVar("T")

WARM_UP = 2  # solves before each side is timed
FEWEST = 3  # solves of a side, however long they take
REPORT_EVERY_S = 0.2  # between two words on how far it is

ReportProgress = Callable[[str, int], object]  # a case and how many solves of a side are done, now and then


class Effort(NamedTuple):
    """The number of solves, and time limits in seconds."""

    solves: int  # of each policy
    baselines: int  # of each baseline, on the first of the same observations
    seconds: float  # after which a side ends, though it has not done all
    limit_s: float  # of each baseline solve


class Spent(NamedTuple):
    """The wall and CPU time of one solve, in milliseconds."""

    wall_ms: float
    cpu_ms: float


def run(cases: Sequence[Case], effort: Effort, on_progress: ReportProgress) -> dict[str, Any]:
    """Measure every case, and count the answers that are worse than the baseline's."""
    with one_core():
        found = {case.name: measured(case, effort, on_progress) for case in cases}
    return {"cases": found, "worse": sum(case["baseline"]["worse"] for case in found.values() if "baseline" in case)}


def measured(case: Case, effort: Effort, on_progress: ReportProgress) -> dict[str, Any]:
    """Measure one policy at one size, then its baseline."""

    def plan(seen: Observation) -> PlanProposal:
        return case.policy(seen, case.catalog, {}, {})

    drafts, spent = _series(plan, case.observations[: effort.solves], effort.seconds, partial(on_progress, case.name))
    figures: dict[str, Any] = {"solves": len(spent), **_percentiles(spent)}
    if case.wanted_ms is not None:
        figures |= {"wanted_ms": case.wanted_ms, "met": figures["wall_ms"]["p99"] < case.wanted_ms}
    if case.baseline and case.objective:
        figures["baseline"] = _compared(case, drafts, effort, on_progress)
    return figures


def _compared(
    case: Case, drafts: Sequence[PlanProposal], effort: Effort, on_progress: ReportProgress
) -> dict[str, Any]:
    """The baseline's times, and how the policy's objectives compare with its."""
    assert case.baseline, case.name
    assert case.objective, case.name
    baseline, seen = case.baseline, case.observations[: min(effort.baselines, len(drafts))]
    found, spent = _series(
        lambda one: baseline(one, effort.limit_s),
        seen,
        effort.baselines * effort.limit_s,
        partial(on_progress, f"{case.name}, baseline"),
    )
    ours = [case.objective(one, draft) for one, draft in zip(seen, drafts, strict=False)]
    lags = [_lag(mine, its.objective) for mine, its in zip(ours, found, strict=False)]
    return {
        "solves": len(spent),
        **_percentiles(spent),
        "limit_s": effort.limit_s,
        "stopped": sum(one.is_stopped for one in found),
        "without_answer": sum(one.objective is None for one in found),
        "worse": sum(lag > case.tolerance for lag in lags),
        "largest_lag": max(0.0, *lags),
        "largest_lead": max(0.0, *(-lag for lag in lags)),
        "tolerance": case.tolerance,
    }


def _lag(ours: float | None, baseline: float | None) -> float:
    """Return by how much the policy's objective is less; infinite where only the baseline has an answer."""
    if baseline is None:
        return 0.0
    return float("inf") if ours is None else baseline - ours


def _series(
    call: Callable[[Observation], T],
    observations: Sequence[Observation],
    seconds: float,
    on_progress: Callable[[int], object],
) -> tuple[list[T], list[Spent]]:
    """Answers and times, of some or all of the observations."""
    for seen in observations[:WARM_UP]:
        call(seen)
    answers: list[T] = []
    spent: list[Spent] = []
    end, reported = time.monotonic() + seconds, 0.0
    for seen in observations:
        if len(spent) >= FEWEST and time.monotonic() > end:
            break
        answer, took = timed(lambda: call(seen))  # noqa: B023 - called at once
        answers.append(answer)
        spent.append(took)
        if time.monotonic() > reported + REPORT_EVERY_S:
            on_progress(len(spent))
            reported = time.monotonic()
    return answers, spent


def timed(call: Callable[[], T]) -> tuple[T, Spent]:
    """An answer and what it took."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    answer = call()
    return answer, Spent(1000 * (time.perf_counter() - wall_s), 1000 * (time.process_time() - cpu_s))


def _percentiles(spent: Sequence[Spent]) -> dict[str, dict[str, float]]:
    walls, cpus = zip(*spent, strict=True)
    return {"wall_ms": percentiles(walls), "cpu_ms": percentiles(cpus)}


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core within the block."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def table(report: Mapping[str, Any]) -> list[str]:
    """A line for each case, milliseconds; then how busy the machine was."""
    lines = [_HEAD]
    for name, case in report["cases"].items():
        wanted = f"{case['wanted_ms']:g} {'met' if case['met'] else 'missed'}" if "wanted_ms" in case else ""
        lines.append(f"{name:<52}{wanted:>13}{_times(case)}")
        if "baseline" in case:
            lines.append(f"{'    plain model in PuLP':<65}{_times(case['baseline'])}  {_judged(case['baseline'])}")
    return [*lines, *(f"{what:<24}{value}" for what, value in report["machine"].items())]


_HEAD = f"{'ms':<52}{'wanted (p99)':>13}{'solves':>7}{'p50':>10}{'p90':>10}{'p99':>10}{'CPU p50':>10}{'CPU p99':>10}"


def _times(side: Mapping[str, Any]) -> str:
    wall, cpu = side["wall_ms"], side["cpu_ms"]
    figures = (wall["p50"], wall["p90"], wall["p99"], cpu["p50"], cpu["p99"])
    return f"{side['solves']:>7}" + "".join(f"{ms:>10.1f}" for ms in figures)


def _judged(baseline: Mapping[str, Any]) -> str:
    parts = [f"{baseline['worse']} plans worse" if baseline["worse"] else "no plan worse"]
    for what, words in (("stopped", f"stopped at {baseline['limit_s']:g} s"), ("without_answer", "without an answer")):
        if baseline[what]:
            parts.append(f"{baseline[what]} {words}")
    return ", ".join([*parts, f"lag {baseline['largest_lag']:.2g}, lead {baseline['largest_lead']:.2g}"])
