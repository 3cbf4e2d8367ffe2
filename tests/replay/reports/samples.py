"""Small reports for tests, as `pochade simulate --report` writes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from replay.reports.intervals import interval

INTERVALS = 4
CHANCE = "by-chance"  # plays the split by chance


def a_policy(**by_seed: Sequence[float]) -> dict[str, Any]:
    """A policy whose figures are the means of these values, one a seed; all others the same in every run."""
    seeds = len(next(iter(by_seed.values()))) if by_seed else 1
    flat: dict[str, Sequence[float]] = {
        "requests": [100.0] * seeds, "violations": [1.0] * seeds, "violation_rate": [0.01] * seeds,
        "quality": [0.9] * seeds, "heavy_share": [0.5] * seeds, "cost_worker_s": [40.0] * seeds, "plans": [1.0] * seeds,
    } | by_seed  # fmt: skip
    means = {key: sum(values) / seeds for key, values in flat.items()}
    latency = {part: means.get(f"latency_s.{part}", 1.0) for part in ("mean", "p50", "p95", "p99")}
    zeros = dict.fromkeys(
        ("late", "shed", "expired", "failed", "open", "escalated", "retried", "plan_failures", "switches"), 0
    )
    figures = zeros | {
        "completed": 100, "quality_in_slo": means["quality"], "fid": means.get("fid"), "by_level": {"light": 100},
        "latency_s": latency, "utilization": 0.5, "planned": {},
    }  # fmt: skip
    figures |= {key: value for key, value in means.items() if "." not in key}
    ends = {key: interval(values) for key, values in flat.items() if seeds > 1 and len(set(values)) > 1}
    figures |= {"interval": ends} if ends else {}
    return figures | {
        "by_seed": {key: list(values) for key, values in flat.items()},
        "series": {name: a_series(value) for name, value in _series(means).items()},
        "changes": [a_change()],
    }


def _series(means: Mapping[str, float]) -> dict[str, float]:
    return {
        "violation_rate": means["violation_rate"], "heavy_share": means["heavy_share"], "quality": means["quality"],
        "queue_s": 0.5, "capacity_rps": 20.0, "plan_changes": 1.0, "cost_worker_s": 4.0,
    }  # fmt: skip


def a_series(value: float) -> dict[str, Any]:
    return {"mean": [value] * (INTERVALS - 1) + [None], "half": [0.1] * (INTERVALS - 1) + [None]}


def a_change(**changes: Any) -> dict[str, Any]:
    values = {
        "at_s": -1.0, "version": 1, "strategy": "models", "workers": {"light": 2}, "thresholds": {"light": 0.4},
        "capacity_rps": 20.0, "reason": "the first plan",
    }  # fmt: skip
    return values | changes


def a_report(policies: Mapping[str, Any] | None = None, **setup: Any) -> dict[str, Any]:
    """A report of these policies; `setup` are changes of what was simulated."""
    chosen = dict(policies) if policies else {"ours": a_policy(), CHANCE: a_policy(quality=[0.8])}
    seeds = len(next(iter(chosen.values()))["by_seed"]["requests"])
    asked = {
        "catalog": "tiny", "scale": "facts", "workers": 4, "slo_s": 5.0, "period_s": 5.0, "forecast": "trend",
        "learns": False, "recorded": False, "dispatch": "as planned", "drops": True, "seeds": seeds, "first_seed": 0,
        "outages": [], "timing": {}, "parameters": {name: {} for name in chosen},
    } | setup  # fmt: skip
    return {
        "version": 1,
        "made": {"command": "pochade simulate trace.csv", "versions": {"python": "3.11"}},
        "trace": {"file": "trace.csv", "sha256": "a" * 64, "requests": 100, "seconds": 40.0},
        "setup": asked,
        "interval_s": 10.0,
        "demand_rps": [2.0, 3.0, 4.0, 1.0],
        "baseline": CHANCE,
        "policies": chosen,
    }
