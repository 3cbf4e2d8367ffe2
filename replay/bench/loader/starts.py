"""How soon does a worker that is forked from a server with the libraries imported make its first image?

Baseline: the same worker as a process of its own, by turns. Both bring the same model from the same volume.
"""

import contextlib
import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from replay.bench.environment.figures import met, spread_with_interval
from schemas.errors import PochadeError
from streams import catalogs
from streams.processes.children import Child, end_all, spawn
from streams.processes.forkserver import ForkServer
from streams.shipped import INFRA
from streams.weights.classes import classes_of
from streams.weights.manifest import Manifest, describe
from streams.weights.remotes.folder import FolderRemote
from streams.weights.volume import Volume

CHILD: Final = "agents.lab.profiling.cold_start"
MODULES: Final = (
    "agents.commands.serve",
    "agents.runtime.assembly",
    "agents.worker.role",
    "agents.engines.diffusers_engine",
    CHILD,
)
Phases = Mapping[str, Any]  # wall, cpu -> phase -> seconds; result of compiling, if requested
TARGETS: Final = {"first_image_ratio": ("<=", 0.25)}
LIMIT_S: Final = 300.0


def run(
    folder: pathlib.Path, catalog: str, variant: str, repeats: int, note: Callable[[str], object]
) -> dict[str, Any]:
    """Start a worker of a variant `repeats` times each way. Raises PochadeError with the log of one that fails."""
    with fetched(folder, catalog, variant) as (place, listed):
        arguments = (catalog, variant, str(place / "volume"), listed.digest, "")
        began_s = time.monotonic()
        with ForkServer([*MODULES, *classes_of(model_of(catalog, variant))], place / "server.log") as server:
            server_s = time.monotonic() - began_s

            def forked(own: Sequence[str], log: pathlib.Path) -> Child:
                return server.spawn(own, log, target=f"{CHILD}:child")

            ways = {"fresh": fresh, "forked": forked}
            took: dict[str, list[Phases]] = {name: [] for name in ways}
            for turn in range(repeats):
                note(f"starts: turn {turn + 1} of {repeats}")
                for name in ways if turn % 2 else reversed(ways):
                    took[name].append(started(ways[name], arguments, place / f"{name}-{turn}.log"))
    ratios = [
        b["wall"]["first_image"] / a["wall"]["first_image"] for a, b in zip(took["fresh"], took["forked"], strict=True)
    ]
    return {
        "variant": variant,
        "weights_mb": round(listed.bytes / 1e6, 2),
        "fork_server_ready_s": round(server_s, 3),
        "seconds": {name: medians(turns, "wall") for name, turns in took.items()},
        "cpu_seconds": {name: medians(turns, "cpu") for name, turns in took.items()},
        "first_image_ratio": spread_with_interval(ratios),
        "targets": met({"first_image_ratio": statistics.median(ratios)}, TARGETS),
    }


def model_of(catalog: str, variant: str) -> pathlib.Path:
    """Return the folder of the model that a variant of a shipped catalog generates with."""
    return INFRA / catalogs.load(catalog).level(variant).model


@contextlib.contextmanager
def fetched(folder: pathlib.Path, catalog: str, variant: str) -> Iterator[tuple[pathlib.Path, Manifest]]:
    """Give a temporary folder in `folder`, whose `volume` holds the variant's model, and the list of its files."""
    model = model_of(catalog, variant)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-starts-", dir=folder) as work:
        place, listed = pathlib.Path(work), describe(f"base:{variant}", model)
        Volume(place / "volume", listed.bytes).fetch(FolderRemote(model), listed)
        yield place, listed


def fresh(own: Sequence[str], log: pathlib.Path) -> Child:
    """Start a worker as a process of its own, with the arguments of `CHILD`."""
    program = f"import sys; from {CHILD} import child; child(sys.argv[1:])"
    return spawn([sys.executable, "-c", program, *own], log)


def started(
    start: Callable[[Sequence[str], pathlib.Path], Child], own: Sequence[str], log: pathlib.Path,
    limit_s: float = LIMIT_S,
) -> Phases:  # fmt: skip
    """Return the phases of a worker that `start` begins, up to its first image. Raises PochadeError with its log."""
    phases: Phases = last_words(start([*own, str(time.monotonic_ns())], log), "a worker that was started", log, limit_s)
    return phases


def last_words(child: Child, what: str, log: pathlib.Path, limit_s: float) -> Any:
    """Return the JSON of the last line that a child wrote before it ended. Raises PochadeError with its log."""
    try:
        status = child.wait(limit_s)
    finally:
        end_all([child])
    if status:
        raise PochadeError(f"{what} ended with status {status}: {log.read_text()[-2000:]}")
    return json.loads(log.read_text().splitlines()[-1])


def medians(turns: Sequence[Phases], kind: str) -> dict[str, float]:
    """Return the median over turns of each phase's seconds, by the clock `kind`."""
    return {phase: round(statistics.median(turn[kind][phase] for turn in turns), 3) for phase in turns[0][kind]}
