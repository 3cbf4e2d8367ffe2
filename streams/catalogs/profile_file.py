"""A catalog's profile as it lies in its two files, which `pochade profile` writes."""

import pathlib
import zipfile
from typing import TYPE_CHECKING, NamedTuple

from schemas.errors import PochadeError
from streams.catalogs.catalog_file import file_of
from streams.catalogs.shipped import INFRA

if TYPE_CHECKING:
    import numpy as np


class ProfileFiles(NamedTuple):
    """What they hold; `planner` knows what it means."""

    file: str  # of the text, for messages
    text: str  # NAME.json
    arrays: "dict[str, np.ndarray]"  # NAME-quality.npz; {}: there is none


def find(name: str) -> ProfileFiles | None:
    """The profile of a shipped catalog (a name), or NAME.json beside the user's NAME.toml; None where there is none.

    Raises Unknown for a name that none ships by, PochadeError for files that cannot be read.
    """
    catalog = file_of(name)
    folder = INFRA / "profiles" if catalog.parent == INFRA / "catalogs" else catalog.parent
    file = folder / f"{catalog.stem}.json"
    return read(file) if file.is_file() else None


def read(file: pathlib.Path) -> ProfileFiles:
    """NAME.json with what lies beside it. Raises PochadeError for files that cannot be read."""
    try:
        return ProfileFiles(str(file), file.read_text(), _arrays(file.with_name(f"{file.stem}-quality.npz")))
    except (OSError, UnicodeDecodeError, ValueError, zipfile.BadZipFile) as error:
        raise PochadeError(f"profile {file} cannot be read: {error}; measure again with `pochade profile`") from None


def _arrays(file: pathlib.Path) -> "dict[str, np.ndarray]":
    import numpy as np

    if not file.is_file():
        return {}
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)
