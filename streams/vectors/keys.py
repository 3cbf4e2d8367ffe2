"""The encoders of prompts that there are: the digest and the dimension of each, without loading a model.

The digest covers whatever decides an encoder's vectors, and is part of its collection's name.
"""

import hashlib
import pathlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from schemas.errors import PochadeError, Unknown
from streams.shipped import INFRA

SCORER: Final = INFRA / "models" / "scorer"
SCORER_DIMENSION: Final = 96
WORDS_DIMENSION: Final = 128
WORDS_DIGEST: Final = f"words-{WORDS_DIMENSION}-1"
DEFAULT: Final = "scorer"


class Encoder(NamedTuple):
    """An encoder of prompts as its collection knows it."""

    dimension: int  # of its vectors
    digest: Callable[[], str]  # raises PochadeError: its files are missing


# Their names are LIVE_KEYS of planner/reuse/terms.py, by which plans are checked.
ENCODERS: Final[Mapping[str, Encoder]] = {
    "scorer": Encoder(SCORER_DIMENSION, lambda: digest_of_folder(SCORER)),
    "words": Encoder(WORDS_DIMENSION, lambda: WORDS_DIGEST),
}


def encoder(name: str) -> Encoder:
    """Return the encoder that a plan names; "": the default one. Raises Unknown."""
    if (name or DEFAULT) not in ENCODERS:
        raise Unknown("encoder of prompts", name, ENCODERS)
    return ENCODERS[name or DEFAULT]


def digest_of(name: str) -> str:
    """Return the digest of an encoder. Raises Unknown, and PochadeError: its files are missing."""
    return encoder(name).digest()


def digest_of_folder(folder: pathlib.Path) -> str:
    """Return a digest of the files that an encoder is read from. Raises PochadeError: one is missing."""
    digest = hashlib.sha256()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        try:
            digest.update(f"{name}\0".encode() + (folder / name).read_bytes())
        except OSError as error:
            raise PochadeError(f"{folder} holds no {name}: train the scorer, or name another encoder") from error
    return digest.hexdigest()[:16]
