"""What does it cost a worker to change components? The engine measures in a process of its own; here it is judged.

`replay` is a client, and imports no role: `agents/lab/components_bench.py` is run, and asked by JSON.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from replay.bench.environment.figures import met, spread
from replay.reports.intervals import interval
from schemas.errors import PochadeError

CHILD: Final = "agents.lab.components_bench"
TARGETS: Final = {"turns_ratio": ("<=", 1.3), "fused_difference": ("<=", 1e-4)}


def run(catalog: str, variant: str, blocks: int, requests: int, seed: int) -> dict[str, Any]:
    """Measure, and return the report. Raises PochadeError where the process that measures fails."""
    asked = {"catalog": catalog, "variant_name": variant, "blocks": blocks, "requests": requests, "seed": seed}
    done = subprocess.run(
        [sys.executable, "-m", CHILD], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PochadeError(f"{CHILD} ended with status {done.returncode}: {done.stderr[-1000:]}")
    return report_of(json.loads(done.stdout))


def report_of(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of what was measured: medians, intervals, and which targets are met."""
    turns, ratios = measured["turns"], measured["turns"]["ratios"]
    return {
        "adapters": turns["adapters"],
        "request_cpu_ms": {"one_adapter": spread(turns["one_ms"]), "three_in_turn": spread(turns["three_ms"])},
        "turns_ratio": {**spread(ratios), "interval": interval(ratios)},
        "fused_difference": measured["fused_difference"],
        "hits": measured["hits"],
        "targets": met(
            {"turns_ratio": statistics.median(ratios), "fused_difference": measured["fused_difference"]}, TARGETS
        ),
    }
