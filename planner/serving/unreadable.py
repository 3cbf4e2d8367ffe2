"""Decides on a stored image that is missing, not readable yet, or damaged, while its request has no result.

    age of the image, and what its deadline leaves     | then
    below REREAD_MS, and no more than that is left  | it is read again, after `pause_ms`
    older, and its job was sent once                    | its job is generated again, elsewhere if that can be
    older, and its job was sent back before             | the request ends FAILED

A store that is away says nothing of its images, and is waited for as long as it takes (`backoff.py`). Once a request
has a result, nothing is generated again.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

REREAD_MS: Final = 60_000.0
SENDS: Final = 2  # of a job, the first one included
MIN_PAUSE_MS: Final = 100.0
MAX_PAUSE_MS: Final = 2000.0


class Then(Enum):
    """The decision on an image that cannot be read."""

    READ_AGAIN = "image-read-again"
    SEND_BACK = "image-sent-back"
    FAIL = "image-given-up"


def is_young(age_ms: float) -> bool:
    """Whether an image may still become readable, `age_ms` after it was stored.

    A time of storage in the future, by a clock that is ahead, ages as one in the past does.
    """
    return abs(age_ms) < REREAD_MS


def then(age_ms: float, deadline_left_ms: float, sends: int, max_attempts: int) -> Then:
    """Return what becomes of an image that cannot be read, `age_ms` after it was stored.

    `deadline_left_ms`: infinite without a deadline; half of it is left for generating again. `sends`: number of times
    that its job was sent.
    """
    if is_young(age_ms) and age_ms <= deadline_left_ms:
        return Then.READ_AGAIN
    return Then.SEND_BACK if sends < min(SENDS, max_attempts) else Then.FAIL


def pause_ms(age_ms: float) -> float:
    """Return the pause before an image of this age is read again: some 60 reads in REREAD_MS."""
    return min(MAX_PAUSE_MS, max(MIN_PAUSE_MS, age_ms / 10))


def elsewhere(workers: Sequence[str], free_ms: Sequence[float], not_on: str) -> int | None:
    """Return the place of the worker that is free first, of any but `not_on` if there is one; None if there is none."""
    places = range(len(workers))
    return min(places, key=lambda place: (workers[place] == not_on, free_ms[place]), default=None)
