"""Folders of prompts and images, readable by their owner only, unless they existed before."""

import pathlib
from typing import Final

OWNERS_ALONE: Final = 0o700


def create_private(folder: pathlib.Path) -> None:
    """Create a folder, with those above it that are missing, for its owner alone; one that is there stays as it is.

    So an operator lets a group in by making the folder first. Raises OSError where it cannot be made.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=OWNERS_ALONE, exist_ok=True)
