"""The times between processes of a deployment, as they ship: measured in a live run whose workers only sleep.

`infra/hops.json` names the run, the machine, and its speed then. What a call takes beside its profile is not in it:
that belongs to a model and a machine.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from replay.simulation.draws.hop_latencies import KINDS, RANKS, HopLatencies, Quantiles, of_kinds, speed_ratio
from schemas.errors import PochadeError
from streams.shipped import INFRA

FILE = INFRA / "hops.json"


SHIPPED = ("arrive", "fetch", "rest", "judge", "plan")  # but for what belongs to a model


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


@lru_cache(maxsize=1)
def shipped_hop_latencies() -> HopLatencies:
    """Read the hop latencies that ship. Raises PochadeError: the file is missing or damaged."""
    return _read()[0]


def shipped_hop_latencies_at(speed_ms: Quantiles) -> HopLatencies:
    """Read the hop latencies that ship, scaled to a machine's speed: quantiles of the speed probe's times in ms.

    Raises PochadeError: the file is missing or damaged.
    """
    hops, then_ms = _read()
    return hops.scaled(speed_ratio(then_ms, speed_ms))


def _read() -> tuple[HopLatencies, Quantiles]:
    """The hop latencies that ship, and the quantiles of the speed probe's times in ms when they were measured."""
    try:
        described: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
        speed_ms = tuple(float(ms) for ms in described["speed_ms"])
        kinds: dict[str, Any] = described["hops"]
        found = {kind: (tuple(float(ms) for ms in quantiles),) for kind, quantiles in kinds.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PochadeError(f"{FILE} has no times between processes, install pochade again: {error}") from error
    if not found.keys() <= set(KINDS) or any(len(slot[0]) != len(RANKS) for slot in found.values()):
        raise PochadeError(f"{FILE} has unknown times: {sorted(found)}; known are {', '.join(KINDS)}")
    return of_kinds(found), speed_ms
