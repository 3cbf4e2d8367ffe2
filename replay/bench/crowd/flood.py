"""What does a flood of batch requests cost interactive ones? At most one run time of a batch job, at their p95.

The batch gate lets a batch request pass while workers have nothing waiting, so that an interactive one waits for at
most the running job. The flood's own throughput is reported too, as it should use the rest.
"""

from typing import Any

from replay.bench.crowd.crowd import LEVEL, RUN_MS, Asked, added_ms, opened, stream
from replay.bench.environment.figures import met
from replay.bench.environment.site import Site
from schemas.topics import PROMPTS_BATCH

LIMITS = {"interactive_p95_added_ms": ("<=", RUN_MS), "lost": ("<=", 0.0)}


def run(site: Site, asked: Asked) -> dict[str, Any]:
    """Interactive requests alone, then with `asked.times` as many batch requests beside them."""
    calm, crowded = (asked.watched(name, tier="interactive") for name in ("calm", "crowded"))
    flood = stream("flood", asked.rate * asked.times, asked.seconds, seed=2, topic=PROMPTS_BATCH, tier="batch")
    with opened(site, "flood", asked.workers) as crowd:
        crowd.submit(calm)
        crowd.wait(calm)
        crowd.submit(crowded, flood)
        of_the_flood = crowd.as_table(flood)["completed"]
        crowd.wait(crowded)
        before, after = crowd.as_table(calm), crowd.as_table(crowded)
    measured = {"interactive_p95_added_ms": added_ms(after, before), "lost": before["lost"] + after["lost"]}
    capacity = asked.workers * 1000 / RUN_MS
    return {
        "painted_by": LEVEL,
        "run_ms": RUN_MS,
        "interactive": {"calm": before, "crowded": after},
        "batch": {"submitted": len(flood), "completed_meanwhile": of_the_flood},
        "busy": round((of_the_flood + after["completed"]) / (capacity * asked.seconds), 3),
        **measured,
        "targets": met(measured, LIMITS),
    }
