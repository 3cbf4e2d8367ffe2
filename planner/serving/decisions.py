"""Decisions on a request other than its placement, as values that need no catalog."""

from dataclasses import dataclass
from typing import NamedTuple

from schemas.messages import Status

DEADLINE = "deadline"
SHED = "shed"
UNHONOURED = "unhonoured"
OVERLOADED = "overloaded"
QUOTA = "quota"
STARTING = "starting"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The decision to end the request, with its status and the reason."""

    status: Status  # REJECTED | EXPIRED
    code: str  # machine-readable
    reason: str
    retry_after_ms: int | None = None


class Ignored(NamedTuple):
    """The decision to do nothing for a record, and why."""

    why: str


ENDED = Ignored("the request has a result")
IN_FLIGHT = Ignored("the request has its job")
