"""*What if*: recent requests as they went, beside their simulation under another policy or fleet."""

import itertools
import math
from collections.abc import Mapping
from typing import Any, Final

from agents.console.screens.context import Context
from agents.console.view.view import is_in_time
from planner.serving.decisions import UNHONOURED
from schemas.messages import Status
from streams.visible import counted

SINCE: Final = {"15m": 900, "1h": 3600, "6h": 21_600, "1d": 86_400}  # as commands take it -> seconds
ROWS: Final = (  # name, path in the report, how it reads
    ("requests", ("requests",), "number"), ("not in time", ("violation_rate",), "share"),
    ("share of the best level", ("heavy_share",), "share"), ("quality", ("quality",), "number"),
    ("latency, mean", ("latency_s", "mean"), "seconds"), ("latency, median", ("latency_s", "p50"), "seconds"),
    ("latency, 95 %", ("latency_s", "p95"), "seconds"), ("latency, 99 %", ("latency_s", "p99"), "seconds"),
    ("busy share of workers", ("utilization",), "share"), ("escalated", ("escalated",), "number"),
    ("expired", ("expired",), "number"), ("rejected for want of room", ("shed",), "number"),
    ("rejected: no level does what is asked for", ("unhonoured",), "number"), ("plans", ("plans",), "number"),
    ("switches", ("switches",), "number"), ("worker seconds", ("cost_worker_s",), "number"),
)  # fmt: skip


def spans(context: Context) -> list[tuple[str, int, int]]:
    """Return the spans to choose from: name, seconds, and the requests of it that this console remembers."""
    first_ms = [seen.first_ms for seen in context.view.requests.newest()]
    return [(name, s, sum(at >= context.now_ms - 1000 * s for at in first_ms)) for name, s in SINCE.items()]


def as_it_went(context: Context, span_s: int, covered_s: float = math.inf) -> dict[str, Any]:
    """Return the actual figures of recent requests, under the report's names.

    `covered_s`: from the first of them, within which others count. Only requests whose prompt was read count, as the
    simulation has no others; `unread` counts the others.
    """
    view, since_ms = context.view, context.now_ms - 1000 * span_s
    latencies: list[int] = []
    requests = unread = ended = late = timed = heavy = completed = escalated = expired = rejected = unhonoured = 0
    best = view.catalog.best().name
    recent = list(itertools.takewhile(lambda seen: seen.first_ms >= since_ms, view.requests.newest()))
    until_ms = min((seen.first_ms for seen in recent if seen.request is not None), default=0) + 1000 * covered_s
    for seen in recent:
        if seen.first_ms > until_ms:
            continue
        result = seen.result
        if seen.request is None:
            unread += 1
            continue
        requests += 1
        if result is None:
            continue
        ended += 1
        in_time = is_in_time(result, seen.request.deadline_ms, view.slo_ms)
        timed += in_time is not None
        late += in_time is False
        expired += result.status is Status.EXPIRED
        rejected += result.status is Status.REJECTED
        unhonoured += result.code == UNHONOURED
        if result.status is Status.COMPLETED:
            completed += 1
            heavy += result.level == best
            escalated += result.escalated
            latencies.append(result.latency_ms or 0)
    latencies.sort()

    def at(share: float) -> float | None:
        return latencies[min(len(latencies) - 1, int(share * len(latencies)))] / 1000 if latencies else None

    mean = sum(latencies) / len(latencies) / 1000 if latencies else None
    return {
        "requests": requests, "unread": unread, "ended": ended, "violation_rate": late / timed if timed else None,
        "heavy_share": heavy / completed if completed else None, "escalated": escalated, "expired": expired,
        "shed": rejected - unhonoured, "unhonoured": unhonoured,
        "latency_s": {"mean": mean, "p50": at(0.5), "p95": at(0.95), "p99": at(0.99)},
    }  # fmt: skip


def table(report: dict[str, Any], went: dict[str, Any]) -> tuple[list[str], list[tuple[str, str, list[Any]]]]:
    """Return the names of the columns, and rows of (figure, how it reads, a value a column)."""
    columns = {"as it went": went, **report["policies"]}
    rows = [(name, kind, [_at(each, path) for each in columns.values()]) for name, path, kind in ROWS]
    return list(columns), rows


def begin_of(trace: Mapping[str, Any], command: str) -> str:
    """Say which part of the requests was simulated in the time that a page's command has, and what simulates all."""
    whole, part = trace["whole"], trace["seconds"]
    return (
        f"Simulated in the time of a page's command (console.command_timeout_s): the first {part / 60:.1f} of "
        f"{whole['seconds'] / 60:.1f} min, {trace['requests']} of {counted(whole['requests'], 'request')}; both "
        f"columns count these alone. `pochade {command}` simulates all."
    )


def populations(report: dict[str, Any], went: dict[str, Any], slo_ms: float) -> list[str]:
    """Return sentences that say which requests each side counts and when one is in time, and why numbers may differ."""
    unread, still = went["unread"], went["requests"] - went["ended"]
    counts = f"As it went: {counted(went['requests'], 'request')} that this console remembers"
    said = [counts + (f", of which {still} {'has' if still == 1 else 'have'} not ended." if still else ".")]
    if unread:
        ids = f"{counted(unread, 'id')} {'is' if unread == 1 else 'are'}"
        said.append(f"{ids} left out there: this console read no valid request of that id, and a simulation has none.")
    simulated = next(iter(report["policies"].values())).get("requests")
    if simulated is not None:
        said.append(
            f"Simulated: {counted(round(simulated), 'request')}, each valid request on the topics of prompts once."
        )
        if round(simulated) != went["requests"]:
            said.append(
                "The numbers of requests differ: this console remembers console.max_requests since it started and "
                "console.history_s before, and requests arrive while the topics are read."
            )
    target_s = report.get("setup", {}).get("slo_s", slo_ms / 1000)
    return [
        *said,
        "Both sides count a request as not in time that ended without an image, or after its deadline or, without one, "
        f"later than the latency target of {target_s:g} s.",
    ]


def _at(found: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
