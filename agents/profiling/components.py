"""How long each component of a variant takes to the device from each tier, measured in one process.

The remote is a folder on this machine's disk, to which the components are published first: a network's time is not in
it. Each figure is a median, by the clock that counts for the variant: processor time on a CPU, as its calls are timed.
"""

import pathlib
import statistics
import tempfile
import time
from collections.abc import Mapping
from typing import Final

from agents.components.opening import Keeping
from agents.components.store import ComponentStore
from agents.engines import EngineFailed, model_source
from agents.engines.diffusers_engine import load
from agents.profiling.profiling import clock_of
from planner.catalog.components import BASE
from planner.catalog.entries import Variant
from planner.components.component import Tier
from streams.settings import WorkerComponentSettings
from streams.weights.publish import publish
from streams.weights.remotes.folder import FolderRemote

TIERS: Final = (Tier.HOST, Tier.VOLUME, Tier.REMOTE)  # the nearest first
REPEATS: Final = 7
ROOM: Final = 1 << 40  # bytes: nothing leaves by itself

LoadTimes = Mapping[str, Mapping[str, float]]
"""Component id -> label of the tier that it comes from -> ms to the device, rising with the distance."""


def measure_loads(variant: Variant, threads: int = 1, repeats: int = REPEATS) -> LoadTimes:
    """Measure every component of a variant that lists bases. Raises EngineFailed for one that lies in no folder."""
    with tempfile.TemporaryDirectory(prefix="pochade-profile-") as name:
        folder = pathlib.Path(name)
        for each in variant.components:
            source = pathlib.Path(model_source(each.source))
            if not source.is_dir():
                raise EngineFailed(f"{each.id} must lie in a folder to be timed: got {each.source!r}; download it")
            publish(each.id, source, FolderRemote(folder / "remote" / each.kind / each.name))
        settings = WorkerComponentSettings(
            remote=str(folder / "remote"), volume=str(folder / "volume"), volume_bytes=ROOM, host_bytes=ROOM,
            device_bytes=ROOM,
        )  # fmt: skip
        engine = load(variant, threads, Keeping(settings=settings))
        assert engine.store is not None, f"{variant.name} lists components"
        try:
            return _measured(variant, engine.store, clock_of(variant, threads), repeats)
        finally:
            engine.close()


def _measured(variant: Variant, store: ComponentStore, clock: str, repeats: int) -> LoadTimes:
    """All components in turns, so that a slow minute of the machine falls upon each of them."""
    ids = [each.id for each in sorted(variant.components, key=lambda each: each.kind != BASE)]
    for id_ in ids:  # bases first: adapters and controls attach to one that is resident
        store.bring([id_])
    taken: dict[str, dict[Tier, list[float]]] = {id_: {tier: [] for tier in TIERS} for id_ in ids}
    for _ in range(repeats):
        for id_, by_tier in taken.items():
            for tier in TIERS:
                by_tier[tier].append(_load_ms(store, id_, tier, clock))
    return {id_: _rising(by_tier) for id_, by_tier in taken.items()}


def _rising(taken: Mapping[Tier, list[float]]) -> dict[str, float]:
    """Medians; a farther tier that was measured quicker by chance is given the nearer one's."""
    found: dict[str, float] = {}
    for tier in TIERS:
        found[tier.label] = max([statistics.median(taken[tier]), *found.values()])
    return found


def _load_ms(store: ComponentStore, id_: str, tier: Tier, clock: str) -> float:
    """Time to bring a component that lies in a tier, and in none nearer."""
    for nearer in (Tier.DEVICE, Tier.HOST, Tier.VOLUME):
        if nearer > tier:
            store.evict(id_, nearer)
    assert store.tier_of(id_) is tier, f"{id_} lies in {store.tier_of(id_).label}, not in {tier.label}"
    now = time.process_time if clock == "cpu" else time.perf_counter
    began = now()
    store.bring([id_])
    return 1000 * (now() - began)
