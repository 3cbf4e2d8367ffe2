"""The engines that a variant, or the setting `worker.engine`, may name; `agents/engines/README.md` says what one is."""

from collections.abc import Callable
from typing import Any, Final

from schemas.extensions import Table

CHAOS: Final = "chaos"  # breaks by prompts that ask for it: a worker's setting in tests, and in no catalog
ENGINES: Final = Table[Callable[..., Any]](
    "engine",
    "pochade.engines",
    {
        "diffusers": "agents.engines.diffusers_engine:load",
        "openai": "agents.engines.openai:load",
        "profile": "agents.engines.profile:load",
        CHAOS: "agents.engines.chaos:load",
    },
)
