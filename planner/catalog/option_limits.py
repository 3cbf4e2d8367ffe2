"""The limits of the options that a request may state, whatever variant generates it. `pochade submit` checks them, too.

Commands load this module in a moment: it imports neither catalogs nor numpy.
"""

from typing import Protocol

from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions

QUALITIES = ("low", "medium", "high", "auto")
CONSENTS = ("", "off", "own")  # to reuse: unsaid, none, from images of its own tenant
TIERS = ("interactive", "standard", "batch")
MAX_STEPS = 200
MAX_PIXELS = 4096  # a side
MAX_IMAGES = 1024  # of one request, whatever a deployment allows


class OptionValues(Protocol):
    """The part of a request that `check_options` reads; `GenerateRequest` satisfies it."""

    @property
    def request_id(self) -> str:
        """Id of the request, for the message."""
        ...

    @property
    def quality(self) -> str:
        """The requested quality, one of QUALITIES."""
        ...

    @property
    def tier(self) -> str:
        """The request's tier, one of TIERS."""
        ...

    @property
    def options(self) -> GenerateOptions:
        """The requested options of the images."""
        ...


def check_options(request: OptionValues, max_images: int) -> None:
    """Raise InvalidRequest for options that no variant could honour: out of range or misspelt."""
    options, who = request.options, f"(request {request.request_id})"
    _one_of("quality", request.quality, QUALITIES, who)
    _one_of("tier", request.tier, TIERS, who)
    _one_of("reuse", options.reuse, CONSENTS, who)
    _in_range("n", options.n, 1, max_images, who)
    _in_range("steps", options.steps, 1, MAX_STEPS, who)
    _in_range("guidance", options.guidance, 0, 50, who)
    for name, side in (("width", options.width), ("height", options.height)):
        _in_range(name, side, 8, MAX_PIXELS, who)
        if side is not None and side % 8:
            raise InvalidRequest(f"{name} must be a multiple of 8 px: got {side} {who}")


def _one_of(name: str, value: str, known: tuple[str, ...], who: str) -> None:
    if value not in known:
        raise InvalidRequest(f"{name} must be one of {', '.join(known)}: got {value!r:.80} {who}")


def _in_range(name: str, value: float | None, low: float, high: float, who: str) -> None:
    if value is not None and not low <= value <= high:
        raise InvalidRequest(f"{name} must be from {low:g} to {high:g}: got {value} {who}")
