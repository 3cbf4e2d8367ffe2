"""Client of a Pochade deployment: text-to-image serving on Apache Kafka. Nothing is contacted before the first call."""

from typing import TYPE_CHECKING

from pochade.clients import AsyncClient, AsyncHandle, Client, Handle
from pochade.gateway import Gateway
from pochade.requests import Options
from pochade.values import (
    Cancelled,
    Completed,
    End,
    Event,
    Expired,
    Explanation,
    Failed,
    Image,
    NotCompleted,
    NotFound,
    PochadeError,
    Refused,
    Rejected,
    StillOpen,
    Unavailable,
    Unsupported,
)  # fmt: skip

if TYPE_CHECKING:
    from pochade.kafka import Kafka

__all__ = [
    "AsyncClient", "AsyncHandle", "Cancelled", "Client", "Completed", "End", "Event", "Expired", "Explanation",
    "Failed", "Gateway", "Handle", "Image", "Kafka", "NotCompleted", "NotFound", "Options", "PochadeError",
    "Refused", "Rejected", "StillOpen", "Unavailable", "Unsupported",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load what few need, and what takes longest, when it is asked for."""
    if name == "Kafka":
        from pochade.kafka import Kafka

        return Kafka
    if name == "__version__":
        from importlib.metadata import version

        return version("pochade-client")
    raise AttributeError(f"module 'pochade' has no attribute {name!r}")
