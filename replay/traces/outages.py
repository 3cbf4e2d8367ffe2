"""Schedules of what fails when, as `--failures` reads them: a CSV with the columns at_s, worker, change.

`worker` is a worker's number, or the name of a store: what stands there goes `down` and comes `up` again.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from schemas.errors import PochadeError, Unknown

COLUMNS: Final = ("at_s", "worker", "change")
VECTOR_STORE: Final = "vector-store"
OBJECT_STORE: Final = "object-store"
STORES: Final = (VECTOR_STORE, OBJECT_STORE)


class Change(NamedTuple):
    """One line of a schedule: a worker or store goes down or comes up."""

    at_s: float
    who: str
    is_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The workers and stores lost at each moment, for equal times. Defaults: ARGUS 5.6, Fig. 20: half of eight workers,
    twice, for about 40 minutes; the moments are ours, as the figure only draws them."""

    workers: int = 8  # there are
    lost: int = 4  # of them, drawn anew each time
    stores: tuple[str, ...] = ()  # lost beside them
    at_s: tuple[float, ...] = (9000.0, 24_000.0)
    for_s: float = 2400.0


def schedule(losses: Losses, seed: int) -> list[Change]:
    """The changes in order of time; the same for the same seed. Raises: PochadeError, Unknown."""
    if unknown := [name for name in losses.stores if name not in STORES]:
        raise Unknown("store", unknown[0], STORES)
    if not 0 <= losses.lost <= losses.workers or not (losses.lost or losses.stores):
        raise PochadeError(f"--lose must be 1 to the {losses.workers} workers, or 0 with a --store: got {losses.lost}")
    moments = sorted(losses.at_s)
    if not moments or moments[0] < 0 or not losses.for_s > 0:
        raise PochadeError(f"--at must be 0 or later and --for above 0: got {moments} and {losses.for_s:g} s")
    if any(after < before + losses.for_s for before, after in itertools.pairwise(moments)):
        raise PochadeError(f"an outage of {losses.for_s:g} s must end before the next: got {moments} s")
    dice = np.random.default_rng(seed)
    changes = []
    for at_s in moments:
        lost = sorted(dice.choice(losses.workers, losses.lost, replace=False).tolist()) if losses.lost else []
        named = [*map(str, lost), *losses.stores]
        changes += [Change(at_s, who, False) for who in named]
        changes += [Change(at_s + losses.for_s, who, True) for who in named]
    return changes


def lines(changes: Sequence[Change]) -> list[str]:
    """Return the lines of the schedule's file."""
    rows = (f"{change.at_s:.15g},{change.who},{'up' if change.is_up else 'down'}" for change in changes)
    return [",".join(COLUMNS), *rows]
