"""The times between processes of a deployment, as they ship: measured in a live run whose workers only sleep.

`infra/hops.json` names the run, the machine, and its speed then. What a call takes beside its profile is not in it:
that belongs to a model and a machine.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from replay.simulation.draws.hop_latencies import KINDS, RANKS, HopLatencies, Quantiles, Slots, of_kinds
from schemas.errors import PochadeError
from streams.shipped import INFRA

FILE = INFRA / "hops.json"


SHIPPED = ("arrive", "fetch", "rest", "judge", "plan")  # but for what belongs to a model


@lru_cache(maxsize=1)
def shipped_hop_latencies() -> HopLatencies:
    """Read the hop latencies that ship. Raises PochadeError: the file is missing or damaged."""
    return read()[0]


def read() -> tuple[HopLatencies, Quantiles]:
    """Read the hop latencies that ship, and the quantiles of the speed probe's times in ms when they were measured."""
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


def hop_latencies(report: Mapping[str, Any], *, by_time: bool = False) -> HopLatencies:
    """Read the hop latencies of a live run's report: of the whole run, or by stretches of its time."""
    measured = report["live"].get("hops_by_time" if by_time else "hops")
    if measured is None:
        raise PochadeError("the run's report has no times between processes: replay it again with this release")
    paint_of = {variant: _slots(own) for variant, own in measured.get("paint_of", {}).items()}
    return of_kinds({kind: _slots(measured.get(kind, ())) for kind in KINDS}, paint_of, measured["slot_ms"])


def _slots(described: Sequence[Sequence[float]]) -> Slots:
    return tuple(tuple(slot) for slot in described)
