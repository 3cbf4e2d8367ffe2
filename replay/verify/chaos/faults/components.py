"""Faults of a worker that moves components: killed within a fetch, a load or a fusion, or on a full disk."""

import os
import pathlib
import signal

from replay.verify.chaos import launching
from replay.verify.chaos.faults.disks import files_up_to
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.weights.points import FETCH, FUSE, LOAD, POINTS, Ambush, is_armed
from replay.verify.chaos.world import POLL_S, Do, NotThere, Steps, World
from schemas.errors import PochadeError
from streams.settings import Settings
from streams.weights.errors import ComponentInUse
from streams.weights.volume import Volume

AMBUSH_S = 60.0  # for a worker to come to a point: one that was killed starts meanwhile
DISK_BYTES = 5_500_000  # a base of the tiny family, and adapters: the settings allow two bases
FILE_BYTES = 64 << 10  # above which no file grows where no small disk can be made: every weight file is larger


def _killed_at(points: tuple[str, ...]) -> Do:
    def kill(world: World, fault: Fault) -> Steps:
        """kill -9 of the worker that comes to one of the points first."""
        name, folder = fault.draw().choice(points), points_of(world.settings)
        if is_armed(folder, name):
            raise NotThere(f"another fault waits for a worker at {name}")
        with Ambush(folder, name) as ambush:
            cleared = clear_volume(world.settings)
            for _ in range(round(AMBUSH_S / POLL_S)):
                yield POLL_S
                if (pid := ambush.caught()) is not None:
                    os.kill(pid, signal.SIGKILL)
                    return f"SIGKILL of {world.name_of(pid)} when {POINTS[name].meaning}; {cleared} removed before"
        raise NotThere(f"no worker came to {name} within {AMBUSH_S:g} s")

    return kill


fetch_kill, load_kill, fuse_kill = _killed_at(FETCH), _killed_at(LOAD), _killed_at(FUSE)


def volume_full(world: World, fault: Fault) -> Steps:
    """A worker's volume is a file system of its own with room for less than its budget: the disk says that it is full.

    Where this process may make none, no file of the worker grows beyond FILE_BYTES, which the system says otherwise.
    """
    if not (yield from world.beside(launching.can_have_small_disk)):
        return (yield from _no_large_files(world, fault))
    right = world.processes[fault.target]
    volume = pathlib.Path(world.settings.worker.components.volume)
    world.child(fault.target)
    yield from world.leave(fault.target)
    world.back(launching.on_small_disk(right, volume, DISK_BYTES))
    yield fault.lasts_ms / 1000
    yield from world.leave(fault.target)
    world.back(right)
    return f"the volume of {fault.target} had room for {DISK_BYTES} bytes for {fault.lasts_ms / 1000:.1f} s (ENOSPC)"


def _no_large_files(world: World, fault: Fault) -> Steps:
    with files_up_to(world.child(fault.target), FILE_BYTES):
        clear_volume(world.settings)
        yield fault.lasts_ms / 1000
    return f"no file of {fault.target} above {FILE_BYTES} bytes for {fault.lasts_ms / 1000:.1f} s (EFBIG)"


def points_of(settings: Settings) -> pathlib.Path:
    """The folder in which faults arm points."""
    return settings.home / "points"


def volume_of(settings: Settings) -> Volume:
    """The volume that the workers share."""
    components = settings.worker.components
    return Volume(pathlib.Path(components.volume), components.volume_bytes)


def clear_volume(settings: Settings) -> int:
    """Remove what no worker reads or fetches just now, so that it must be fetched again; return how many components."""
    volume, removed = volume_of(settings), 0
    for digest in volume.ready():
        try:
            volume.remove(digest)
        except (ComponentInUse, PochadeError, OSError):
            continue
        removed += 1
    return removed
