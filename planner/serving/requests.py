"""What the logic of the roles reads of a request. The live messages and the simulator's jobs both have it."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from planner.catalog.options import OptionValues


class RequestValues(OptionValues, Protocol):
    """What a client asked for; `schemas.messages.GenerateRequest` is the live one."""

    @property
    def tenant(self) -> str:
        """Name of the tenant that sent the request."""
        ...

    @property
    def deadline_ms(self) -> float | None:
        """When the answer is due, ms on the clock of `now_ms`; None: no deadline."""
        ...


class ClassifiedValues(Protocol):
    """A request and what its prompt tells; `schemas.messages.ClassifiedRequest` is the live one."""

    @property
    def request(self) -> RequestValues:
        """What the client asked for."""
        ...

    @property
    def hardness(self) -> float:
        """Difficulty of the prompt in [0, 1]."""
        ...

    @property
    def classes(self) -> Mapping[str, str]:
        """Strategy -> the level believed optimal for the prompt."""
        ...


class Work(NamedTuple):
    """What a request asks for on behalf of its tenant."""

    request_id: str
    tenant: str
    images: int
    ms: float  # predicted
