"""Writes the file of hop latencies that ships from a live run, and scales what ships to another machine."""

import json
from collections.abc import Mapping
from typing import Any

from replay.bench.validation import scaled, speed_ratio
from replay.simulation.draws.hop_latencies import HopLatencies, Quantiles
from replay.simulation.shipped_latencies import SHIPPED, read


def file_of(report: Mapping[str, Any], machine: str) -> str:
    """Return the text of a hops.json with the times of a live run. `machine`: what it ran on, for people.

    Raises KeyError: the report is not of a live run.
    """
    live, setup, made = report["live"], report["setup"], report["made"]
    (policy,) = report["policies"]
    found = {
        "command": made["command"], "machine": machine, "policy": policy, "workers": setup["workers"],
        "requests": report["trace"]["requests"], "seconds": report["trace"]["seconds"], "speed_ms": live["speed_ms"],
        "hops": {kind: live["hops"][kind][0] for kind in SHIPPED if live["hops"][kind]},
    }  # fmt: skip
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in found.items() if key != "hops"]
    hops = ",\n".join(f"  {json.dumps(kind)}: {json.dumps(values)}" for kind, values in found["hops"].items())
    return "{\n" + ",\n".join([*lines, f' "hops": {{\n{hops}\n }}']) + "\n}\n"


def shipped_hop_latencies_at(speed_ms: Quantiles) -> HopLatencies:
    """Read the hop latencies that ship, scaled to a machine's speed: quantiles of the speed probe's times in ms.

    Raises PochadeError: the file is missing or damaged.
    """
    hops, then_ms = read()
    return scaled(hops, speed_ratio(then_ms, speed_ms))
