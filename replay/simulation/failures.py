"""Schedules of outages: a CSV file with the columns at_s, worker or store, change (`down` or `up`)."""

import csv
import math
import pathlib
from collections.abc import Sequence
from typing import Final

from planner.catalog.model import Catalog
from replay.simulation.setup import STORES, VECTOR_STORE, Outage
from schemas.errors import PochadeError

COLUMNS: Final = ("at_s", "worker", "change")
CHANGES = {"down": False, "up": True}


class InvalidFailures(PochadeError):
    """A file of failures that cannot be simulated; the message names file and line."""


def read_failures(path: pathlib.Path, worker_ids: Sequence[str]) -> tuple[Outage, ...]:
    """The changes of a file in order of time. A worker is named by its id, as `w-3`, or by its number from 0.

    Raises: InvalidFailures.
    """
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except FileNotFoundError:
        what = f"give a CSV file with the columns {','.join(COLUMNS)}"
        raise InvalidFailures(f"no file at {path}: {what}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFailures(f"{path} cannot be read as CSV: {error}") from error
    if not rows or [name.strip() for name in rows[0]] != list(COLUMNS):
        got = ",".join(rows[0])[:80] if rows else "nothing"
        raise InvalidFailures(f"{path}:1: expected the columns {','.join(COLUMNS)}, got {got!r}")
    outages: list[Outage] = []
    for number, row in enumerate(rows[1:], start=2):
        if any(field.strip() for field in row):
            outages.append(_outage([field.strip() for field in row], worker_ids, f"{path}:{number}"))
    if not outages:
        raise InvalidFailures(f"{path} has a header and no changes")
    return tuple(sorted(outages, key=lambda outage: outage.at_ms))


def unheeded(outages: Sequence[Outage], catalog: Catalog) -> str:
    """Return which part of a schedule has no effect, and why; "" if all of it counts."""
    count = sum(outage.worker_id == VECTOR_STORE for outage in outages)
    if not count or catalog.reuse_profile is not None:
        return ""
    why = f"the catalog {catalog.name} has no profile of reuse, so nothing asks it"
    return f"{count} of the {len(outages)} changes are of the {VECTOR_STORE} and change nothing: {why}"


def _outage(row: list[str], worker_ids: Sequence[str], where: str) -> Outage:
    if len(row) != len(COLUMNS):
        raise InvalidFailures(f"{where}: expected {len(COLUMNS)} fields, got {len(row)}: {','.join(row)[:80]!r}")
    at, worker, change = row
    if change not in CHANGES:
        raise InvalidFailures(f"{where}: change must be down or up: got {change[:80]!r}")
    if worker not in worker_ids and worker not in STORES:
        if not worker.isdecimal() or len(worker) > 9 or int(worker) >= len(worker_ids):
            named = f"{worker_ids[0]} to {worker_ids[-1]}, or 0 to {len(worker_ids) - 1}"
            raise InvalidFailures(f"{where}: no worker {worker[:80]!r}: there are {named}, {' and '.join(STORES)}")
        worker = worker_ids[int(worker)]
    return Outage(at_ms=1000 * _seconds(at, where), worker_id=worker, is_up=CHANGES[change])


def _seconds(text: str, where: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise InvalidFailures(f"{where}: at_s is not a number of seconds: {text[:80]!r}") from None
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidFailures(f"{where}: at_s must be 0 or more: got {text[:80]}")
    return seconds
