"""The tiny family by way of a remote, a volume and host memory: the same images, whatever is altered, cut or killed."""

import dataclasses
import gc
import pathlib
import shutil
import signal
import subprocess
import sys
import weakref
from functools import cache
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from diffusers import DiffusionPipeline
from PIL import Image

from agents.components import building
from agents.components.opening import Keeping
from agents.components.weight_files import ComponentFailed
from agents.engines import EngineFailed, GenerationTask, composing
from agents.engines.diffusers_engine import DiffusersEngine, load
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import resolve_options
from planner.components.component import Tier
from schemas.messages import GenerateOptions
from streams import catalogs, metrics
from streams.settings import WorkerComponentSettings
from streams.weights.memory import PinnedMemory
from streams.weights.publish import publish
from streams.weights.remotes.folder import FolderRemote
from tests.agents.components.killed import fetched
from tests.paths import MODELS, ROOT
from tests.streams.weights.components import Failing

pytestmark = pytest.mark.torch

SOURCES = {
    "base/poster": "poster",
    "base/chalk": "chalk",
    "adapter/mint": "loras/mint",
    "control/outline": "controlnet",
}
URI = "memory:00/input.0123456789abcdef-0123456789abcdef.png"
BASE = 3_763_046  # bytes of its weight files


def styles() -> Variant:
    return dataclasses.replace(catalogs.load("tiny").level("styles"), loading=Loading(device="cpu"))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A remote with parts of the family."""
    remote = tmp_path_factory.mktemp("remote")
    for path, source in SOURCES.items():
        publish(path.replace("/", ":"), MODELS / source, FolderRemote(remote / path))
    return remote


@pytest.fixture
def remote(published: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy that a test may damage."""
    return pathlib.Path(shutil.copytree(published, tmp_path / "remote"))


def opened(remote: pathlib.Path, **changes: Any) -> DiffusersEngine:
    settings = WorkerComponentSettings(remote=str(remote), volume=str(remote.parent / "volume"), **changes)
    return load(styles(), 1, Keeping(settings=settings))


def image(engine: DiffusersEngine, **options: Any) -> np.ndarray:
    controls = (Image.new("RGB", (48, 48), (90, 90, 90)),) if "controls" in options else ()
    how = resolve_options(GenerateOptions(steps=1, **options), styles())
    task = GenerationTask(request_id="r", prompt="a red heart", seed=7, controls=controls)
    made = engine.generate([task], how, lambda: False)
    assert made is not None
    return np.asarray(made.images[0])


@cache
def in_place() -> DiffusersEngine:
    return load(styles(), 1)


def store_of(engine: DiffusersEngine) -> Any:
    assert engine.store is not None
    return engine.store


def altered(file: pathlib.Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


CONTROLLED: dict[str, Any] = {"adapters": ("mint",), "controls": ("outline",), "control_images": (URI,)}


def test_images_by_way_of_a_remote_are_those_of_the_folders_to_the_bit_and_a_new_worker_finds_the_volume(
    remote: pathlib.Path,
) -> None:
    engine = opened(remote)
    for options in ({"model": "poster"}, {"model": "chalk"}, CONTROLLED):
        assert (image(engine, **options) == image(in_place(), **options)).all()
    report = store_of(engine).report()
    assert (
        report.held["volume"] == report.held["host"] == ("adapter:mint", "base:chalk", "base:poster", "control:outline")
    )
    assert report.held["device"] == (*report.held["host"], "fused:poster+mint@1")
    assert report.hits["remote"] == 3  # the default base was there before any job
    engine.close()
    shutil.rmtree(remote)
    again = opened(remote)
    assert (image(again, model="chalk") == image(in_place(), model="chalk")).all()
    assert store_of(again).report().hits == {"volume": 1}
    again.close()


def test_parts_are_built_from_memory_as_their_library_reads_them(
    remote: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = list[int]()

    def pin(_address: int, size: int) -> int:
        pinned.append(size)
        return 0

    monkeypatch.setattr(composing, "_pinned", lambda _device: PinnedMemory(pin, lambda _at: 0))  # as with CUDA
    before = metrics.FALLBACKS.labels("worker", "read-by-library")._value.get()
    engine = opened(remote)
    assert engine.components is not None
    own = engine.components.pipeline("poster")
    for name, part in DiffusionPipeline.from_pretrained(
        MODELS / "poster", torch_dtype=torch.float32
    ).components.items():
        if isinstance(part, torch.nn.Module):
            mine, theirs = getattr(own, name), part.state_dict()
            assert not mine.training
            assert mine.state_dict().keys() == theirs.keys()
            assert all(torch.equal(value, theirs[key]) for key, value in mine.state_dict().items()), name
    assert metrics.FALLBACKS.labels("worker", "read-by-library")._value.get() == before
    assert sum(pinned) >= BASE, "memory that weights are read into is pinned"
    engine.close()


def test_what_cannot_be_built_from_memory_is_read_by_its_library_and_counted(
    remote: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_of: object) -> None:
        raise ValueError("other names")

    monkeypatch.setattr(building, "built", refuse)
    before = metrics.FALLBACKS.labels("worker", "read-by-library")._value.get()
    engine = opened(remote)
    assert metrics.FALLBACKS.labels("worker", "read-by-library")._value.get() == before + 3
    assert (image(engine, model="poster") == image(in_place(), model="poster")).all()
    engine.close()


@pytest.mark.parametrize("how", ["altered", "cut"])
def test_an_adapter_that_is_damaged_on_its_remote_generates_nothing_and_the_base_serves_on(
    remote: pathlib.Path, how: str
) -> None:
    file = next((remote / "adapter/mint").glob("*.safetensors"))
    if how == "altered":
        altered(file)
    else:
        file.write_bytes(file.read_bytes()[:-1])
    engine = opened(remote)
    with pytest.raises(EngineFailed, match=r"adapter:mint cannot be loaded: .*publish the component again"):
        image(engine, adapters=("mint",))
    assert store_of(engine).tier_of("adapter:mint") is Tier.REMOTE
    assert (image(engine, model="poster") == image(in_place(), model="poster")).all()
    engine.close()


def test_another_adapter_with_a_list_of_its_own_is_refused_by_the_digest_of_the_catalog(remote: pathlib.Path) -> None:
    publish("adapter:mint", MODELS / "loras/candy", FolderRemote(remote / "adapter/mint"))
    engine = opened(remote)
    with pytest.raises(EngineFailed, match=r"adapter:mint at .* is damaged or another: its sha256 is"):
        image(engine, adapters=("mint",))
    engine.close()


@pytest.mark.parametrize("how", ["altered", "cut"])
def test_what_is_damaged_on_the_volume_is_fetched_again_and_never_served(remote: pathlib.Path, how: str) -> None:
    engine = opened(remote)
    image(engine, model="chalk")
    engine.close()
    for file in (remote.parent / "volume" / "ready").rglob("*.safetensors"):
        if how == "altered":
            altered(file)
        else:
            file.write_bytes(file.read_bytes()[:-1])
    again = opened(remote)
    assert (image(again, model="chalk") == image(in_place(), model="chalk")).all()
    again.close()


def test_a_volume_with_room_for_one_base_holds_one_and_serves_both(remote: pathlib.Path) -> None:
    engine = opened(remote, volume_bytes=BASE * 3 // 2, host_bytes=0)
    for base in ("chalk", "poster", "chalk"):
        assert (image(engine, model=base) == image(in_place(), model=base)).all()
    held = sum(file.stat().st_size for file in (remote.parent / "volume" / "ready").rglob("*") if file.is_file())
    assert held <= BASE * 3 // 2
    assert store_of(engine).report().held_bytes["host"] == 0
    engine.close()


def test_a_volume_without_room_for_the_base_is_told_with_what_to_do(remote: pathlib.Path) -> None:
    with pytest.raises(EngineFailed, match=r"base:poster cannot be fetched: .*raise its budget"):
        opened(remote, volume_bytes=BASE // 2)


def test_a_remote_that_drops_every_connection_after_some_bytes_still_brings_the_base(remote: pathlib.Path) -> None:
    dropping = Failing(FolderRemote(remote / "base/poster"))
    dropping.most_bytes, dropping.fails = 200_000, lambda number: number % 3 == 1
    source = fetched(remote, dropping)
    source.fetch("base:poster")
    assert source.transfer.retries > 10
    host = source.read("base:poster")
    assert host is not None
    assert host.bytes == BASE
    host.release()


def test_a_remote_that_is_away_is_told_and_what_came_is_used_when_it_is_back(remote: pathlib.Path) -> None:
    away = Failing(FolderRemote(remote / "base/poster"))
    away.fails = lambda number: number > 7  # the text encoder has come
    source = fetched(remote, away)
    with pytest.raises(ComponentFailed, match="base:poster cannot be loaded: "):
        source.fetch("base:poster")
    assert not source.on_volume()
    again = fetched(remote)
    again.fetch("base:poster")
    assert 0 < again.transfer.fetched_bytes < BASE
    assert again.on_volume() == {"base:poster"}


def test_a_worker_that_is_killed_while_it_fetches_leaves_nothing_half_and_the_next_one_goes_on(
    remote: pathlib.Path,
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.agents.components.killed", str(remote)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"fetching\n"
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    child.stdout.close()
    source = fetched(remote)
    assert not source.on_volume()
    source.fetch("base:poster")
    assert 0 < source.transfer.fetched_bytes < BASE
    host = source.read("base:poster")
    assert host is not None
    host.release()


def test_after_80_changes_of_component_the_bases_are_those_of_their_files_and_memory_has_not_grown() -> None:
    budget = 2 * (2 * BASE) + 5_000_000  # files are in half precision, a CPU holds single
    engine = load(styles(), 1, Keeping(settings=WorkerComponentSettings(device_bytes=budget, host_bytes=2 * BASE)))
    components, store, dice = engine.components, store_of(engine), np.random.default_rng(3)
    assert components is not None
    mixes = [("candy",), ("mint",), ("comic",), ("dusk",), ("candy", "mint"), ("pastel", "sepia")]
    process, rss = psutil.Process(), list[int]()
    for change in range(80):
        options: dict[str, Any] = {"model": "poster"}
        if change % 20 == 10:
            options = {"model": ("chalk", "woodcut")[change // 20 % 2]}
        elif change % 7:
            chosen = mixes[int(dice.integers(len(mixes)))]
            options |= {"adapters": chosen, "adapter_weights": (0.7,) * len(chosen)}
        components.prepare([], resolve_options(GenerateOptions(**options), styles()))
        report = store.report()
        assert on_device(components) <= budget
        assert all(report.held_bytes[tier] <= size for tier, size in report.budget_bytes.items())
        if change in (40, 79):
            rss.append(process.memory_info().rss)
    assert rss[1] - rss[0] < 16_000_000  # a base and its combinations fill 12 MB
    assert len(store.known) < 40
    for base in ("poster", "chalk", "woodcut"):
        plain = components.pipeline(base).unet.state_dict()
        file = DiffusionPipeline.from_pretrained(MODELS / base, torch_dtype=torch.float32).unet.state_dict()
        assert all(torch.equal(plain[key], file[key]) for key in file), base
    engine.close()


def test_weights_of_another_network_are_told_and_leave_nothing_on_the_device() -> None:
    variant = styles()
    wrong = dataclasses.replace(variant.offer.of_kind("control")["outline"], source="models/loras/mint", sha256="")
    components = tuple(wrong if each.id == wrong.id else each for each in variant.components)
    variant = dataclasses.replace(variant, components=components)
    engine = load(variant, 1)
    how = resolve_options(GenerateOptions(steps=1, **CONTROLLED), variant)
    task = GenerationTask(request_id="r", prompt="a red heart", seed=7, controls=(Image.new("RGB", (48, 48)),))
    with pytest.raises(EngineFailed, match="control 'outline' cannot be loaded from"):
        engine.generate([task], how, lambda: False)
    assert "control:outline" not in store_of(engine).resident_ids(Tier.DEVICE)
    engine.close()


def test_a_base_that_leaves_the_device_is_freed_at_once_with_what_was_fused_from_it() -> None:
    engine = load(styles(), 1, Keeping(settings=WorkerComponentSettings(device_bytes=2 * BASE + 4_500_000)))
    components = engine.components
    assert components is not None
    components.prepare([], resolve_options(GenerateOptions(adapters=("mint",)), styles()))
    parts = components._parts.bases["base:poster"]
    seen = [weakref.ref(each) for each in (parts, parts.pipeline.unet, parts.pipeline)]
    del parts
    gc.collect()
    gc.disable()  # what is in a circle would stay until it runs
    try:
        for base in ("chalk", "woodcut", "chalk"):
            components.prepare([], resolve_options(GenerateOptions(model=base), styles()))
        assert [each() for each in seen] == [None] * 3
    finally:
        gc.enable()
    engine.close()


def on_device(components: Any) -> int:
    """Bytes of the tensors of all that is resident."""
    parts, held = components._parts, 0
    for base in parts.bases.values():
        networks = [part for part in base.pipeline.components.values() if isinstance(part, torch.nn.Module)]
        base.weights.apply(())
        held += sum(each.numel() * each.element_size() for network in networks for each in network.parameters())
        held += base.weights.bytes
    return held + sum(
        (each.down.numel() + each.up.numel()) * 4 for layers in parts.adapters.values() for each in layers.values()
    )


def test_networks_are_built_on_the_device_that_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    copied = building._copied

    def noted(tensor: torch.Tensor, dtype: torch.dtype, device: str | torch.device) -> torch.Tensor:
        asked.append(device)
        own = copied(tensor, dtype, device)
        assert own.data_ptr() != tensor.data_ptr(), "nothing points into a buffer"
        return own

    monkeypatch.setattr(building, "_copied", noted)
    there = torch.device("cpu", 0)  # the CPU by a name that nothing uses where none is given
    monkeypatch.setattr(composing, "placed", lambda *_, **__: (there, torch.float32))
    engine = load(styles(), 1)
    try:
        assert asked
        assert set(asked) == {there}
        assert not any(weights.is_meta for weights in engine.components.opened().unet.parameters())  # type: ignore[union-attr]
    finally:
        engine.close()
