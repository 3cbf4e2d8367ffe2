"""How many records a second does one router process place, and does kill -9 lose any? Against a hop that only copies.

Classified records lie on the topic before the router starts; four workers beat as if
they kept up, so that nothing is turned away. Records a second
from the first job record to the last, by their producer's clock. Runs of the bare hop and of the router take turns.
"""

from collections.abc import Sequence
from typing import Any

from replay.bench.baselines import skeleton
from replay.bench.environment import plan, quick_catalog, traffic
from replay.bench.environment.figures import met, per_second, spread
from replay.bench.environment.fleet import StandIns
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from schemas.messages import GenerateRequest
from schemas.topics import CLASSIFIED, jobs_topic
from streams.settings import Settings

LIMITS = {"records_per_s": (">=", 2000.0), "lost": ("<=", 0.0)}
MEASURED_BEFORE = 3770  # records/s of a bare hop, `IN_FLIGHT` sends on their way: facts, kafka-real 9
SHARES = {"light": 0.7, "heavy": 0.3}
WORKERS = {"worker-1": "light", "worker-2": "light", "worker-3": "heavy", "worker-4": "heavy"}
JOBS = [jobs_topic(variant, 1).name for variant in SHARES]
QUIET_S = 60.0
GENERATE_MS = 0.1  # predicted, of a job: the backlog never grows long


def run(site: Site, *, count: int, repeats: int, is_killed: bool) -> dict[str, Any]:
    """`repeats` runs over `count` records each; with `is_killed` one more, killed half way and started again."""
    requests = traffic.requests("router", count)
    runs = [run for _ in range(repeats) for run in (_bare(site, requests), _router(site, requests))]
    bare, ours = ([rate for rate, _, _ in runs[side::2]] for side in (0, 1))
    killed = _router(site, requests, is_killed=True) if is_killed else None
    rates = spread(ours)
    lost = sum(lost for _, lost, _ in runs) + (killed[1] if killed else 0)
    return {
        "records": count,
        "records_per_s": rates,
        "baseline_per_s": spread(bare),
        "baseline_measured_before_per_s": MEASURED_BEFORE,
        "ratio": round(rates["median"] / spread(bare)["median"], 3),
        "lost": lost,
        "killed": {"lost": killed[1], "duplicates": killed[2]} if killed else None,
        "targets": met({"records_per_s": rates["median"], "lost": lost}, LIMITS),
    }


Run = tuple[float, int, int]  # records/s, lost, duplicates


def _bare(site: Site, requests: Sequence[GenerateRequest]) -> Run:
    settings = _preloaded(site, "hop", requests)
    with TopicCounter(settings, skeleton.JOBS) as jobs:
        hop = site.copying(settings, "hop", ["router"])
        jobs.wait(len(requests), QUIET_S, site.check)
        site.stop(hop)
        return _run_figures(jobs, requests)


def _router(site: Site, requests: Sequence[GenerateRequest], *, is_killed: bool = False) -> Run:
    settings = _preloaded(site, "router", requests, catalog=quick_catalog.written(site.settings.home, GENERATE_MS))
    plan.publish(settings, SHARES, WORKERS)
    with TopicCounter(settings, *JOBS) as jobs, StandIns(settings, WORKERS):
        router = site.serve(settings, "router", ["router"])
        if is_killed:
            jobs.wait(len(requests) // 2, QUIET_S, site.check)
            site.stop(router, is_killed=True)
            router = site.serve(settings, "router", ["router"])
        jobs.wait(len(requests), QUIET_S, site.check)
        site.stop(router)  # what it has written twice is read before the tally ends
        return _run_figures(jobs, requests)


def _preloaded(site: Site, name: str, requests: Sequence[GenerateRequest], **changes: str) -> Settings:
    settings = site.fresh(name, list(SHARES), **changes)
    traffic.write(
        settings, (traffic.record(CLASSIFIED, traffic.classified(r, "light"), r.request_id) for r in requests)
    )
    return settings


def _run_figures(jobs: TopicCounter, requests: Sequence[GenerateRequest]) -> Run:
    times = [arrival.sent_ms for arrival in jobs.arrivals]
    rate = per_second(len(times) - 1, min(times), max(times))
    return rate, jobs.lost({request.request_id.encode() for request in requests}), jobs.duplicates()
