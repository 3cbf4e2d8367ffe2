"""Copies a component's files to its remote, the list of them last; what is there already is left as it is."""

import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

from schemas.errors import Unknown
from streams.weights import manifest
from streams.weights.errors import WeightsGone
from streams.weights.fetch import Transfer, retried
from streams.weights.manifest import ComponentFile, InvalidManifest, Manifest
from streams.weights.remotes.remote import Remote, read_manifest


class Missing(NamedTuple):
    """The files of a component that a remote lacks."""

    files: tuple[ComponentFile, ...]  # that are not there, or are there with other bytes
    is_listed: bool  # whether the list there is this component's

    @property
    def bytes(self) -> int:
        """Size of the files in bytes."""
        return sum(file.bytes for file in self.files)

    @property
    def is_nothing(self) -> bool:
        """Whether the remote has the component whole."""
        return self.is_listed and not self.files


def missing(listed: Manifest, remote: Remote, wait: Callable[[float], None] = time.sleep) -> Missing:
    """Return what a remote lacks: files whose sha-256 its own list does not have, or whose size is not the listed one.

    No file is read: bytes that were altered there without a change of size are found by who fetches them. `wait`:
    sleeps for seconds between tries. Raises what `Remote.stat` raises, but for what is not there.
    """
    try:
        there = retried(lambda: read_manifest(remote), Transfer(), wait)
    except (WeightsGone, InvalidManifest, Unknown):  # no list, or none that a worker could read
        return Missing(listed.files, is_listed=False)
    known = set(there.files)
    lacking = tuple(file for file in listed.files if file not in known or not _is_there(file, remote, wait))
    return Missing(lacking, is_listed=there == listed)


def everything(listed: Manifest) -> Missing:
    """Return all of a component, to be copied whatever the remote has."""
    return Missing(listed.files, is_listed=False)


def send(
    listed: Manifest, lacking: Missing, source: pathlib.Path, remote: Remote,
    on_bytes: Callable[[int], None] = lambda _: None, wait: Callable[[float], None] = time.sleep,
) -> None:  # fmt: skip
    """Copy what a remote lacks of the component at `source`, a folder or one file, and then the list of its files.

    Who fetches meanwhile has the old component or the new one, or is refused by sha-256; never a mixture. `on_bytes`
    is called from any thread with the bytes that were copied, less than 0 where a file begins again. Raises what
    `Remote.put` raises.
    """
    folder = source.parent if source.is_file() else source
    for file in lacking.files:
        _put(remote, file.path, folder / file.path, on_bytes, wait)
    if lacking.is_nothing:
        return
    with tempfile.TemporaryDirectory() as drafts:
        text = pathlib.Path(drafts) / manifest.NAME
        text.write_text(listed.as_json())
        _put(remote, manifest.NAME, text, lambda _: None, wait)


def publish(component: str, source: pathlib.Path, remote: Remote) -> Manifest:
    """Copy a component, a folder or one file, to a remote that may have parts of it; return the list of its files.

    Raises what `send`, `missing` and `manifest.describe` raise.
    """
    listed = manifest.describe(component, source)
    send(listed, missing(listed, remote), source, remote)
    return listed


def _is_there(file: ComponentFile, remote: Remote, wait: Callable[[float], None]) -> bool:
    try:
        return retried(lambda: remote.stat(file.path), Transfer(), wait).bytes == file.bytes
    except WeightsGone:
        return False


def _put(
    remote: Remote, path: str, file: pathlib.Path, on_bytes: Callable[[int], None], wait: Callable[[float], None]
) -> None:
    def once() -> None:
        done: list[int] = []

        def count(more: int) -> None:
            done.append(more)
            on_bytes(more)

        try:
            remote.put(path, file, count)
        except BaseException:
            on_bytes(-sum(done))
            raise

    retried(once, Transfer(), wait)
