"""Keeps compiled code on the local disk: one file for each identity, which appears whole or not at all.

    compiled/KEY            a line of JSON (identity, bytes, sha-256), and after it a tar of the compiler's folder
    compiled/KEY.partial    a file that is being written; removed by the next writer
    compiled/locks/KEY      held by the process that compiles for an identity, while others wait for it
    compiled/locks/write    held while files are written or removed

Compiled code is run, so a file is used only if this process's user owns it, no other user may write it, its identity
is the requested one, and its bytes have the sha-256 that its first line states.
"""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

from schemas.errors import PochadeError
from streams.locks import try_lock
from streams.store.folder import sync_folder

MAX_HEADER_BYTES: Final = 64 << 10
WRITABLE_BY_OTHERS: Final = 0o022
LOCK_TIMEOUT_S: Final = 600.0  # how long another process may take to compile for the same identity
POLL_S: Final = 0.1

Identity = Mapping[str, Any]  # what code was compiled for, as JSON values


class DamagedCode(PochadeError):
    """A file of compiled code that is broken, truncated or another's; it was removed, and none of it is used."""


class NoRoomForCode(PochadeError):
    """Compiled code that is larger than all code may be together, or than the disk has room for; it is not kept."""


def key_of(identity: Identity) -> str:
    """Return the name of the file of an identity: 64 hex digits."""
    return hashlib.sha256(_as_json(identity).encode()).hexdigest()


class CodeCache:
    """Compiled code in a folder, with a budget in bytes for all files together; any number of processes may share it.

    Where there is no room the files that were used least recently go.
    """

    def __init__(
        self, folder: pathlib.Path, budget_bytes: int, *, lock_timeout_s: float = LOCK_TIMEOUT_S,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:  # fmt: skip
        """Raises OSError where the folder cannot be made."""
        self.folder, self.budget_bytes = folder, budget_bytes
        self._locks, self._lock_timeout_s, self._wait = folder / "locks", lock_timeout_s, wait
        self._locks.mkdir(parents=True, exist_ok=True)

    def path(self, identity: Identity) -> pathlib.Path:
        """Return the file of an identity, whether or not it is there."""
        return self.folder / key_of(identity)

    def used_bytes(self) -> int:
        """Return the bytes of all files of compiled code."""
        return sum(size for _, size, _ in self._files())

    def load(self, identity: Identity, into: pathlib.Path) -> int:
        """Unpack the code of an identity into a folder; return the bytes of its file, 0 where there is none.

        Raises DamagedCode for a file that is not trusted, which is removed; OSError where it cannot be unpacked.
        """
        path = self.path(identity)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        except OSError as error:
            self._refuse(path, f"cannot be opened: {error.strerror}")
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_mode & WRITABLE_BY_OTHERS:
                owner = f"owned by user {found.st_uid}, mode {found.st_mode & 0o777:o}"
                self._refuse(path, f"is {owner}: user {os.geteuid()} alone may write it")
            header, body = _header(file.readline(MAX_HEADER_BYTES)), file.read()
        if header.get("identity") != json.loads(_as_json(identity)):
            self._refuse(path, "states another identity")
        if len(body) != header.get("bytes"):
            self._refuse(path, f"has {len(body)} bytes of code, and states {header.get('bytes')}")
        if hashlib.sha256(body).hexdigest() != header.get("sha256"):
            self._refuse(path, "has another sha-256 than it states")
        try:
            with tarfile.open(fileobj=io.BytesIO(body)) as packed:
                packed.extractall(into, filter="data")  # no path leaves the folder, no link, no device
        except (tarfile.TarError, ValueError) as error:
            self._refuse(path, f"cannot be unpacked: {error}")
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)  # used now
        return found.st_size

    def save(self, identity: Identity, folder: pathlib.Path) -> int:
        """Keep what a compiler left in a folder; return the bytes of the file. It replaces the one before.

        Raises NoRoomForCode; OSError where the disk cannot be written.
        """
        data = _packed(identity, folder)
        if len(data) > self.budget_bytes:
            raise NoRoomForCode(
                f"compiled code has {len(data)} bytes, and all of it may have {self.budget_bytes} "
                "(worker.components.compiled_bytes): raise that, or compile at every start"
            )
        path = self.path(identity)
        with self._locked("write"):
            for left in self.folder.glob("*.partial"):  # of a process that was killed: writers hold the lock
                left.unlink(missing_ok=True)
            self._make_room(len(data), path)
            draft = path.with_name(f"{path.name}.partial")
            try:
                with open(draft, "xb", opener=_private) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            sync_folder(self.folder)
        return len(data)

    @contextlib.contextmanager
    def compiling(self, identity: Identity) -> Iterator[bool]:
        """Be the only process that compiles for an identity; False: another took too long, and both compile."""
        with self._lock(key_of(identity)) as is_mine:
            yield is_mine

    def _make_room(self, size: int, own: pathlib.Path) -> None:
        others = sorted((when, held, path) for path, held, when in self._files() if path != own)
        free = self.budget_bytes - sum(held for _, held, _ in others)
        for _, held, path in others:
            if free >= size:
                return
            path.unlink(missing_ok=True)  # readers have it open
            free += held

    def _files(self) -> Iterator[tuple[pathlib.Path, int, float]]:
        """Path, bytes and time of the last use of each file."""
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                if path.name != self._locks.name and path.suffix != ".partial":
                    yield path, found.st_size, found.st_mtime

    def _refuse(self, path: pathlib.Path, why: str) -> NoReturn:
        path.unlink(missing_ok=True)
        raise DamagedCode(f"compiled code {path} {why}; it was removed, and is compiled again")

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with self._lock(name) as is_mine:
            if not is_mine:
                raise NoRoomForCode(
                    f"{self._locks / name} was locked by another process for {self._lock_timeout_s:g} s: compiled code "
                    "is not kept this time"
                )
            yield

    @contextlib.contextmanager
    def _lock(self, name: str) -> Iterator[bool]:
        handle = os.open(self._locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end_s = time.monotonic() + self._lock_timeout_s
            while not (is_mine := try_lock(handle)) and time.monotonic() < end_s:
                self._wait(POLL_S)
            yield is_mine
        finally:
            os.close(handle)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _packed(identity: Identity, folder: pathlib.Path) -> bytes:
    """The file of an identity: its first line, and the regular files of a folder."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as packing:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                packing.add(path, str(path.relative_to(folder)), recursive=False)
    data = body.getvalue()
    header = {"identity": identity, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return f"{_as_json(header)}\n".encode() + data


def _header(line: bytes) -> dict[str, Any]:
    """The values of a first line; none of one that is no JSON object."""
    try:
        read = json.loads(line)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))
