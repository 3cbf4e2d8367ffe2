"""The weight files of a component and their digest, by which what lies there is held against the catalog."""

import contextlib
import hashlib
import json
import os
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


def digest_of(source: pathlib.Path, known_in: pathlib.Path) -> str:
    """Return the sha-256 of the weight files of a folder or of a file; "" if there are none.

    `known_in`: remembers that of each file, so that it is read again only if its size or its time of change is another.
    Raises OSError.
    """
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(known_in.read_text())
    folder, found, read = source.parent if source.is_file() else source, dict[str, str](), dict[str, str]()
    for file in weight_files(source):
        stat = file.stat()
        mark = f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns}"
        if mark not in known:
            with file.open("rb") as opened:
                read[mark] = hashlib.file_digest(opened, "sha256").hexdigest()
        found[file.relative_to(folder).as_posix()] = known.get(mark) or read[mark]
    if read:
        with contextlib.suppress(OSError):  # it is read again at the next start
            known_in.parent.mkdir(parents=True, exist_ok=True)
            part = known_in.with_name(f"{known_in.name}.{os.getpid()}")
            part.write_text(json.dumps(known | read))
            part.replace(known_in)
    return digest_of_digests(found) if found else ""
