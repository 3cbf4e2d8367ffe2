"""An observation as JSON: to plan from one that somebody made up, or that a planner had."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from planner.catalog.entries import Curve, DeferralPoint
from planner.catalog.validate import read, rows, typed
from planner.observation.deferral import ObservedDeferral
from planner.observation.observation import InvalidObservation, Observation, Queue, Served
from planner.observation.workers import WorkerView


def text_of(observation: Observation) -> str:
    """The JSON that `parse` reads back as the same value; tuples are arrays of their fields in order."""
    return json.dumps(asdict(observation), indent=1)


def parse(text: str, file: str) -> Observation:
    """An observation from JSON; `file` is what errors call it.

    An object with the fields of `Observation`; all but `demand_rps` may be left out or null. Of a worker `worker_id` is
    enough. Queues, the points of deferral curves and `served` are objects, or arrays of their fields in order.

    Raises:
        Unknown: a key that is not known, with the nearest.
        InvalidCatalog: a missing key or a wrong type.
        InvalidObservation: no JSON, or a value that is no rate or no share.
    """
    where = f"observation {file}"
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidObservation(
            f"{where} is not JSON: {error}; `pochade plan shadow POLICY --save FILE` writes one"
        ) from None
    table = {"now_ms": 0} | {k: v for k, v in typed(root, (dict,), where).items() if v is not None}
    converted = {key: convert(table[key], f"{where}: {key}") for key, convert in _CONVERT.items() if key in table}
    return read(Observation, table | converted, where)


def _numbers(value: Any, where: str) -> tuple[float, ...]:
    return tuple(float(typed(item, (int, float), f"{where}[{at}]")) for at, item in enumerate(_list(value, where)))


def _counts(value: Any, where: str) -> tuple[int, ...]:
    return tuple(typed(item, (int,), f"{where}[{at}]") for at, item in enumerate(_list(value, where)))


def _shares(value: Any, where: str) -> dict[str, float]:
    shares: Mapping[str, Any] = typed(value, (dict,), where)
    return {name: float(typed(share, (int, float), f"{where}.{name}")) for name, share in shares.items()}


def _histograms(value: Any, where: str) -> dict[str, dict[str, float]]:
    tables: Mapping[str, Any] = typed(value, (dict,), where)
    return {strategy: _shares(table, f"{where}.{strategy}") for strategy, table in tables.items()}


def _workers(value: Any, where: str) -> tuple[WorkerView, ...]:
    idle = {"variant": "", "state": "ready", "seen_ms": 0, "remaining_ms": 0.0}
    tables = [idle | typed(item, (dict,), f"{where}[{at}]") for at, item in enumerate(_list(value, where))]
    return tuple(sorted(rows(WorkerView, tables, where), key=lambda worker: worker.worker_id))


def _queues(value: Any, where: str) -> tuple[Queue, ...]:
    return rows(Queue, value, where)


def _served(value: Any, where: str) -> Served:
    known = {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else _filled(value)
    return rows(Served, [known], where)[0]


def _filled(value: Any) -> Any:
    """The fields of an array up to the first that is null."""
    return value[: value.index(None)] if isinstance(value, list) and None in value else value


def _deferral(value: Any, where: str) -> tuple[ObservedDeferral, ...]:
    found = []
    for at, item in enumerate(_list(value, where)):
        table, here = typed(item, (dict,), f"{where}[{at}]"), f"{where}[{at}]"
        curves = tuple(_curve(c, f"{here}: curves[{band}]") for band, c in enumerate(_list(table.get("curves"), here)))
        bounds = _numbers(table.get("bounds", [0.0, 1.0]), f"{here}: bounds")
        rises = bounds == tuple(sorted(set(bounds))) and (bounds[:1], bounds[-1:]) == ((0.0,), (1.0,))
        if not rises or len(curves) != len(bounds) - 1:
            raise InvalidObservation(f"{here}: bounds must rise from 0 to 1, with a curve between two: got {bounds}")
        found.append(read(ObservedDeferral, {"images": 0, **table, "bounds": bounds, "curves": curves}, here))
    return tuple(found)


def _curve(value: Any, where: str) -> Curve | None:
    if value is None:
        return None
    points = rows(DeferralPoint, value, where)
    if list(points) != sorted(points) or not all(0 <= share <= 1 for point in points for share in point):
        raise InvalidObservation(f"{where} must be shares that rise: got {points}")
    return points


def _list(value: Any, where: str) -> list[Any]:
    items: list[Any] = typed(value, (list,), where)
    return items


_CONVERT = {
    "hardness": _numbers, "classes": _histograms, "tiers": _shares, "workers": _workers, "counts": _counts,
    "queues": _queues, "deferral": _deferral, "served": _served,
}  # fmt: skip
