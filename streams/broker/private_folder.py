"""Folders that hold what people asked for: their owner's alone."""

import contextlib
import pathlib

OWNERS_ALONE = 0o700


def make_private(folder: pathlib.Path) -> None:
    """Create it, with those above it that are missing, for its owner alone; one that was wider is narrowed."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=OWNERS_ALONE, exist_ok=True)
    with contextlib.suppress(PermissionError):  # another's: who may not enter it hears that from the next call
        folder.chmod(OWNERS_ALONE)
