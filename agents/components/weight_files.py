"""The weight files of a component and their digest, by which what lies there is held against the catalog."""

import hashlib
import pathlib
from collections.abc import Mapping

from schemas.errors import PochadeError


class ComponentFailed(PochadeError):
    """A component that cannot be brought to a tier: what is missing or damaged, and what to do."""


def weight_files(source: pathlib.Path) -> list[pathlib.Path]:
    """Return the .safetensors files of a folder, or the file itself, by name."""
    return [source] if source.is_file() else sorted(source.rglob("*.safetensors"))


def digest_of_digests(digests: Mapping[str, str]) -> str:
    """Return the sha-256 of a component by those of its weight files, by path.

    That of a single file is the file's own; that of several is one of the lines "PATH SHA256", by path.
    """
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{path} {digests[path]}\n" for path in sorted(digests, key=pathlib.PurePosixPath))
    return hashlib.sha256(lines.encode()).hexdigest()
