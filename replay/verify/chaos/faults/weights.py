"""Faults of weight files: altered or cut on the volume or on the remote, another's in their place, connections cut."""

import contextlib
import os
import pathlib
import random
import shutil
from collections.abc import Callable, Generator, Iterator
from typing import Final

from planner.catalog.components import Component
from replay.verify.chaos.faults.components import AMBUSH_S, clear_volume
from replay.verify.chaos.faults.disks import exchange
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.weights.remote import WeightsRemote, folder_of
from replay.verify.chaos.world import POLL_S, Do, NotThere, Steps, World

WEIGHTS: Final = "*.safetensors"
BACKUP_SUFFIX: Final = ".kept"  # of the name of a file's right copy while the file is changed
MAX_BROUGHT: Final = 600_000  # bytes that a connection brings before it is cut: less than most weight files have


def alter(file: pathlib.Path, dice: random.Random) -> str:
    """Change one bit of a file; return what was done."""
    with file.open("r+b") as data:
        at = dice.randrange(os.fstat(data.fileno()).st_size)
        data.seek(at)
        (byte,) = data.read(1)
        data.seek(at)
        data.write(bytes([byte ^ (1 << dice.randrange(8))]))
    return f"a bit of byte {at} altered"


def cut(file: pathlib.Path, dice: random.Random) -> str:
    """Cut the end of a file off; return what was done."""
    size = file.stat().st_size
    kept = dice.randrange(size)
    os.truncate(file, kept)
    return f"cut from {size} to {kept} bytes"


HOW: Final = {"altered": alter, "cut": cut}


def _on_volume(how: str) -> Do:
    def damage(world: World, fault: Fault) -> Steps:
        """One weight file of a component that is ready on the volume of the workers."""
        dice, ready = fault.draw(), pathlib.Path(world.settings.worker.components.volume) / "ready"
        if not (yield from _awaited(lambda: any(ready.rglob(WEIGHTS)))):
            raise NotThere(f"no component was ready on the volume within {AMBUSH_S:g} s")
        file = dice.choice(sorted(ready.rglob(WEIGHTS)))
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            done = HOW[how](file, dice)
            yield 0.0
            return f"{file.relative_to(ready)} on the volume: {done}"
        raise NotThere(f"{file.relative_to(ready)} was removed from the volume")

    return damage


def _on_remote(how: str) -> Do:
    def damage(world: World, fault: Fault) -> Steps:
        """Damage one weight file of a component on the remote for a while; no worker has it on its volume then."""
        dice, remote = fault.draw(), _remote(world)
        component = dice.choice(remote.components)
        file = dice.choice(sorted(folder_of(remote.folder, component).rglob(WEIGHTS)))
        with _restored(file):
            draft = file.with_suffix(".draft")
            shutil.copyfile(file, draft)
            done = HOW[how](draft, dice)
            os.replace(draft, file)  # a new version of the object
            clear_volume(world.settings)
            yield fault.lasts_ms / 1000
        return f"{component.id} on the remote: {file.name} {done} for {fault.lasts_ms / 1000:.1f} s"

    return damage


def remote_swapped(world: World, fault: Fault) -> Steps:
    """Two components of a kind lie in each other's place, each with its right list of files, for a while."""
    dice, remote = fault.draw(), _remote(world)
    by_kind: dict[str, list[Component]] = {}
    for each in remote.components:
        by_kind.setdefault(each.kind, []).append(each)
    one, other = dice.sample(dice.choice([each for each in by_kind.values() if len(each) > 1]), k=2)
    folders = folder_of(remote.folder, one), folder_of(remote.folder, other)
    if any(folders[0].parent.parent.rglob(f"*{BACKUP_SUFFIX}")):
        raise NotThere("another fault changes files of the remote")
    exchange(*folders)
    try:
        clear_volume(world.settings)
        yield fault.lasts_ms / 1000
    finally:
        exchange(*folders)
    return f"{one.id} and {other.id} lay in each other's place on the remote for {fault.lasts_ms / 1000:.1f} s"


def remote_drops(world: World, fault: Fault) -> Steps:
    """Every connection to the remote is cut within a file, from the first one on for a while."""
    most = fault.draw().randrange(1, MAX_BROUGHT)
    cuts = yield from _cut(world, fault, most)
    return f"connections to the remote cut after {most} bytes for {fault.lasts_ms / 1000:.1f} s: {cuts} of them"


def remote_away(world: World, fault: Fault) -> Steps:
    """The remote closes every connection at once, from the first one on for a while."""
    cuts = yield from _cut(world, fault, 0)
    return f"the remote was away for {fault.lasts_ms / 1000:.1f} s: {cuts} connections closed"


def _cut(world: World, fault: Fault, most: int) -> Generator[float, None, int]:
    """Cut connections until the fault is over; return how many. Raises NotThere if nothing was fetched."""
    remote = _remote(world)
    with remote.proxy.cutting(most):
        clear_volume(world.settings)
        before = remote.proxy.cuts
        if not (yield from _awaited(lambda: remote.proxy.cuts > before)):
            raise NotThere(f"no connection was cut within {AMBUSH_S:g} s")
        yield fault.lasts_ms / 1000
        return remote.proxy.cuts - before


def _awaited(is_there: Callable[[], bool]) -> Generator[float, None, bool]:
    """Wait up to AMBUSH_S in steps; whether it is there."""
    for _ in range(round(AMBUSH_S / POLL_S)):
        if is_there():
            return True
        yield POLL_S
    return False


volume_altered, volume_cut = _on_volume("altered"), _on_volume("cut")
remote_altered, remote_cut = _on_remote("altered"), _on_remote("cut")


def _remote(world: World) -> WeightsRemote:
    if world.remote is None:
        raise NotThere("this run has no remote of components")
    return world.remote


@contextlib.contextmanager
def _restored(file: pathlib.Path) -> Iterator[None]:
    """Put a file back as it was, at once. Two faults of one file would keep what the other made of it."""
    kept = file.with_name(f"{file.name}{BACKUP_SUFFIX}")
    if kept.exists():
        raise NotThere(f"another fault changes {file.name}")
    shutil.copy2(file, kept)
    try:
        yield
    finally:
        os.replace(kept, file)
