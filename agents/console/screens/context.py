"""What a screen is given: the view, the moment, and what its address asks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.console.view.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a screen is made from."""

    view: View
    now_ms: int
    silent_ms: int  # a worker unheard of for longer is silent
    query: Mapping[str, str]
    address: Callable[[str], str]  # URI of a stored image -> its address here
