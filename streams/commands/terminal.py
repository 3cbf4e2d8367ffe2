"""The terminal's console, on which names and prompts stand as they are written."""

from typing import Any

from rich.console import Console


def console(**options: Any) -> Console:
    """Open a console that takes no `:name:` for an emoji: `adapter:candy: device` names an adapter."""
    return Console(emoji=False, **options)
