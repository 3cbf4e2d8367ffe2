"""The object store fails: away or silent for everybody, or a disk that takes no more bytes from one process."""

import contextlib
import ctypes
import os
import pathlib
import resource
import sys
import urllib.parse
from collections.abc import Iterator

from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import POLL_S, NotThere, Steps, World
from schemas.messages import ImageGenerated
from schemas.record import Incoming
from schemas.topics import IMAGES
from streams.codec.avro import decode
from streams.processes.children import Child
from streams.settings import Settings

AT_FDCWD, RENAME_EXCHANGE = -100, 2
MEETS_S = 10.0  # for an image to be announced
CAN_EXCHANGE = sys.platform == "linux"


def store_away(world: World, fault: Fault) -> Steps:
    """The store's folder is a file for a while: nothing can be read or written, and nothing is found to be missing."""
    folder = pathlib.Path(world.settings.store.folder)
    aside = folder.with_name(f"{folder.name}.{fault.number}")
    aside.touch()
    exchange(folder, aside)
    try:
        yield fault.lasts_ms / 1000
    finally:
        exchange(folder, aside)
        aside.unlink()
    return f"the store was away for {fault.lasts_ms / 1000:.1f} s"


def store_stalls(world: World, fault: Fault) -> Steps:
    """The store accepts every call and answers none: reads and writes of images wait until the fault is over."""
    mark = hang_mark(world.settings)
    mark.touch()
    try:
        yield fault.lasts_ms / 1000
    finally:
        mark.unlink(missing_ok=True)
    return f"the store answered no call for {fault.lasts_ms / 1000:.1f} s"


def store_lies(world: World, fault: Fault) -> Steps:
    """Remove or cut an image when it is announced, and restore it a moment later, as if the store were late."""
    met: list[ImageGenerated] = []

    def ambush(record: Incoming) -> None:
        if not met and record.topic == IMAGES and world.is_open(record):
            met.append(decode(record.value, ImageGenerated))
            path.append(pathlib.Path(urllib.parse.unquote(urllib.parse.urlparse(met[0].image.uri).path)))
            whole.append(path[0].read_bytes())
            lie(path[0], whole[0])

    path, whole = list[pathlib.Path](), list[bytes]()
    how = fault.draw().choice(["gone", "damaged"])

    def lie(file: pathlib.Path, data: bytes) -> None:
        file.unlink()
        if how == "damaged":
            file.write_bytes(data[: len(data) // 2])

    world.ambushes.append(ambush)
    try:
        for _ in range(round(MEETS_S / POLL_S)):
            if whole:
                break
            yield POLL_S
        else:
            raise NotThere(f"no image was announced within {MEETS_S:g} s")
        yield fault.lasts_ms / 1000
    finally:
        world.ambushes.remove(ambush)
        if whole:
            path[0].unlink(missing_ok=True)
            path[0].write_bytes(whole[0])
    return f"the image of {met[0].job.classified.request.request_id} was {how} for {fault.lasts_ms / 1000:.1f} s"


def hang_mark(settings: Settings) -> pathlib.Path:
    """The file that is there while the store hangs."""
    return settings.home / "store-hangs"


def disk_full(world: World, fault: Fault) -> Steps:
    """Let no file that a process writes grow, as on a full disk, its images and its log alike."""
    with files_up_to(world.child(fault.target), 0):
        yield fault.lasts_ms / 1000
    return f"no bytes written by {fault.target} for {fault.lasts_ms / 1000:.1f} s"


@contextlib.contextmanager
def files_up_to(child: Child, most_bytes: int) -> Iterator[None]:
    """Let no file that a process writes grow beyond `most_bytes`."""
    was = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (most_bytes, was[1]))
    try:
        yield
    finally:
        if child.poll() is None:
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, was)


def exchange(one: pathlib.Path, other: pathlib.Path) -> None:
    """Two names change places, so that no moment shows neither. Raises NotThere where the system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not CAN_EXCHANGE or libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        raise NotThere(f"cannot exchange {one} and {other}: {os.strerror(ctypes.get_errno())}")
