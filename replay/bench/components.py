"""What does it cost a worker to change components? The engine measures in a process of its own; here it is judged.

`replay` is a client, and imports no role: `agents/lab/components_bench.py` is run, and asked by JSON.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from replay.bench.environment.figures import met, spread, spread_with_interval
from schemas.errors import PochadeError

CHILD: Final = "agents.lab.components_bench"
TARGETS: Final = {"turns_ratio": ("<=", 1.3), "fused_difference": ("<=", 1e-4)}
MEMORY_TARGETS: Final = {"requests_over_budget": ("<=", 0), "rss_growth_mb": ("<=", 20)}
COLOURS: Final = {"device": "#b3401f", "host": "#3b7d3a", "volume": "#6b4ba3"}
WARM: Final = 0.25  # share of the requests after which memory should grow no more


def run(catalog: str, variant: str, blocks: int, requests: int, seed: int, memory_requests: int = 0) -> dict[str, Any]:
    """Measure, and return the report; `memory_requests`: of the measurement of memory, 0 leaves it out.

    Raises PochadeError where the process that measures fails.
    """
    asked = {
        "catalog": catalog, "variant_name": variant, "blocks": blocks, "requests": requests, "seed": seed,
        "memory_requests": memory_requests,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", CHILD], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PochadeError(f"{CHILD} ended with status {done.returncode}: {done.stderr[-1000:]}")
    return report_of(json.loads(done.stdout))


def report_of(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of what was measured: medians, intervals, and which targets are met."""
    turns, ratios = measured["turns"], measured["turns"]["ratios"]
    report = {
        "adapters": turns["adapters"],
        "request_cpu_ms": {"one_adapter": spread(turns["one_ms"]), "three_in_turn": spread(turns["three_ms"])},
        "turns_ratio": spread_with_interval(ratios),
        "fused_difference": measured["fused_difference"],
        "hits": measured["hits"],
        "targets": met(
            {"turns_ratio": statistics.median(ratios), "fused_difference": measured["fused_difference"]}, TARGETS
        ),
    }
    if "memory" in measured:
        report["memory"] = {**measured["memory"], **growth_of(measured["memory"]["samples"])}
        over = sum(measured["memory"]["over_budget"].values())
        growth_mb = report["memory"]["rss_growth_bytes"] / 1e6
        report["targets"] |= met({"requests_over_budget": over, "rss_growth_mb": growth_mb}, MEMORY_TARGETS)
    return report


def growth_of(samples: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the largest resident memory, and by how much it grew from a quarter of the requests to the end, in bytes.

    Compared are means over a tenth of the samples: one request may hold a base more than the next.
    """
    rss = [each["rss_bytes"] for each in samples]
    few, begin = max(1, len(rss) // 10), int(len(rss) * WARM)
    warm, end = (round(statistics.fmean(part)) for part in (rss[begin : begin + few], rss[-few:]))
    return {"rss_most_bytes": max(rss), "rss_growth_bytes": end - warm}


def plot_of(memory: Mapping[str, Any]) -> str:
    """Return resident memory, and the bytes of each tier with its budget dashed, over requests, as an SVG document."""
    from matplotlib import rc_context  # half a second that the bench itself need not wait for
    from matplotlib.figure import Figure

    from streams.pages.plots import markup, rc_params_of

    look = rc_params_of("#222222", "#555555", "#dddddd", {"font.size": 9})
    with rc_context(look):
        figure = Figure(figsize=(6.4, 4.8))
        above, below = figure.subplots(2, 1, sharex=True)
        at = [each["requests"] for each in memory["samples"]]
        above.plot(at, [each["rss_bytes"] / 1e6 for each in memory["samples"]], color="#1b6ca8")
        above.set(ylabel="resident memory, MB", ylim=(0, None))
        for tier, colour in COLOURS.items():
            below.plot(at, [each["held_bytes"][tier] / 1e6 for each in memory["samples"]], color=colour, label=tier)
            below.axhline(memory["budget_bytes"][tier] / 1e6, color=colour, linestyle="--", linewidth=1)
        below.set(xlabel="requests", ylabel="bytes held, MB (dashed: budget)", ylim=(0, None))
        below.legend(frameon=False, ncols=3)
        figure.tight_layout()
    return markup(figure, look)
