"""Opens a worker's component store as its settings say: budgets, buffers, and where components come from."""

import dataclasses
import pathlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import psutil

from agents.components.sources import Fetched, InPlace, Source
from agents.components.store import ComponentStore, Device
from agents.components.weight_files import ComponentFailed, weight_files
from planner.catalog.components import BASE, Component
from planner.catalog.entries import Variant
from planner.components.from_catalog import of_variant
from planner.components.pools import pool_sizes
from planner.components.tiers import Budgets
from schemas.messages import WorkerComponents
from streams.settings import Settings, WorkerComponentSettings
from streams.weights.memory import Memory
from streams.weights.pools import BufferPools
from streams.weights.remotes.open import open_remote
from streams.weights.remotes.remote import Remote
from streams.weights.volume import Volume

DEVICE_SHARE: Final = 0.5  # of what is free on the device; a call needs the rest for what it computes
HOST_SHARE: Final = 0.25  # of the memory that is free
VOLUME_SHARE: Final = 0.5  # of the disk that is free
OWN: Final = -1  # a budget that follows from what is free


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """A worker's places for components, with their budgets in bytes."""

    settings: WorkerComponentSettings = field(default_factory=WorkerComponentSettings)
    home: pathlib.Path = pathlib.Path(".pochade")
    s3_endpoint_url: str = ""
    s3_region: str = ""
    before: WorkerComponents | None = None  # counters of the worker's store of another variant

    @classmethod
    def in_place(cls, settings: Settings) -> "Keeping":
        """Return the settings' places, with weights from the catalog's folders: those are to be measured."""
        keeping = cls.of(settings)
        return dataclasses.replace(keeping, settings=keeping.settings.model_copy(update={"remote": ""}))

    @classmethod
    def of(cls, settings: Settings, before: WorkerComponents | None = None) -> "Keeping":
        """Return the places in a worker's settings."""
        store = settings.store
        return cls(
            settings=settings.worker.components, home=settings.home, s3_endpoint_url=store.s3_endpoint_url,
            s3_region=store.s3_region, before=before,
        )  # fmt: skip


def with_own_base(variant: Variant) -> Variant:
    """Return the variant; if it lists no bases, its own model becomes a base of the same name."""
    if variant.bases:
        return variant
    own = Component(kind=BASE, name=variant.name, source=variant.model)
    return dataclasses.replace(variant, bases=(variant.name,), components=(own, *variant.components))


def open_components(
    variant: Variant,
    resolve: Callable[[str], str],
    device: Device,
    keeping: Keeping,
    *,
    free_bytes: int,
    memory: Memory | None,
) -> ComponentStore:
    """Open the store of a variant that lists bases.

    `resolve`: source -> its path here, or a hub id; `free_bytes`: of the device; `memory`: of host buffers, None for
    buffers that are not pinned. Raises ComponentFailed for a component of unknown size; PochadeError, OSError if a
    remote or a volume cannot be opened.
    """
    settings = keeping.settings
    paths = {} if settings.remote else _paths(variant, resolve)
    variant = dataclasses.replace(variant, components=tuple(sized(each, paths) for each in variant.components))
    known = of_variant(variant)
    listed = {each.id: each for each in variant.components}
    largest = max(each.bytes for each in known.values())
    host = int(psutil.virtual_memory().available * HOST_SHARE) if settings.host_bytes == OWN else settings.host_bytes
    pools = BufferPools(_sizes(paths), host + largest, memory)
    source: Source
    if settings.remote:
        folder = pathlib.Path(settings.volume or keeping.home / "components")
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        on_volume = int(free * VOLUME_SHARE) if settings.volume_bytes == OWN else settings.volume_bytes
        source = Fetched(listed, Volume(folder, on_volume), _remotes(keeping), pools)
    else:
        on_volume = sum(each.bytes for each in known.values())
        source = InPlace(listed, paths, pools)
    budgets = Budgets(volume=on_volume, host=host, device=device_budget(variant, keeping, free_bytes))
    return ComponentStore(
        known, budgets, source, device, before=keeping.before
    )  # fmt: skip


def device_budget(variant: Variant, keeping: Keeping, free_bytes: int, ratio: float = 1.0) -> int:
    """Return the device's budget in bytes of weight files; each takes `ratio` bytes there, by its precision.

    By default half of the free bytes, and at least the largest base with one combination.
    """
    asked = keeping.settings.device_bytes
    if asked != OWN:
        return int(asked / ratio)
    return max(int(free_bytes * DEVICE_SHARE / ratio), 2 * max(variant.base(name).bytes for name in variant.bases))


def _paths(variant: Variant, resolve: Callable[[str], str]) -> dict[str, pathlib.Path]:
    """Id -> folder or file of each component that lies here."""
    found = {each.id: pathlib.Path(resolve(each.source)) for each in variant.components}
    return {id_: path for id_, path in found.items() if path.exists()}


def sized(component: Component, paths: Mapping[str, pathlib.Path]) -> Component:
    if component.bytes:
        return component
    size = sum(file.stat().st_size for file in weight_files(paths[component.id])) if component.id in paths else 0
    if not size:
        raise ComponentFailed(
            f"{component.id} from {component.source!r} has no size that is known here: write the `bytes` of its weight "
            "files into the catalog"
        )
    return dataclasses.replace(component, bytes=size)


def _sizes(paths: Mapping[str, pathlib.Path]) -> tuple[int, ...]:
    """The sizes of buffers, by those of the weight files; none where they are not known yet."""
    frequencies: dict[int, float] = {}
    for path in paths.values():
        for file in weight_files(path):
            if size := file.stat().st_size:
                frequencies[size] = frequencies.get(size, 0.0) + 1.0
    return pool_sizes(frequencies)


def url_of(component: Component, remote: str) -> str:
    """Return where a component lies in a remote, s3://BUCKET/PREFIX or a folder."""
    return f"{remote.rstrip('/')}/{component.kind}/{component.name}"


def _remotes(keeping: Keeping) -> Callable[[Component], Remote]:
    opened: dict[str, Remote] = {}

    def remote_of(component: Component) -> Remote:
        url = url_of(component, keeping.settings.remote)
        if url not in opened:
            opened[url] = open_remote(url, keeping.s3_endpoint_url, keeping.s3_region)
        return opened[url]

    return remote_of
