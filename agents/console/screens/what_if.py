"""*What if*: the requests of late as they went, beside their simulation under another policy or fleet."""

from typing import Any, Final

from agents.console.screens.context import Context
from agents.console.view.view import is_in_time
from schemas.messages import Status

SINCE: Final = {"15m": 900, "1h": 3600, "6h": 21_600, "1d": 86_400}  # as commands take it -> seconds
ROWS: Final = (  # name, path in the report, how it reads
    ("requests", ("requests",), "number"), ("not in time", ("violation_rate",), "share"),
    ("share of the best level", ("heavy_share",), "share"), ("quality", ("quality",), "number"),
    ("latency, mean", ("latency_s", "mean"), "seconds"), ("latency, median", ("latency_s", "p50"), "seconds"),
    ("latency, 95 %", ("latency_s", "p95"), "seconds"), ("latency, 99 %", ("latency_s", "p99"), "seconds"),
    ("busy share of workers", ("utilization",), "share"), ("escalated", ("escalated",), "number"),
    ("expired", ("expired",), "number"), ("rejected", ("rejected",), "number"), ("plans", ("plans",), "number"),
    ("switches", ("switches",), "number"), ("worker seconds", ("cost_worker_s",), "number"),
)  # fmt: skip


def as_it_went(context: Context, span_s: int) -> dict[str, Any]:
    """Return what really became of the requests of late that are remembered, in the report's words."""
    view, since_ms = context.view, context.now_ms - 1000 * span_s
    latencies: list[int] = []
    requests = late = timed = heavy = completed = escalated = expired = rejected = 0
    best = view.catalog.best().name
    for seen in view.requests.newest():
        if seen.first_ms < since_ms:
            break
        requests += 1
        result = seen.result
        if result is None:
            continue
        in_time = is_in_time(result, seen.request.deadline_ms if seen.request else None, view.slo_ms)
        timed += in_time is not None
        late += in_time is False
        expired += result.status is Status.EXPIRED
        rejected += result.status is Status.REJECTED
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
        "requests": requests, "violation_rate": late / timed if timed else None,
        "heavy_share": heavy / completed if completed else None, "escalated": escalated, "expired": expired,
        "rejected": rejected, "latency_s": {"mean": mean, "p50": at(0.5), "p95": at(0.95), "p99": at(0.99)},
    }  # fmt: skip


def table(report: dict[str, Any], went: dict[str, Any]) -> tuple[list[str], list[tuple[str, str, list[Any]]]]:
    """Return the names of the columns, and rows of (figure, how it reads, a value a column)."""
    columns = {"as it went": went, **report["policies"]}
    rows = [(name, kind, [_at(each, path) for each in columns.values()]) for name, path, kind in ROWS]
    return list(columns), rows


def _at(found: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
