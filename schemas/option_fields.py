"""The declaration of a request's option, from which its limits and all interfaces are made.

The fields of `messages.GenerateOptions` have it as metadata. Read by the checks of requests, `pochade submit`, HTTP
forms, the OpenAPI and AsyncAPI documents, catalogs (`honours`), and `OPTIONS.md`.
"""

import dataclasses
import functools
import typing
from collections.abc import Mapping
from typing import Any, Final

KEY: Final = "option"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Help, limits and use of an option. Limits of a list hold for each of its items."""

    help: str  # sentences, as `pochade submit --help` has them
    low: float | None = None  # of a number, inclusive; stands with `high`
    high: float | None = None  # inclusive
    is_above_low: bool = False  # `low` itself is not allowed
    multiple_of: int = 1
    longest: int = 0  # characters of a text; 0: any number
    words: tuple[str, ...] = ()  # the only values that may be stated; (): any
    unit: str = ""  # for messages, such as px
    placeholder: str = ""  # for its value in help, such as URI; "": that of its type
    honoured: bool = False  # a variant follows it only if its catalog entry lists it in `honours`
    needs: str = ""  # the option without which this one says nothing
    aliases: tuple[str, ...] = ()  # other names of it in JSON and forms; how each is read: `vocabulary.py`

    @property
    def span(self) -> str:
        """The limits in words: "from 1 to 200", "above 0 and at most 1"; "" without any."""
        if self.low is None:
            return ""
        between = ("above {:g} and at most {:g}" if self.is_above_low else "from {:g} to {:g}").format
        return between(self.low, self.high)

    def has(self, value: float) -> bool:
        """Whether a number lies within the limits; NaN does not."""
        if self.low is None or self.high is None:
            return True
        return self.low <= value <= self.high and not (self.is_above_low and value == self.low)


class Declared(typing.NamedTuple):
    """An option with its field's type and default, by which it is read at each door."""

    type: Any
    default: Any
    about: Option
    numbers: type[int] | type[float] | None  # of its value, or of each of its items; None: it is no number
    is_list: bool
    is_text: bool  # one or several texts of any words


def option(default: Any, help: str, **about: Any) -> Any:
    """Return a field of a dataclass that declares an option: its default, its help, and what `Option` has besides."""
    return dataclasses.field(default=default, metadata={KEY: Option(help=help, **about)})


@functools.cache
def options_of(kind: type) -> Mapping[str, Declared]:
    """Name -> option, in the order of a dataclass's fields. Raises TypeError for a limit that no door would check."""
    hints = typing.get_type_hints(kind)
    return {each.name: _declared(hints[each.name], each) for each in dataclasses.fields(kind) if KEY in each.metadata}


def _declared(hint: Any, field: "dataclasses.Field[Any]") -> Declared:
    about, kinds = field.metadata[KEY], {hint, *typing.get_args(hint)}
    numbers = next((each for each in (int, float) if each in kinds), None)
    is_list, is_text = typing.get_origin(hint) is tuple, str in kinds and not about.words
    has_number = about.low is not None or about.multiple_of > 1
    if (about.low is None) != (about.high is None) or (has_number and not numbers):
        raise TypeError(f"option {field.name}: low with high, and multiple_of, limit numbers; longest limits a text")
    if about.longest and not is_text:
        raise TypeError(f"option {field.name}: longest limits texts of any words: got {about.longest}; leave it out")
    return Declared(hint, field.default, about, numbers, is_list, is_text)
