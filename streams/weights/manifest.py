"""The list of a component's files with their sizes and sha-256, and the digest of all of them.

The list lies beside the files as `component.json`. The digest is the sha-256 of what `sha256sum` prints for the
files in order of their paths, so that who knows the digest can trust a list from anywhere, and by the list each file.
"""

import hashlib
import json
import pathlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from schemas.errors import PochadeError
from streams.parsing.closed import Source, parsed_json, read
from streams.weights.errors import DamagedWeights

NAME: Final = "component.json"
MAX_BYTES: Final = 4 << 20  # of a list
_HEX: Final = frozenset("0123456789abcdef")


class InvalidManifest(PochadeError):
    """A list of files that cannot be used: what, the value, the limit and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentFile:
    """One file of a component. Raises InvalidManifest for a path that leads out of its folder, or no sha-256."""

    path: str  # relative, with slashes
    bytes: int
    sha256: str  # 64 hex digits

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if not all(parts) or {".", ".."} & set(parts) or "\\" in self.path or "\0" in self.path or self.path == NAME:
            raise InvalidManifest(f"path of a component's file must lie in its folder: got {self.path!r}; correct it")
        if self.bytes < 0:
            raise InvalidManifest(
                f"bytes of {self.path} must be 0 or more: got {self.bytes}; describe the folder again"
            )
        if not is_sha256(self.sha256):
            raise InvalidManifest(
                f"sha256 of {self.path} must be 64 hex digits: got {self.sha256!r:.100}; describe it again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of one component, in order of their paths. Raises InvalidManifest for none, or a path that repeats."""

    component: str  # such as base:poster
    files: tuple[ComponentFile, ...]

    def __post_init__(self) -> None:
        paths = [file.path for file in self.files]
        if not paths or paths != sorted(set(paths)):
            raise InvalidManifest(
                f"files of component {self.component!r} must be one or more, in order, all different: got "
                f"{paths!r:.200}"
            )

    @property
    def bytes(self) -> int:
        """Size of all files in bytes."""
        return sum(file.bytes for file in self.files)

    @property
    def digest(self) -> str:
        """The sha-256 of the files' sha-256 and paths, 64 hex digits."""
        lines = "".join(f"{file.sha256}  {file.path}\n" for file in self.files)
        return hashlib.sha256(lines.encode()).hexdigest()

    def as_json(self) -> str:
        """Return the text of `component.json`."""
        return json.dumps(asdict(self), indent=1) + "\n"


def is_sha256(text: str) -> bool:
    """Whether a text is 64 lower-case hex digits."""
    return len(text) == 64 and set(text) <= _HEX


def parse(text: str, where: str, digest: str = "") -> Manifest:
    """Read a list of files from its text.

    Raises:
        InvalidManifest, Unknown: the text is no such list.
        DamagedWeights: the list has another digest than the one that was asked for.
    """
    source = Source(where, "publish the component again", InvalidManifest)
    found = read(Manifest, parsed_json(text, source), source)
    if digest and found.digest != digest:
        raise DamagedWeights(
            f"{where} lists files with digest {found.digest}, wanted is {digest}: the component was changed; "
            "publish it again, or correct the digest in the catalog"
        )
    return found


def describe(component: str, source: pathlib.Path) -> Manifest:
    """Return the list of the files in a folder, or of one file, read whole; hidden files and an old list are left out.

    Raises:
        InvalidManifest: there are none.
        OSError: a file cannot be read.
    """
    if source.is_file():
        return Manifest(component=component, files=tuple(_described(source.parent, [source.name])))
    return Manifest(component=component, files=tuple(_described(source, sorted(_paths(source)))))


def _paths(folder: pathlib.Path) -> Iterable[str]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != NAME and not any(part.startswith(".") for part in name.split("/")):
            yield name


def _described(folder: pathlib.Path, paths: Iterable[str]) -> Iterable[ComponentFile]:
    for path in paths:
        with (folder / path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield ComponentFile(path=path, bytes=file.tell(), sha256=digest)
