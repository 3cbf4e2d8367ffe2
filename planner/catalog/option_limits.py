"""The limits of the options that a request may state, whatever variant generates it. `pochade submit` checks them, too.

Commands load this module in a moment: it imports neither catalogs nor numpy.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from schemas.errors import InvalidRequest
from schemas.messages import TIERS, GenerateOptions
from schemas.option_fields import Declared, options_of


class Quality(NamedTuple):
    """The meaning of a word for the quality, among the levels that honour a request's other options.

    A model that names a variant goes before the word. What is done instead of the word is in `overridden`: another
    level, "quality: high -> light", or an image of `medium` that is kept unjudged, "quality: medium -> low".
    """

    level: str  # CHEAPEST | BEST | ANY
    escalates: bool  # an image that is judged too poor goes on to the next level
    unjudged: str = ""  # the word for what is done where the image is not judged; "": it asks for no judgement


CHEAPEST, BEST, ANY = "cheapest", "best", "any"
QUALITIES: Final[Mapping[str, Quality]] = {
    "low": Quality(CHEAPEST, False),
    "medium": Quality(CHEAPEST, True, "low"),
    "high": Quality(BEST, True),
    "auto": Quality(ANY, True),
}


def quality_named(word: str) -> Quality:
    """Return what a word asks for; one that is not known asks for nothing, and is refused by `check_options`."""
    return QUALITIES.get(word, QUALITIES["auto"])


MAX_ID = 200  # characters, of a tenant's name too
BATCH_TIER = "batch"
AS_IT_IS: Final = GenerateOptions()
OPTIONS: Final = options_of(GenerateOptions)
LIMITED: Final = tuple(
    each
    for each in OPTIONS.items()
    if (each[1].about.words or each[1].numbers or each[1].about.longest) and each[0] != "n"  # a setting limits it
)
values_of_limited = operator.attrgetter(*(name for name, _ in LIMITED))
NEEDING: Final = tuple((name, each.default, each.about.needs) for name, each in OPTIONS.items() if each.about.needs)
BESIDE_A_PROMISE: Final = (
    "n",
    "model",
    "strict",
    "reuse",
    "quality_at_least",
)  # images are alike by any
CHANGING: Final = tuple((name, each.default) for name, each in OPTIONS.items() if name not in BESIDE_A_PROMISE)
MAX_IMAGES: Final = 1024  # of one request, whatever a deployment allows
MAX_ADAPTERS = 6  # of one request; the largest number in a month of a public service's requests
MAX_CONTROLS = 4  # of one request


def is_as_measured(options: GenerateOptions) -> bool:
    """Whether an image is generated as the images of its level that were judged: by the level's own options."""
    return options is AS_IT_IS or all(getattr(options, name) == default for name, default in CHANGING)


class OptionValues(Protocol):
    """The part of a request that `check_options` reads; `GenerateRequest` satisfies it."""

    @property
    def request_id(self) -> str:
        """Id of the request, for the message."""

    @property
    def quality(self) -> str:
        """The requested quality, one of QUALITIES."""

    @property
    def tier(self) -> str:
        """The request's tier, one of TIERS."""

    @property
    def options(self) -> GenerateOptions:
        """The requested options of the images."""


def check_options(request: OptionValues, max_images: int) -> None:
    """Raise InvalidRequest for options that no variant could honour: out of range or misspelt."""
    options, who = request.options, f"(request {request.request_id})"
    _one_of("quality", request.quality, tuple(QUALITIES), who)
    _one_of("tier", request.tier, TIERS, who)
    if options == AS_IT_IS:
        return
    if not 1 <= options.n <= max_images:
        raise InvalidRequest(f"n must be from 1 to {max_images}: got {options.n} {who}", field="n")
    for (name, declared), value in zip(LIMITED, values_of_limited(options), strict=True):
        if value != declared.default:
            _check_value(name, value, declared, who)
    if options.quality_at_least is not None and not is_as_measured(options):
        stated = next(name for name, default in CHANGING if getattr(options, name) != default)
        fault = f"quality_at_least must come without {stated}, with which no images were measured: leave out one {who}"
        raise InvalidRequest(fault, field="quality_at_least")
    if options.adapters or options.adapter_weights:
        _check_names("adapters", options.adapters, MAX_ADAPTERS, who)
        _as_many("adapter_weights", options.adapter_weights, "adapters", options.adapters, who)
    if options.controls or options.control_images or options.control_weights:
        _check_controls(options, who)
    for name, default, needed in NEEDING:
        value = getattr(options, name)
        if value != default and getattr(options, needed) == OPTIONS[needed].default:
            fault = f"{name} must come with {needed}: got {value!s:.40} without one {who}"
            raise InvalidRequest(fault, field=name)


def _check_value(name: str, value: Any, declared: Declared, who: str) -> None:
    """Hold a value that is stated against the limits of its declaration, and each item of a list."""
    about = declared.about
    if about.words:
        _one_of(name, value, ("", *about.words), who)
    items = value if declared.is_list else (value,)
    if about.longest and (most := max(map(len, items), default=0)) > about.longest:
        limit = f"{name} must have at most {about.longest} characters"
        raise InvalidRequest(f"{limit}: got {most}; shorten it {who}", field=name)
    if declared.numbers is None:
        return
    for number in items:
        if not about.has(number):
            raise InvalidRequest(f"{name} must be {about.span}: got {number} {who}", field=name)
        if about.multiple_of > 1 and number % about.multiple_of:
            unit = f" {about.unit}" if about.unit else ""
            fault = f"{name} must be a multiple of {about.multiple_of}{unit}: got {number} {who}"
            raise InvalidRequest(fault, field=name)


def _check_controls(options: GenerateOptions, who: str) -> None:
    _check_names("controls", options.controls, MAX_CONTROLS, who)
    if len(options.control_images) != len(options.controls) or not all(options.control_images):
        got = f"got {len([uri for uri in options.control_images if uri])} for {len(options.controls)}"
        fault = f"control_images must name one image for each of controls: {got} {who}"
        raise InvalidRequest(fault, field="control_images", command="`pochade put FILE` prints the URI of one")
    _as_many("control_weights", options.control_weights, "controls", options.controls, who)


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
