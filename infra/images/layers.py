"""Writes layers of an image, the same bytes for the same files: `python layers.py FOLDER FILE.tar.gz`.

Needs only the standard library: the image's own Python runs it, so that zlib is the locked one too.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import stat
import tarfile
from typing import IO, NamedTuple

MADE_S = 315_532_800  # 1980-01-01, of every file; zip files know nothing earlier
USER = 65532  # owns what may be written; root owns the rest
STICKY = 0o1777


class Layer(NamedTuple):
    """One layer, as an image's manifest and config name it."""

    digest: str  # SHA-256 of the compressed file
    diff_id: str  # SHA-256 of the tar in it
    compressed_bytes: int
    file_bytes: int  # of all regular files


class _Hashed(io.RawIOBase):
    """Passes on what is written, and hashes it."""

    def __init__(self, to: "IO[bytes] | gzip.GzipFile") -> None:
        self.to, self.hash, self.bytes = to, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.hash.update(data)
        self.bytes += len(data)
        self.to.write(data)
        return len(data)


def write_layer(folder: pathlib.Path, file: pathlib.Path, level: int = 6, users: frozenset[str] = frozenset()) -> Layer:
    """Write what is below `folder` as a gzipped tar. `users`: paths below it that `USER` owns.

    Sorted by name; owners and times are fixed; of the mode remain whether it is executable, and the sticky bit.
    """
    size = 0
    with file.open("wb") as raw:
        outer = _Hashed(raw)
        packed = gzip.GzipFile("", "wb", level, outer, mtime=0)
        inner = _Hashed(packed)
        with tarfile.open(fileobj=inner, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(folder.rglob("*"), key=lambda each: each.relative_to(folder).as_posix()):
                entry = _entry(path, path.relative_to(folder).as_posix(), users)
                size += entry.size
                if entry.isreg():
                    with path.open("rb") as data:
                        tar.addfile(entry, data)
                else:
                    tar.addfile(entry)
        packed.close()
    return Layer(f"sha256:{outer.hash.hexdigest()}", f"sha256:{inner.hash.hexdigest()}", outer.bytes, size)


def _entry(path: pathlib.Path, name: str, users: frozenset[str]) -> tarfile.TarInfo:
    """The header of one file, folder or symbolic link; there are no hard links, devices or whiteouts."""
    entry, mode = tarfile.TarInfo(name), path.lstat().st_mode
    entry.mtime = MADE_S
    entry.uid = entry.gid = USER if name in users else 0
    if stat.S_ISLNK(mode):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
    elif stat.S_ISDIR(mode):
        entry.type, entry.mode = tarfile.DIRTYPE, STICKY if mode & stat.S_ISVTX else 0o755
    elif stat.S_ISREG(mode) and not path.name.startswith(".wh."):
        entry.size, entry.mode = path.lstat().st_size, 0o755 if mode & stat.S_IXUSR else 0o644
    else:
        raise ValueError(f"{path} is no file, folder or link that a layer may have")
    return entry


def main() -> None:
    """Write one layer, and its figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--level", type=int, default=6)
    parser.add_argument("--user", action="append", default=[])
    asked = parser.parse_args()
    print(json.dumps(write_layer(asked.folder, asked.file, asked.level, frozenset(asked.user))._asdict()))


if __name__ == "__main__":
    main()
