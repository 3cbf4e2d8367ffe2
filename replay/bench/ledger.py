"""How many outcomes a second does one ledger end, and how soon does it serve again after a restart?

Rate: outcomes lie on the topic before the ledger starts; from its first result written to its last one readable as
committed. Baseline: a loop of consume, produce, commit in one transaction, taking turns with it.
Recovery: with a number of results on `results`, from the start of the process to its first new result readable as
committed. Baseline: the same without any results (what a start costs), and a loop that only reads their keys.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from replay.bench.environment import traffic
from replay.bench.environment.figures import met, per_second, spread
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from schemas.messages import GenerateRequest
from schemas.topics import OUTCOMES, RESULTS
from streams.processes.children import Child
from streams.settings import Settings

PER_S = (">=", 5000.0)
RECOVERY_S = ("<=", 30.0)  # of a million ids
MILLION = 1_000_000
QUIET_S = 120.0

Start = Callable[[Settings], Child]


def run(site: Site, *, count: int, existing: int, repeats: int) -> dict[str, Any]:
    """`repeats` runs over `count` outcomes, then recoveries from no and from `existing` results."""
    requests = traffic.requests("ledger", count)
    ours: list[float] = []
    bare: list[float] = []
    lost = twice = 0
    for _ in range(repeats):
        bare.append(_rate(site, requests, lambda settings: site.copying(settings, "transactions", ["ledger"]))[0])
        rate, lost_now, twice_now = _rate(site, requests, lambda settings: site.serve(settings, "ledger", ["ledger"]))
        ours, lost, twice = [*ours, rate], lost + lost_now, twice + twice_now
    rates = spread(ours)
    recovery = _recovery(site, existing)
    measured = {"outcomes_per_s": rates["median"], "lost": lost, "recovery_of_a_million_s": recovery["million_s"]}
    limits = {"outcomes_per_s": PER_S, "lost": ("<=", 0.0), "recovery_of_a_million_s": RECOVERY_S}
    return {
        "outcomes": count,
        "outcomes_per_s": rates,
        "baseline_per_s": spread(bare),
        "ratio": round(rates["median"] / spread(bare)["median"], 3),
        "lost": lost,
        "duplicates": twice,
        "recovery": recovery,
        "targets": met(measured, limits),
    }


def _rate(site: Site, requests: Sequence[GenerateRequest], start: Start) -> tuple[float, int, int]:
    """Outcomes a second, lost, ended twice."""
    settings = site.fresh("ledger", [])
    traffic.write(settings, (traffic.record(OUTCOMES, traffic.outcome(r), r.request_id) for r in requests))
    with TopicCounter(settings, RESULTS) as results:
        child = start(settings)
        results.wait(len(requests), QUIET_S, site.check)
        site.stop(child)
        first_ms = min(arrival.sent_ms for arrival in results.arrivals)
        last_ms = max(arrival.seen_ns for arrival in results.arrivals) / 1e6
        rate = per_second(len(results.arrivals), first_ms, last_ms)
        return rate, results.lost({r.request_id.encode() for r in requests}), results.duplicates()


def _recovery(site: Site, existing: int) -> dict[str, Any]:
    none_s, _ = _recovered(site, 0)
    took_s, bare_s = _recovered(site, existing)
    per_result_s = max(0.0, took_s - none_s) / existing
    return {
        "results": existing,
        "first_result_after_s": round(took_s, 3),
        "baseline_without_results_s": round(none_s, 3),
        "baseline_bare_read_s": round(bare_s, 3),
        "results_per_s": round(existing / max(0.001, took_s - none_s)),
        "million_s": round(none_s + MILLION * per_result_s, 2),  # measured where `results` is a million
    }


def _recovered(site: Site, existing: int) -> tuple[float, float]:
    """Seconds from the start of a ledger to its first new result, and for a bare loop to read what it must."""
    settings = site.fresh("recovery", [])
    request = traffic.requests("open", 1)[0]
    done = traffic.result(traffic.outcome(request))
    traffic.write(settings, traffic.copies(RESULTS, done, "ended", existing))
    bare_s = _bare_read_s(settings, existing)
    with TopicCounter(settings, RESULTS, is_from_end=True) as results:
        traffic.write(settings, [traffic.record(OUTCOMES, traffic.outcome(request), request.request_id)])
        began = time.monotonic()
        ledger = site.serve(settings, "ledger", ["ledger"])
        results.wait(1, QUIET_S, site.check)
        took_s = time.monotonic() - began
        site.stop(ledger)
    return took_s, bare_s


def _bare_read_s(settings: Settings, count: int) -> float:
    began = time.monotonic()
    with TopicCounter(settings, RESULTS) as results:
        results.wait(count, QUIET_S)
        return time.monotonic() - began
