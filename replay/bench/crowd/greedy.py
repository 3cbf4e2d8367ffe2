"""What does a tenant that floods cost the others? Nothing within their quotas: none of their requests is rejected.

Four phases: a modest tenant alone; beside one that sends `times` as much and may use what is free, but no more than
its share once the backlog is crowded; beside one that does so under a new name each time; beside another that has a
quota. Only that last one is configured. The allowed backlog is short, so that it is
crowded soon. A share keeps the modest one from being refused, not from waiting: who is alone for a moment may fill what
is allowed. A quota keeps it from both.
"""

import dataclasses
from typing import Any

from replay.bench.crowd.crowd import LEVEL, RUN_MS, Asked, Crowd, Due, added_ms, opened, stream
from replay.bench.environment.figures import met
from replay.bench.environment.site import Site
from streams.settings import Admission, Tenant

BACKLOG_S = 2.0  # a worker
QUOTA_RPS = 4.0
LIMITS = {
    "refused": ("<=", 0.0),
    "lost": ("<=", 0.0),
    "p95_added_by_a_share_ms": ("<=", 1000 * BACKLOG_S + RUN_MS),
    "p95_added_by_names_ms": ("<=", 1000 * BACKLOG_S + RUN_MS),
    "p95_added_by_a_quota_ms": ("<=", RUN_MS),
}


def run(site: Site, asked: Asked) -> dict[str, Any]:
    """The modest tenant alone, beside a greedy one with a share, one of many names, and one with a quota."""
    tenants = {"bounded": Tenant(rate_rps=QUOTA_RPS, burst=QUOTA_RPS)}
    changes = {"tenants": tenants, "admission": Admission(max_backlog_s=BACKLOG_S)}
    with opened(site, "greedy", asked.workers, **changes) as crowd:
        calm, _ = _phase(crowd, asked, "calm", "")
        share, greedy = _phase(crowd, asked, "share", "greedy")
        names, many = _phase(crowd, asked, "names", "greedy", has_new_names=True)
        quota, bounded = _phase(crowd, asked, "quota", "bounded")
    phases = (calm, share, names, quota)
    measured = {
        "refused": sum(each["refused"] for each in phases),
        "lost": sum(each["lost"] for each in (*phases, greedy, many, bounded)),
        "p95_added_by_a_share_ms": added_ms(share, calm),
        "p95_added_by_names_ms": added_ms(names, calm),
        "p95_added_by_a_quota_ms": added_ms(quota, calm),
    }
    return {
        "painted_by": LEVEL,
        "run_ms": RUN_MS,
        "max_backlog_s": BACKLOG_S,
        "quota_rps": QUOTA_RPS,
        "modest": {"calm": calm, "beside_a_share": share, "beside_names": names, "beside_a_quota": quota},
        "crowd": {"share": greedy, "names": many, "quota": bounded},
        **measured,
        "targets": met(measured, LIMITS),
    }


def _phase(
    crowd: Crowd, asked: Asked, name: str, beside: str, *, has_new_names: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one phase, and return the figures of the modest tenant and of the one `beside` it ("": none)."""
    modest = asked.watched(f"modest-{name}", tenant="modest")
    flood = stream(f"crowd-{name}", asked.rate * asked.times, asked.seconds, seed=2, tenant=beside) if beside else []
    if has_new_names:
        flood = [_renamed(due, f"{beside}-{number}") for number, due in enumerate(flood)]
    crowd.submit(modest, flood)
    crowd.wait([*modest, *flood])
    return crowd.as_table(modest), crowd.as_table(flood)


def _renamed(due: Due, tenant: str) -> Due:
    return due._replace(request=dataclasses.replace(due.request, tenant=tenant))
