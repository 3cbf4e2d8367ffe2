"""Reads and writes an observation as JSON, to plan from one that a person wrote or a planner saved."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from planner.observation.observation import InvalidObservation, Observation, check_deferral
from schemas.wire_names import field_name
from streams.parsing.closed import Source, parsed_json, read

_ADVICE: Final = "`pochade plan shadow POLICY --save FILE` writes one"
_IDLE: Final = {"variant": "", "state": "ready", "seen_ms": 0, "remaining_ms": 0.0}  # defaults of a worker
_EVERYWHERE: Final = {"images": 0, "bounds": [0.0, 1.0]}  # defaults of a deferral curve


def text_of(observation: Observation) -> str:
    """Return the JSON that `parse` reads back as an equal value; named tuples are arrays of their fields in order."""
    return json.dumps(_table(observation), indent=1)


def parse(text: str, file: str) -> Observation:
    """Parse an observation from JSON; errors name `file`.

    An object with the fields of `Observation`; all but `demand_rps` may be left out or null. Of a worker `worker_id` is
    enough. Queues, the points of deferral curves and `served` are objects, or arrays of their fields in order.

    Raises:
        Unknown: a key that is not known, with the nearest.
        InvalidObservation: no JSON, a missing key, a wrong type, or a value that is no rate or no share.
    """
    source = Source(f"observation {file}", _ADVICE, InvalidObservation)
    observation = read(Observation, _in_full(parsed_json(text, source)), source)
    for at, seen in enumerate(observation.deferral):
        check_deferral(seen, f"{source.where}: deferral[{at}]")
    return replace(observation, workers=tuple(sorted(observation.workers, key=lambda worker: worker.worker_id)))


def _table(value: Any) -> Any:
    """Return a value as JSON has it: dataclasses as objects with the names of the wire, as `read` expects them."""
    if is_dataclass(value):
        return {field_name(each.name): _table(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _table(each) for key, each in value.items()}
    return [_table(each) for each in value] if isinstance(value, tuple | list) else value


def _in_full(root: Any) -> Any:
    """Return the table with optional values filled in; a part of another form stays as it is, for `read` to refuse."""
    if not isinstance(root, dict):
        return root
    whole = {"now_ms": 0} | _given(root)
    if isinstance(whole.get("workers"), list):
        whole["workers"] = [_IDLE | worker if isinstance(worker, dict) else worker for worker in whole["workers"]]
    if isinstance(whole.get("deferral"), list):
        whole["deferral"] = [_EVERYWHERE | seen if isinstance(seen, dict) else seen for seen in whole["deferral"]]
    if isinstance(whole.get("served"), dict):
        whole["served"] = _given(whole["served"])
    return whole


def _given(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}
