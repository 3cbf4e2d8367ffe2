"""The input of a screen: the view, the time, and the query of its address."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.console.view.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The input of a screen."""

    view: View
    now_ms: int
    silent_ms: int  # a worker without a heartbeat for longer is silent
    query: Mapping[str, str]
    address: Callable[[str], str]  # URI of a stored image -> its address here
    is_clear: bool  # prompts are shown, and may be searched
