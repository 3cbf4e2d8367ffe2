"""What does a storm of retries cost? Clients that submit every request again and again while it is served.

Each request is generated once and charged to its tenant once: the quota counts the requests but not their repetitions.
And no request waits longer for it than a run time.
"""

from typing import Any

from replay.bench.crowd.crowd import LEVEL, RUN_MS, Asked, Due, added_ms, opened
from replay.bench.environment.figures import met
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from schemas.topics import IMAGES
from streams.settings import Tenant

TENANT = "patient"
LIMITS = {
    "painted_again": ("<=", 0.0), "duplicate_results": ("<=", 0.0), "refused": ("<=", 0.0), "lost": ("<=", 0.0),
    "p95_added_ms": ("<=", RUN_MS),
}  # fmt: skip
RETRY_MS = (0.0, 3.0, 10.0, 30.0, 60.0, 100.0, 150.0, 250.0, 500.0, 1000.0)  # after the first: before, while, after


def run(site: Site, asked: Asked) -> dict[str, Any]:
    """Requests submitted once, then such that are submitted `asked.times` times more."""
    quota = Tenant(rate_rps=1.5 * asked.rate, burst=10)
    calm, crowded = (asked.watched(name, tenant=TENANT) for name in ("calm", "crowded"))
    storm = [Due(due.at_ms + after_ms, due.request) for due in crowded for after_ms in retry_times_ms(asked.times)]
    with opened(site, "storm", asked.workers, tenants={TENANT: quota}) as crowd:
        with TopicCounter(crowd.side.settings, IMAGES) as images:
            crowd.submit(calm)
            crowd.wait(calm)
            crowd.submit(crowded, storm)
            crowd.wait(crowded)
            before, after = crowd.as_table(calm), crowd.as_table(crowded)
            painted_again = images.duplicates()
        duplicates = crowd.side.results.duplicates()
    measured = {
        "painted_again": painted_again,
        "duplicate_results": duplicates,
        "refused": before["refused"] + after["refused"],
        "lost": before["lost"] + after["lost"],
        "p95_added_ms": added_ms(after, before),
    }
    return {
        "painted_by": LEVEL,
        "run_ms": RUN_MS,
        "calm": before,
        "crowded": after,
        "repetitions": len(storm),
        **measured,
        "targets": met(measured, LIMITS),
    }


def retry_times_ms(times: int) -> list[float]:
    """Return when a request is submitted again, in ms after the first time: soon at first, then every second."""
    return [*RETRY_MS[:times], *(1000.0 * n for n in range(2, times - len(RETRY_MS) + 2))]
