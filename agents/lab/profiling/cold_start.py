"""The phases of a worker's start up to its first image, measured in a process of its own: `pochade bench loader
--starts`.

    start        the interpreter, or the fork
    import       the worker's modules and libraries; next to nothing where the process was forked from one that has them
    read         the model's weights from the volume into memory, compared with their sha-256
    initialise   the catalog, and the pipeline on its device
    compile      the denoiser's code, made or read from the volume; only where it is compiled
    warm         by how much the first image takes longer than the next one
    generate     an image

Kafka is left out: a worker connects while it loads, and what a cluster takes to give it partitions is not the
process's.
"""

import itertools
import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import NamedTuple

PROMPT = "a red heart"


def child(arguments: Sequence[str]) -> None:
    """Start as a worker does, generate two images, and print each phase's time and processor time in seconds, as JSON.

    Processor time is that of the process and of compilers that it called, since it began, by fork or anew. On a busy
    machine it varies less than the time.

    `arguments`: catalog, variant, folder of the volume, digest of the model there, the home under which compiled code
    is kept ("": the variant is not compiled), and when the process was ordered (nanoseconds of the monotonic clock).
    """
    catalog_name, variant_name, folder, digest, home, ordered_ns = arguments
    ticks = [_Tick(int(ordered_ns) / 1e9, 0.0), _now()]
    from agents.engines import GenerationTask, diffusers_engine
    from streams.weights.classes import classes_of, import_named

    for name in classes_of(pathlib.Path(folder) / "ready" / digest):
        import_named(name)
    ticks.append(_now())
    _read(pathlib.Path(folder), digest)
    ticks.append(_now())
    import dataclasses

    from agents.components.opening import Keeping
    from planner.catalog.options import AS_IT_IS, resolve_options
    from streams import catalogs

    model = str(pathlib.Path(folder) / "ready" / digest)
    variant = dataclasses.replace(catalogs.load(catalog_name).level(variant_name), model=model)
    variant = dataclasses.replace(variant, loading=dataclasses.replace(variant.loading, compile=bool(home)))
    engine = diffusers_engine.load(variant, 1, Keeping(home=pathlib.Path(home)))
    ticks.append(_now())
    for _ in range(2):
        made = engine.generate(
            [GenerationTask(request_id="cold", prompt=PROMPT, seed=1)],
            resolve_options(AS_IT_IS, variant),
            lambda: False,
        )
        assert made is not None, "should_stop never stops this call"
        ticks.append(_now())
    warmed = engine.warmed
    phases = {
        "wall": _phases([tick.s for tick in ticks], warmed.seconds if warmed else None),
        "cpu": _phases([tick.cpu_s for tick in ticks], warmed.cpu_seconds if warmed else None),
    }
    found = {} if warmed is None else {"compiling": warmed.result, "kept_bytes": warmed.kept_bytes}
    print(json.dumps({**phases, **found}), flush=True)


class _Tick(NamedTuple):
    s: float  # of the monotonic clock
    cpu_s: float


def _now() -> _Tick:
    called = os.times()
    return _Tick(time.monotonic(), time.process_time() + called.children_user + called.children_system)


def _phases(ticks: Sequence[float], compile_s: float | None = None) -> dict[str, float]:
    start, imported, read, initialise, first, again = (b - a for a, b in itertools.pairwise(ticks))
    phases = {"start": start, "import": imported, "read": read, "initialise": initialise - (compile_s or 0.0)}
    compiling = {} if compile_s is None else {"compile": compile_s}
    return {**phases, **compiling, "warm": first - again, "generate": again, "first_image": ticks[-2] - ticks[0]}


def _read(folder: pathlib.Path, digest: str) -> None:
    from streams.weights.direct import read_file
    from streams.weights.pools import BufferPools
    from streams.weights.volume import Volume

    volume, pools = Volume(folder, 0), BufferPools([], 0)
    with volume.using(digest) as ready:
        for file in volume.manifest(digest).files:
            if file.path.endswith(".safetensors"):
                read_file(ready / file.path, file.bytes, file.sha256, pools).lease.release()
