"""A model's files in the system's page cache: which they are, and how to have them read from the disk again."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agents.engines import EngineFailed, model_source
from planner.catalog.entries import Variant

SAMPLED: Final = 64  # places of a file that are asked for


def files_of(variant: Variant) -> list[Path]:
    """Return the files of a variant's model and components that are on this machine, those of the hub's cache too."""
    loading = variant.loading
    sources = {variant.model, *loading.weights.values(), *(each.file for each in loading.loras)}
    sources |= {each.source for each in variant.components}
    return sorted({file for source in sources - {""} for file in _files(source)})


def _files(source: str) -> Iterator[Path]:
    try:
        path = Path(model_source(source))
    except EngineFailed:
        return
    if not path.exists():
        from huggingface_hub import snapshot_download

        named = re.fullmatch(r"([^/@]+/[^/@]+)(?:@([^/]+))?(?:/.*)?", source)  # OWNER/REPOSITORY@REVISION/FILE
        try:
            path = Path(snapshot_download(named[1], revision=named[2], local_files_only=True)) if named else path
        except (OSError, ValueError):  # it is not there
            return
    yield from (file for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def forget(files: list[Path]) -> float:
    """Ask the system to drop files from memory; return the share [0, 1] of them that it kept, by samples.

    It keeps what another process has mapped, and files of a file system in memory. 1 where it does not say.
    """
    kept = total = 0
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())  # what is not written yet is not dropped
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size = file.stat().st_size
            kept += size * sum(_is_kept(opened.fileno(), size * at // SAMPLED) for at in range(SAMPLED)) // SAMPLED
            total += size
    return kept / total if total else 1.0


def _is_kept(handle: int, offset: int) -> bool:
    try:
        os.preadv(handle, [bytearray(1)], offset, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # this file system does not say
    return True
