"""The digest of a component's weight files, by which what lies there is held against the catalog at loading."""

import hashlib
import pathlib


def weight_files(source: pathlib.Path) -> list[pathlib.Path]:
    """Return the .safetensors files of a folder, or the file itself, by name."""
    return [source] if source.is_file() else sorted(source.rglob("*.safetensors"))


def digest_of_files(source: pathlib.Path) -> tuple[str, int]:
    """Return the sha-256 and the bytes of a component's weight files.

    That of a single file is the file's own; that of several is one of the lines "NAME SHA256", by name.
    """
    files = weight_files(source)
    found = [(file.relative_to(source).as_posix() if len(files) > 1 else "", _sha256(file)) for file in files]
    size = sum(file.stat().st_size for file in files)
    if len(found) == 1:
        return found[0][1], size
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in found).encode()).hexdigest(), size


def _sha256(file: pathlib.Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
