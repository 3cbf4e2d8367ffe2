"""Does compiling a variant's denoiser pay on this machine?

A worker is started eager, compiling anew (nothing is kept), and with the code that a start before it kept, by turns,
each up to its first image. Then images are generated with and without, in one process and in turns.
"""

import pathlib
import statistics
import sys
from collections.abc import Callable
from typing import Any, Final

from replay.bench.environment.figures import spread_with_interval
from replay.bench.loader.starts import Phases, fetched, fresh, last_words, medians, started
from schemas.errors import PochadeError
from streams.processes.children import spawn

IMAGES: Final = "agents.lab.profiling.compiled"
BATCHES: Final = (1, 4)  # calls of one image, and of several
WAYS: Final = {"eager": None, "anew": "compiled", "kept": "kept"}  # way to start -> result of compiling
LIMIT_S: Final = 1800.0  # of a start, and of all images


def run(
    folder: pathlib.Path, catalog: str, variant: str, repeats: int, note: Callable[[str], object]
) -> dict[str, Any]:
    """Start a worker `repeats` times each way. Raises PochadeError with the log of one that fails or cannot compile."""
    with fetched(folder, catalog, variant) as (place, listed):
        arguments = (catalog, variant, str(place / "volume"), listed.digest)
        homes = [str(place / f"home-{turn}") for turn in range(repeats)]
        took: dict[str, list[Phases]] = {way: [] for way in WAYS}
        for turn, home in enumerate(homes):
            for way, where in zip(WAYS, ("", home, homes[0]), strict=True):  # kept code is the first turn's
                note(f"compiling {variant}: turn {turn + 1} of {repeats}, {way}")
                phases = started(fresh, (*arguments, where), place / f"{way}-{turn}.log", LIMIT_S)
                if phases.get("compiling") != WAYS[way]:
                    raise PochadeError(f"a start that was to be {way} was {phases.get('compiling')}: see its log")
                took[way].append(phases)
        note(f"generating with {variant}, compiled and eager")
        images = _images(catalog, variant, homes[0], place / "images.log")
    first = {way: [turn["wall"]["first_image"] for turn in turns] for way, turns in took.items()}
    more_s = statistics.median(kept - eager for kept, eager in zip(first["kept"], first["eager"], strict=True))
    saved_s = (images["1"]["eager_ms"] - images["1"]["compiled_ms"]) / 1000
    ratios = [a["wall"]["compile"] / b["wall"]["compile"] for a, b in zip(took["kept"], took["anew"], strict=True)]
    return {
        "kept_mb": round(took["kept"][0]["kept_bytes"] / 1e6, 2),
        "seconds": {way: medians(turns, "wall") for way, turns in took.items()},
        "cpu_seconds": {way: medians(turns, "cpu") for way, turns in took.items()},
        "kept_compile_ratio": spread_with_interval(ratios),
        "images": images,
        "images_until_a_kept_start_pays": _images_until(more_s, saved_s),
    }


def _images_until(more_s: float, saved_s: float) -> int | None:
    """Return the number of images after which a longer start is paid back; None for never."""
    return None if saved_s <= 0 else max(0, round(more_s / saved_s))


def _images(catalog: str, variant: str, home: str, log: pathlib.Path) -> dict[str, dict[str, float]]:
    program = f"import sys; from {IMAGES} import child; child(sys.argv[1:])"
    batches = ",".join(map(str, BATCHES))
    process = spawn([sys.executable, "-c", program, catalog, variant, home, batches], log)
    found: dict[str, dict[str, float]] = last_words(process, f"generating with {variant}", log, LIMIT_S)
    return found
