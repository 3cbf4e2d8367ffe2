"""The limits of the options that a request may state, whatever variant generates it. `pochade submit` checks them, too.

Commands load this module in a moment: it imports neither catalogs nor numpy.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions


class Quality(NamedTuple):
    """What a word for the quality asks for, among the levels that honour all else that a request states.

    A model that names a variant goes before the word. What is done instead of the word is in `overridden`: another
    level, "quality: high -> light", or an image of `medium` that is kept unjudged, "quality: medium -> low".
    """

    level: str  # CHEAPEST | BEST | ANY
    escalates: bool  # an image that is judged too poor goes on to the next level
    means: str  # for people
    unjudged: str = ""  # the word for what is done where the image is not judged; "": it asks for no judgement


CHEAPEST, BEST, ANY = "cheapest", "best", "any"
QUALITIES: Final[Mapping[str, Quality]] = {
    "low": Quality(CHEAPEST, False, "the cheapest level, whose image is kept"),
    "medium": Quality(CHEAPEST, True, "the cheapest level first, then the next one where the image is too poor", "low"),
    "high": Quality(BEST, True, "the best level"),
    "auto": Quality(ANY, True, "the levels that the plan chooses"),
}


def quality_named(word: str) -> Quality:
    """Return what a word asks for; one that is not known asks for nothing, and is refused by `check_options`."""
    return QUALITIES.get(word, QUALITIES["auto"])


CONSENTS = ("", "off", "own")  # to reuse: unsaid, none, from images of its own tenant
TIERS = ("interactive", "standard", "batch")
BATCH_TIER = "batch"
MAX_STEPS = 200
MAX_PIXELS = 4096  # a side
MAX_IMAGES = 1024  # of one request, whatever a deployment allows
MAX_ADAPTERS = 6  # of one request; the largest number in a month of a public service's requests
MAX_CONTROLS = 4  # of one request
MAX_WEIGHT = 4.0  # of an adapter, in either direction


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
    _one_of("quality", request.quality, tuple(QUALITIES), who)
    _one_of("tier", request.tier, TIERS, who)
    _one_of("reuse", options.reuse, CONSENTS, who)
    _in_range("n", options.n, 1, max_images, who)
    _in_range("steps", options.steps, 1, MAX_STEPS, who)
    _in_range("guidance", options.guidance, 0, 50, who)
    for name, side in (("width", options.width), ("height", options.height)):
        _in_range(name, side, 8, MAX_PIXELS, who)
        if side is not None and side % 8:
            raise InvalidRequest(f"{name} must be a multiple of 8 px: got {side} {who}", field=name)
    if options.adapters or options.adapter_weights:
        _check_adapters(options, who)
    if options.controls or options.control_images or options.control_weights:
        _check_controls(options, who)
    _check_beginning(options, who)


def _check_adapters(options: GenerateOptions, who: str) -> None:
    _check_names("adapters", options.adapters, MAX_ADAPTERS, who)
    _as_many("adapter_weights", options.adapter_weights, "adapters", options.adapters, who)
    for weight in options.adapter_weights:
        _in_range("adapter_weights", weight, -MAX_WEIGHT, MAX_WEIGHT, who)


def _check_controls(options: GenerateOptions, who: str) -> None:
    _check_names("controls", options.controls, MAX_CONTROLS, who)
    if len(options.control_images) != len(options.controls) or not all(options.control_images):
        got = f"got {len([uri for uri in options.control_images if uri])} for {len(options.controls)}"
        fault = f"control_images must name one image for each of controls: {got} {who}"
        raise InvalidRequest(fault, field="control_images", command="`pochade put FILE` prints the URI of one")
    _as_many("control_weights", options.control_weights, "controls", options.controls, who)
    for weight in options.control_weights:
        _in_range("control_weights", weight, 0, MAX_WEIGHT, who)


def _check_beginning(options: GenerateOptions, who: str) -> None:
    """An image to begin with: strength and mask say something about it alone."""
    if options.strength is not None:
        if not 0 < options.strength <= 1:  # which NaN is not either
            fault = f"strength must be above 0 and at most 1: got {options.strength} {who}"
            raise InvalidRequest(fault, field="strength")
        if not options.image:
            fault = f"strength must come with image: got {options.strength} without one {who}"
            raise InvalidRequest(fault, field="strength")
    if options.mask and not options.image:
        raise InvalidRequest(f"mask must come with image: got {options.mask:.40} without one {who}", field="mask")


def _check_names(name: str, values: Sequence[str], most: int, who: str) -> None:
    if len(values) > most:
        raise InvalidRequest(f"{name} must be at most {most}: got {len(values)} {who}", field=name)
    if not all(values) or len(set(values)) < len(values):
        got = ", ".join(map(repr, values))
        raise InvalidRequest(f"{name} must be named, each once: got {got:.200} {who}", field=name)


def _as_many(name: str, values: Sequence[float], of: str, named: Sequence[str], who: str) -> None:
    if values and len(values) != len(named):
        got = f"got {len(values)} for {len(named)}"
        raise InvalidRequest(f"{name} must be as many as {of}, or none: {got} {who}", field=name)


def _one_of(name: str, value: str, known: tuple[str, ...], who: str) -> None:
    if value not in known:
        raise InvalidRequest(f"{name} must be one of {', '.join(known)}: got {value!r:.80} {who}", field=name)


def _in_range(name: str, value: float | None, low: float, high: float, who: str) -> None:
    if value is not None and not low <= value <= high:
        raise InvalidRequest(f"{name} must be from {low:g} to {high:g}: got {value} {who}", field=name)
