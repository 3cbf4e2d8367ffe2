"""What roles decide on a request besides placing it, as values that need no catalog."""

from dataclasses import dataclass
from typing import NamedTuple

from schemas.messages import Status

DEADLINE = "deadline"
SHED = "shed"
UNHONOURED = "unhonoured"
OVERLOADED = "overloaded"
QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The request ends here."""

    status: Status  # REJECTED | EXPIRED
    code: str  # machine-readable
    reason: str
    retry_after_ms: int | None = None


class Ignored(NamedTuple):
    """Nothing is to be done for the record."""

    why: str


ENDED = Ignored("the request has a result")
IN_FLIGHT = Ignored("the request has its job")
