"""Decisions on a request other than its placement, as values that need no catalog."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from schemas.messages import GenerateOptions, Status

INVALID = "invalid"  # what was sent cannot be read, or not be served
DEADLINE = "deadline"
SHED = "shed"
UNHONOURED = "unhonoured"
OVERLOADED = "overloaded"
QUOTA = "quota"
STARTING = "starting"
LACKED_CAPACITY = frozenset({OVERLOADED, SHED, STARTING})  # codes of the rejections that more workers would have spared
POISON = "poison"
MAX_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Rejection:
    """The decision to end the request, with its status and the reason."""

    status: Status  # REJECTED | EXPIRED
    code: str  # machine-readable
    reason: str
    retry_after_ms: int | None = None
    param: str = ""  # field of the request that is at fault; "": none, or several


class Ignored(NamedTuple):
    """The decision to do nothing for a record, and why."""

    why: str


ENDED = Ignored("the request has a result")
IN_FLIGHT = Ignored("the request has its job")


def draft_counts(options: GenerateOptions) -> bool:
    """Whether a rejected draft is the answer where what replaces it cannot come: not where a quality is promised."""
    return options.quality_at_least is None


def scores_in_words(*values: float, digits: int = 2) -> list[str]:
    """Return numbers in [0, 1] with at least `digits` digits, and more if needed to differ in text, also from 0 and 1.

    .998 is not written as 1.00: a threshold of 1 would keep nothing.
    """
    apart = {*values, 0.0, 1.0}
    while digits < MAX_DIGITS and len({f"{value:.{digits}f}" for value in apart}) < len(apart):
        digits += 1
    return [f"{value:.{digits}f}" for value in values]
