"""Measures each side's overhead beside the work, and its answers in a burst, in one run, one side at a time.

`beside_ms` is the time of an answer less the time of the work. A steady load is a share of what the workers carry; the
burst is eight times as much for a while, and an answer is in time within `deadline_s` of when it was to be sent.
"""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from replay.bench.environment.figures import percentiles
from replay.bench.environment.processor_time import processor_s
from replay.bench.environment.site import Site
from replay.bench.peers.hop_latencies import hop_latencies_of
from replay.bench.peers.kills import killed, parts_of
from replay.bench.peers.levels import HEAVY_S, burst_of, with_levels
from replay.bench.peers.load import Answered, at_times, in_turn
from replay.bench.peers.processes import processes_of
from replay.bench.peers.sides import ONLY, POCHADE, RAY, Side, Work, is_there, serving
from replay.traces import poisson

LOAD, KILL, LEVELS = "load", "kill", "levels"
BURST: Final = 8.0  # times the steady load
WARM: Final = 10
DEADLINE_WORKS: Final = 10.0  # deadline in times of the work, but no less than
MIN_DEADLINE_S: Final = 2.0
Notify = Callable[[str], object]


def run(
    site: Site, *, sides: Sequence[str], python: pathlib.Path, phases: Sequence[str], works_s: Sequence[float],
    workers: int, busy: float, span_s: float, burst_s: float, kills: int, notify: Notify,
) -> dict[str, Any]:  # fmt: skip
    """Measure each side. `busy`: the steady load, as a share of what the workers carry; `span_s`: how long it is."""
    there = [name for name in sides if is_there(name)]
    for name in set(sides) - set(there):
        notify(f"{name} is left out: redis-server is not on the PATH")
    measured: dict[str, Any] = {}
    for seconds in works_s if LOAD in phases else ():
        work, of_work = Work(workers, seconds), dict[str, Any]()
        for name in there:
            notify(f"{name}: {workers} workers of {1000 * seconds:g} ms")
            with serving(name, site, work, python) as side:
                of_work[name] = _measure(name, side, work, busy, span_s, burst_s)
        measured[f"work_{1000 * seconds:g}_ms"] = of_work | _against_ray(of_work)
    if KILL in phases:
        measured["kill"] = {
            name: {part: _killed(name, part, site, python, workers, kills, notify) for part in parts_of(name)}
            for name in there
        }
    if LEVELS in phases:
        arrivals = burst_of(busy * workers / HEAVY_S, BURST, burst_s)
        measured["burst_with_levels"] = with_levels(
            site, sides=there, python=python, workers=workers, arrivals_ms=arrivals, notify=notify
        )
    return measured


def _killed(
    name: str, part: str, site: Site, python: pathlib.Path, workers: int, kills: int, notify: Notify
) -> dict[str, Any]:
    notify(f"{name}: kill -9 of its {part}")
    return killed(name, part, site, python, workers, kills)


def _measure(name: str, side: Side, work: Work, busy: float, span_s: float, burst_s: float) -> dict[str, Any]:
    in_turn(side.url, WARM)
    count = max(5, round(span_s / 2 / work.seconds))
    alone = in_turn(side.url, count)
    hops = hop_latencies_of(side.settings, ONLY, alone, 1000 * work.seconds) if name == POCHADE else None
    rate = busy * work.workers / work.seconds
    processes = processes_of(side.folder, side.processes)
    used_s = processor_s(processes)
    steady = at_times(side.url, poisson(rate, max(5, round(rate * span_s)), 1))
    used_s = processor_s(processes) - used_s
    deadline_s = max(MIN_DEADLINE_S, DEADLINE_WORKS * work.seconds)
    burst = at_times(side.url, burst_of(rate, BURST, burst_s))
    in_time = sum(each.has_image and each.took_ms <= 1000 * deadline_s for each in burst)
    return {
        "one_client": _beside(alone, work),
        **({"hops_ms": hops} if hops else {}),
        "steady": {
            "rate_rps": round(rate, 2),
            **_beside(steady, work),
            "cpu_ms": round(1000 * used_s / len(steady), 2),
        },
        "burst": {
            "requests": len(burst),
            "deadline_s": deadline_s,
            "in_time": round(in_time / len(burst), 4),
            "without_image": sum(not each.has_image for each in burst),
        },
    }


def _beside(answers: Sequence[Answered], work: Work) -> dict[str, Any]:
    """Return the times of answers less the work, in ms, and how many had no image."""
    took = [each.took_ms for each in answers if each.has_image]
    return {
        "requests": len(answers),
        "without_image": len(answers) - len(took),
        "mean_ms": round(sum(took) / len(took), 2) if took else None,
        "beside_ms": percentiles([each - 1000 * work.seconds for each in took]) if took else None,
    }


def _against_ray(of_work: dict[str, Any]) -> dict[str, Any]:
    """Pochade's times as multiples of Ray Serve's."""
    ours, ray = of_work.get(POCHADE), of_work.get(RAY)
    if ours is None or ray is None:
        return {}
    found = {}
    for phase in ("one_client", "steady"):
        mine, theirs = ours[phase]["beside_ms"], ray[phase]["beside_ms"]
        if mine and theirs:
            found[phase] = {rank: round(mine[rank] / theirs[rank], 2) for rank in ("p50", "p99") if theirs[rank] > 0}
            found[phase]["mean"] = round(ours[phase]["mean_ms"] / ray[phase]["mean_ms"], 3)
    return {"pochade_over_ray_serve": found}
