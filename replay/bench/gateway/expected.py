"""How right is the time that a gateway predicts at submit? Requests over HTTP, each until its end is read.

One gateway on a pipeline of the `profile` engine (heavy 200 ms an image, light 20), Poisson arrivals at a steady rate,
and a plan that stands still. `right` is the share of answers within 25 % of the time that the request took, or within
100 ms of it. An answer without a time counts as wrong.
"""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import httpx

from replay.bench.environment import plan
from replay.bench.environment.figures import met, percentiles, quantile
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from replay.bench.gateway.serving import LAYOUT, START_S, STUCK_S, address_of, client_of
from replay.traces import poisson
from schemas.messages import Cascade
from schemas.topics import RESULTS

CATALOG: Final = "profile"
LIMITS: Final = {"right": (">=", 0.8), "lost": ("<=", 0.0)}
RELATIVE, ABSOLUTE_MS = 0.25, 100.0
WARM: Final = 8
CLIENTS: Final = 32  # that submit at once


class Submission(NamedTuple):
    """A request that a client submitted, and what the answer promised."""

    request_id: str
    sent_ns: int  # epoch, before it asked
    answered_ms: float  # it waited for the answer
    expected_ms: float | None
    place: int | None


def run(
    site: Site, *, seconds: float, rate: float, workers: int, light_workers: int, light: float, threshold: float
) -> dict[str, Any]:
    """`light`: share of the requests that light begins; `threshold`: of the cascade to heavy; 0: none holds."""
    settings = site.fresh("gateway", ["heavy", "light"], catalog=CATALOG)
    variants = ["heavy"] * workers + ["light"] * light_workers
    crew = {f"worker-{number}": variant for number, variant in enumerate(variants, 1)}
    levels = {name: share for name, share in (("light", light), ("heavy", 1 - light)) if share > 0}
    cascade = Cascade(level="light", next_level="heavy", discriminator="look", threshold=threshold)
    plan.publish(settings, levels, crew, [cascade] if threshold else [])
    for roles in LAYOUT:
        site.serve(settings, "-".join(roles), roles, gateway__port="0")
    for worker in crew:
        site.serve(settings, worker, ["worker"], worker__id=worker)
    with TopicCounter(settings, RESULTS) as results, client_of(address_of(site, settings), CLIENTS) as http:
        _submit(http, [0.0] * WARM)
        results.wait(WARM, START_S, site.check)
        arrivals = [at_ms for at_ms in poisson(rate, max(1, round(rate * seconds)), 1) if at_ms < 1000 * seconds]
        submissions = _submit(http, arrivals)
        results.wait(WARM + len(submissions), STUCK_S, site.check)
        ended_ns = {arrival.key.decode(): arrival.seen_ns for arrival in results.arrivals}
    return _figures(submissions, ended_ns)


def _submit(http: httpx.Client, arrivals: Sequence[float]) -> list[Submission]:
    """Begin a prediction at each of these ms from now."""

    def begin() -> Submission:
        sent_ns = time.time_ns()
        answer = http.post("/v1/predictions", json={"input": {"prompt": "a red heart"}}).raise_for_status().json()
        took_ms, ours = (time.time_ns() - sent_ns) / 1e6, answer["pochade"]
        return Submission(answer["id"], sent_ns, took_ms, ours["expected_ms"], ours["place"])

    begun = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = []
        for at_ms in arrivals:
            time.sleep(max(0.0, begun + at_ms / 1000 - time.monotonic()))
            asked.append(pool.submit(begin))
        return [each.result() for each in asked]


def _figures(submissions: Sequence[Submission], ended_ns: dict[str, int]) -> dict[str, Any]:
    count = len(submissions)
    ended = [each for each in submissions if each.request_id in ended_ns]
    took_ms = {each.request_id: (ended_ns[each.request_id] - each.sent_ns) / 1e6 for each in ended}
    known = [(each.expected_ms, took_ms[each.request_id]) for each in ended if each.expected_ms is not None]
    right = sum(abs(expected - took) <= max(ABSOLUTE_MS, RELATIVE * took) for expected, took in known) / count
    close = sum(abs(expected - took) <= RELATIVE * took for expected, took in known) / count
    errors = [expected - took for expected, took in known]
    measured = {"right": round(right, 3), "lost": float(count - len(took_ms))}
    return {
        "requests": count,
        "unknown": sum(each.expected_ms is None for each in submissions),
        "within_25_percent": round(close, 3),
        **measured,
        "took_ms": percentiles(list(took_ms.values())),
        "answered_ms": percentiles([each.answered_ms for each in submissions]),
        "error_ms": {
            "median": round(statistics.median(errors), 1),
            "p10": round(quantile(errors, 0.1), 1),
            "p90": round(quantile(errors, 0.9), 1),
        }
        if errors
        else None,
        "waited": sum((each.place or 0) > 1 for each in submissions),
        "targets": met(measured, LIMITS),
    }
