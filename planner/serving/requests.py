"""Protocols of requests as the roles' logic reads them; the live messages and the simulator's jobs satisfy both."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from planner.catalog.option_limits import OptionValues

OPEN_MS = 3_600_000  # an older one may have lost its job, as to a topic's retention: it is admitted anew


class RequestValues(OptionValues, Protocol):
    """Protocol of a client's request; `schemas.messages.GenerateRequest` is the live one."""

    @property
    def tenant(self) -> str:
        """Name of the tenant that sent the request."""

    @property
    def deadline_ms(self) -> float | None:
        """Time at which the answer is due, in ms on the clock of `now_ms`; None: no deadline."""


class ClassifiedValues(Protocol):
    """Protocol of a classified request; `schemas.messages.ClassifiedRequest` is the live one."""

    @property
    def request(self) -> RequestValues:
        """The client's request."""

    @property
    def received_ms(self) -> float:
        """Time of the request's record on `prompts`, in ms on the clock of `now_ms`."""

    @property
    def hardness(self) -> float:
        """Difficulty of the prompt in [0, 1]."""

    @property
    def classes(self) -> Mapping[str, str]:
        """Strategy -> the level believed optimal for the prompt."""


class Work(NamedTuple):
    """The demand of a request on its tenant's rights."""

    request_id: str
    tenant: str
    images: int
    ms: float  # predicted
