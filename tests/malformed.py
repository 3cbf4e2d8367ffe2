"""What nobody should write to a topic: spoilt bytes, and whole messages of ours with a value that makes no sense."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from schemas.avro import Message
from schemas.errors import PochadeError
from streams.codec.avro import encode
from tests.schemas.examples import EXAMPLE_OF

Path = tuple[int | str, ...]  # to one value in a message: names of fields, places in tuples, keys of dicts

EXAMPLES: dict[type[Any], Any] = {type(message): message for message in EXAMPLE_OF.values()}  # the fullest of each
MOST = int(os.environ.get("FUZZ_EXAMPLES", 0))  # examples a test, for those who wait
MEGABYTE = 980_000  # characters: about as many as a topic takes
DEEP = "[" * 100_000
YEAR_1_MS, YEAR_9999_MS = -62_135_596_800_000, 253_402_300_799_999


def fuzz(examples: int) -> settings:
    """So many examples, the same in each run; more with FUZZ_EXAMPLES."""
    known = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=MOST or examples, derandomize=not MOST, suppress_health_check=known, database=None)


INTEGERS = st.sampled_from((0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), YEAR_1_MS, YEAR_9999_MS, YEAR_9999_MS + 1))
FLOATS = st.sampled_from((0.0, -1.0, 1.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")))
TEXTS = st.sampled_from(
    ("", " ", "\0", "é" * 300, "../../../etc/passwd", "/", "file:///etc/passwd", "light", "NaN", "{}", "\u2028\r\n",
     "x" * 300, "9" * 5000, DEEP)
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS | st.just(10**400) | st.just(2**63),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


T = TypeVar("T")


def reported(call: Callable[[], T]) -> T | PochadeError:
    """What it gives, or the error of ours that it raises."""
    try:
        return call()
    except PochadeError as error:
        return error


def absurd(value: Any) -> st.SearchStrategy[Any]:
    """Another value of the same type, that makes no sense."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int):
        return INTEGERS
    if isinstance(value, float):
        return FLOATS
    if isinstance(value, bytes):
        return TEXTS.map(str.encode)
    return TEXTS


def leaves(value: Any, at: Path = ()) -> Iterator[Path]:
    """Where the single values of a message are."""
    if dataclasses.is_dataclass(value):
        parts = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif isinstance(value, (tuple, dict)):
        parts = list(value.items() if isinstance(value, dict) else enumerate(value))
    else:
        parts = []
        if value is not None and type(value).__name__ != "Status":  # an unknown status is no message
            yield at
    for name, part in parts:
        yield from leaves(part, (*at, name))


def at(value: Any, path: Path) -> Any:
    """What lies there."""
    for name in path:
        value = getattr(value, name) if isinstance(name, str) and not isinstance(value, dict) else value[name]
    return value


def changed(value: Any, path: Path, new: Any) -> Any:
    """The same message with another value there."""
    if not path:
        return new
    name, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, name: changed(value[name], rest, new)}
    if isinstance(value, tuple):
        return tuple(changed(each, rest, new) if place == name else each for place, each in enumerate(value))
    return dataclasses.replace(value, **{str(name): changed(getattr(value, str(name)), rest, new)})


@st.composite
def senseless(draw: st.DrawFn, message: Any) -> Any:
    """A message of ours with one to three values that make no sense."""
    for path in draw(st.lists(st.sampled_from(list(leaves(message))), min_size=1, max_size=3)):
        message = changed(message, path, draw(absurd(at(message, path))))
    return message


def spoilt(message: Message) -> st.SearchStrategy[bytes | None]:
    """Bytes that are no message of this type, or hardly."""
    valid = encode(message)
    others = [encode(other) for kind, other in EXAMPLES.items() if kind is not type(message)]
    cut = st.integers(0, len(valid) - 1).map(lambda length: valid[:length])
    flips = st.lists(st.tuples(st.integers(0, len(valid) - 1), st.integers(1, 255)), min_size=1, max_size=3)
    return st.one_of(
        st.none(), st.binary(max_size=60), cut, flips.map(lambda places: _flipped(valid, places)),
        st.binary(max_size=60).map(lambda junk: valid[:5] + junk), st.binary(min_size=1, max_size=9).map(valid.__add__),
        st.sampled_from(others), st.sampled_from((b"\0", valid[:5] + b"\xff" * 12, b"x" * MEGABYTE, DEEP.encode())),
    )  # fmt: skip


def _flipped(data: bytes, places: list[tuple[int, int]]) -> bytes:
    spoilt = bytearray(data)
    for place, bits in places:
        spoilt[place] ^= bits
    return bytes(spoilt)
