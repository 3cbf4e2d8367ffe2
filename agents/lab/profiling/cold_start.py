"""The phases of a worker's start up to its first image, measured in a process of its own: `pochade bench loader
--starts`.

    start        the interpreter, or the fork
    import       the worker's modules and libraries; next to nothing where the process was forked from one that has them
    read         the model's weights from the volume into memory, compared with their sha-256
    initialise   the catalog, and the pipeline on its device
    warm         by how much the first image takes longer than the next one
    generate     an image

Kafka is left out: a worker connects while it loads, and what a cluster takes to give it partitions is not the
process's.
"""

import itertools
import json
import pathlib
import time
from collections.abc import Sequence
from typing import NamedTuple

PROMPT = "a red heart"


def child(arguments: Sequence[str]) -> None:
    """Start as a worker does, generate two images, and print each phase's time and processor time in seconds, as JSON.

    Processor time is that of the process since it began, by fork or anew; it tells more on a busy machine.

    `arguments`: catalog, variant, folder of the volume, digest of the model there, and when the process was ordered
    (nanoseconds of the monotonic clock).
    """
    catalog_name, variant_name, folder, digest, ordered_ns = arguments
    ticks = [_Tick(int(ordered_ns) / 1e9, 0.0), _now()]
    from agents.engines import GenerationTask, diffusers_engine
    from streams.weights.classes import classes_of, import_named

    for name in classes_of(pathlib.Path(folder) / "ready" / digest):
        import_named(name)
    ticks.append(_now())
    _read(pathlib.Path(folder), digest)
    ticks.append(_now())
    import dataclasses

    from planner.catalog.options import AS_IT_IS, resolve_options
    from streams import catalogs

    model = str(pathlib.Path(folder) / "ready" / digest)
    variant = dataclasses.replace(catalogs.load(catalog_name).level(variant_name), model=model)
    engine = diffusers_engine.load(variant, 1)
    ticks.append(_now())
    for _ in range(2):
        made = engine.generate(
            [GenerationTask(request_id="cold", prompt=PROMPT, seed=1)],
            resolve_options(AS_IT_IS, variant),
            lambda: False,
        )
        assert made is not None, "nobody asked to stop"
        ticks.append(_now())
    phases = {"wall": _phases([tick.s for tick in ticks]), "cpu": _phases([tick.cpu_s for tick in ticks])}
    print(json.dumps(phases), flush=True)


class _Tick(NamedTuple):
    s: float  # of the monotonic clock
    cpu_s: float


def _now() -> _Tick:
    return _Tick(time.monotonic(), time.process_time())


def _phases(ticks: Sequence[float]) -> dict[str, float]:
    start, imported, read, initialise, first, again = (b - a for a, b in itertools.pairwise(ticks))
    phases = {"start": start, "import": imported, "read": read, "initialise": initialise, "warm": first - again}
    return {**phases, "generate": again, "first_image": ticks[-2] - ticks[0]}


def _read(folder: pathlib.Path, digest: str) -> None:
    from streams.weights.direct import read_file
    from streams.weights.pools import BufferPools
    from streams.weights.volume import Volume

    volume, pools = Volume(folder, 0), BufferPools([], 0)
    with volume.using(digest) as ready:
        for file in volume.manifest(digest).files:
            if file.path.endswith(".safetensors"):
                read_file(ready / file.path, file.bytes, file.sha256, pools).lease.release()
