"""The files that DiffServe's and HADIS's authors published, in a folder that the user names."""

import gzip
import pathlib
import zlib
from collections.abc import Mapping

from schemas.errors import PochadeError

GZIP_MAGIC = b"\x1f\x8b"


def text_of(folder: pathlib.Path, name: str) -> tuple[str, str]:
    """(text, file as messages call it) of FOLDER/name, or of FOLDER/name.gz where that is there instead.

    Raises PochadeError: neither is there, or it is no text.
    """
    file = next((f for f in (folder / name, folder / f"{name}.gz") if f.is_file()), None)
    if file is None:
        there = ", ".join(sorted(f.name for f in folder.glob("*.csv*"))) if folder.is_dir() else "no such folder"
        raise PochadeError(f"no {name} or {name}.gz in {folder}: there is {there or 'no CSV file'}")
    try:
        data = file.read_bytes()
        return (gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data).decode("utf-8-sig"), str(file)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise PochadeError(f"{file} cannot be read as text, plain or gzip: {error}") from error


def texts_of(folder: pathlib.Path, names: Mapping[str, str], catalog: str) -> dict[str, tuple[str, str]]:
    """kind -> `text_of` its file, for all that a catalog's `published` names. Raises PochadeError, as for no name."""
    if not names:
        raise PochadeError(
            f"catalog {catalog!r} names no published files to take from {folder}: "
            "leave --published and the setting `published` out, or name them under [published]"
        )
    return {kind: text_of(folder, name) for kind, name in names.items()}
