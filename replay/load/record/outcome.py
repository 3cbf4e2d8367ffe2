"""The report of a live run, in the keys of a simulated one, with what only a live one has under `live`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from planner.catalog.model import Catalog
from planner.control.proposal import ALWAYS
from planner.scaling.fleet import ScaleRules
from replay.load.clock import TraceClock
from replay.load.identity import Ids
from replay.load.record import hop_latencies
from replay.load.record.course import ran_of
from replay.load.record.history import History
from replay.load.record.request_records import OPEN, RequestRecord
from replay.simulation.clockwork import quotas_of, timing_of
from replay.simulation.draws.hop_latencies import Quantiles
from replay.simulation.session import report_of
from replay.simulation.setup import FIXED, Setup
from replay.traces.trace import Trace
from schemas.errors import PochadeError
from streams.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of a run that no topic holds, such as its settings and its lateness."""

    name: str
    settings: Settings
    catalog: Catalog
    slo_ms: float
    drops: bool
    workers: int  # at the start, those of a pool among them
    scale: ScaleRules  # where its plans scale the fleet
    before: int  # requests that earlier sessions of the run published
    lateness_ms: Sequence[float]  # of this session's
    refused: int  # submissions that the broker did not take
    speed_ms: Quantiles = ()  # of the machine, by `replay.load.speed.probe`; (): not probed


def outcome(facts: Facts, trace: Trace, ids: Ids, history: History, seen: Sequence[RequestRecord]) -> dict[str, Any]:
    """Build report.json, without how it was made. Raises PochadeError where nothing was published."""
    if not history.published.created_ms:
        raise PochadeError("nothing of the trace was published: see why above, and run it again")
    setup = _setup(facts, policy_of(history), is_scaled=any(plan.scale is not None for plan in history.plans))
    ran = ran_of(history, seen, setup, trace)
    found = hop_latencies.samples(history, facts.catalog)
    clock = TraceClock(trace.arrival_ms, history.published.created_ms)
    return {
        **report_of(trace, {setup.policy: [ran]}),
        "live": {
            "name": facts.name,
            "prefix": facts.settings.kafka.prefix,
            "published": len(history.published.created_ms),
            "published_twice": history.published.repeats,
            "before": facts.before,
            "refused": facts.refused,
            "lost": sum(each.status == OPEN for each in seen) - (len(trace) - len(history.published.created_ms)),
            "duplicates": history.duplicates,
            "lateness_ms": lateness(facts.lateness_ms),
            "plans_took_ms": [history.took_ms(plan) for plan in history.plans],
            "came_before_s": [round(clock(at_ms) / 1000, 3) for at_ms in history.before_ms],
            "hops": asdict(hop_latencies.whole_run(found)),
            "hops_by_time": asdict(hop_latencies.by_time(found, clock, trace.span_ms)),
            "speed_ms": list(facts.speed_ms),
            "ids": ids.start,
        },
    }


def _setup(facts: Facts, policy: str, *, is_scaled: bool) -> Setup:
    planner = facts.settings.planner
    scale = replace(facts.scale, when=ALWAYS) if is_scaled else FIXED
    return Setup(
        catalog=facts.catalog,
        policy=policy,
        workers=max(0, facts.workers - scale.warm),
        slo_ms=facts.slo_ms,
        parameters=dict(planner.parameters),
        period_ms=float(planner.period_ms),
        forecast=planner.forecast,
        hysteresis=planner.hysteresis,
        quality_at_least=planner.quality_at_least,
        learns=True,
        drops=facts.drops,
        sheds=planner.load_shedding,
        timing=timing_of(facts.settings),
        quotas=quotas_of(facts.settings),
        features=facts.settings.features,
        price_per_hour=facts.settings.worker.price_per_hour,
        scale=scale,  # whether it is scaled is seen in the plans: another release's policy is not known
    )


def policy_of(history: History) -> str:
    """Return the policy under whose plans most requests ended; without any, the last plan's."""
    named = Counter(result.policy for result in history.results.values() if result.policy)
    if named:
        return named.most_common(1)[0][0]
    return history.plans[-1].policy if history.plans else "unknown"


def lateness(values: Sequence[float]) -> dict[str, float | int | None]:
    """Published - scheduled of a session's requests."""
    found: dict[str, float | int | None] = {"requests": len(values)}
    for name, rank in (("p50", 50), ("p95", 95), ("max", 100)):
        found[name] = round(float(np.percentile(values, rank)), 2) if values else None
    return found


def fault(live: Mapping[str, Any]) -> str | None:
    """Return one sentence about faults that must not occur, such as lost requests; None for a run in order."""
    words_of = {
        "lost": "published requests have no result",
        "duplicates": "results came twice",
        "published_twice": "requests were published twice",
        "refused": "submissions were refused by the broker: run it again with the same --name",
    }
    return "; ".join(f"{live[key]} {words}" for key, words in words_of.items() if live[key]) or None
