"""One event loop for what tests await: a loop of its own, and its threads, cost each call milliseconds."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

Returned = TypeVar("Returned")
_RUNNER: Final = asyncio.Runner()


def awaited(coroutine: Coroutine[Any, Any, Returned]) -> Returned:
    """Run a coroutine to its end, and return its result."""
    return _RUNNER.run(coroutine)
