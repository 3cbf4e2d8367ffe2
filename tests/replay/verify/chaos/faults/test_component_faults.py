"""Faults of components: workers killed at points, files that are altered or cut, and a remote that is wrong."""

import contextlib
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from planner.catalog.components import ADAPTER, Component
from replay.verify.chaos.faults import components, weights
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.weights.points import FETCH
from replay.verify.chaos.weights.remote import folder_of
from replay.verify.chaos.world import NotThere, Steps
from streams.settings import load
from streams.weights.publish import publish
from streams.weights.remotes.folder import FolderRemote
from streams.weights.remotes.remote import read_manifest
from streams.weights.volume import Volume
from tests.integration.waiting import poll_until
from tests.paths import ROOT
from tests.patience import PATIENCE_S

FETCHING = """
import pathlib, sys, time
from replay.verify.chaos.weights.points import stop
print("on", flush=True)
while True:
    [stop(pathlib.Path(each)) for each in sys.argv[1:]]
    time.sleep(0.01)
"""
NAMES = ("one", "two")


def a_fault(kind: str, dice: int = 1, lasts_ms: float = 0.0) -> Fault:
    return Fault(number=0, at_ms=0, kind=kind, target="", lasts_ms=lasts_ms, dice=dice)


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Any:
    """A volume with one of two adapters that are published on a remote."""
    kept = {"remote": "s3://weights", "volume": str(tmp_path / "volume"), "volume_bytes": 1 << 20}
    settings = load({"home": tmp_path, "worker": {"components": kept}})
    bucket = tmp_path / "remote"
    listed = [Component(kind=ADAPTER, name=name, source=name) for name in NAMES]
    for each in listed:
        source = tmp_path / each.name
        source.mkdir()
        (source / "weights.safetensors").write_bytes(random.Random(each.name).randbytes(20_000))
        publish(each.id, source, FolderRemote(folder_of(bucket, each)))
    remote = SimpleNamespace(folder=bucket, components=listed)
    found = SimpleNamespace(settings=settings, remote=remote, name_of=lambda pid: f"worker {pid}")
    fetch(found, 0)
    return found


def remote_of(world: Any, number: int) -> FolderRemote:
    return FolderRemote(folder_of(world.remote.folder, world.remote.components[number]))


def fetch(world: Any, number: int) -> str:
    source = remote_of(world, number)
    listed = read_manifest(source)
    components.volume_of(world.settings).fetch(source, listed)
    return listed.digest


def over(steps: Steps) -> str:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)


@pytest.fixture
def worker(world: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that comes to every point of a fetch again and again, as one that fetches does."""
    points = components.points_of(world.settings)
    command = [sys.executable, "-c", FETCHING, *(str(points / name) for name in FETCH)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize("dice", range(3))
def test_a_worker_that_comes_to_the_point_is_killed_there(
    world: Any, worker: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch, dice: int
) -> None:
    monkeypatch.setattr(components, "POLL_S", 0.05)
    steps, told = components.fetch_kill(world, a_fault("fetch-kill", dice)), list[str]()

    def is_over() -> bool:
        try:
            next(steps)
        except StopIteration as end:
            told.append(str(end.value))
        return bool(told)

    poll_until(is_over, "a worker at the point")
    assert worker.wait(PATIENCE_S) == -signal.SIGKILL
    assert told[0].startswith(f"SIGKILL of worker {worker.pid} when ")
    assert told[0].endswith("; 1 removed before"), "the volume was emptied, so that there is something to fetch"
    assert not list(components.points_of(world.settings).iterdir())


def test_a_kill_that_no_worker_comes_to_is_told_and_leaves_no_point_armed(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(components, "AMBUSH_S", 0.1)
    with pytest.raises(NotThere, match=r"no worker came to fuse within 0\.1 s"):
        over(components.fuse_kill(world, a_fault("fuse-kill")))
    assert not list(components.points_of(world.settings).iterdir())


def test_two_faults_do_not_wait_at_one_point(world: Any) -> None:
    first = components.fuse_kill(world, a_fault("fuse-kill"))
    next(first)
    with pytest.raises(NotThere, match="another fault waits"):
        over(components.fuse_kill(world, a_fault("fuse-kill")))
    first.close()


def test_what_a_process_holds_stays_on_the_volume(world: Any) -> None:
    digest = fetch(world, 1)
    holder = Volume(pathlib.Path(world.settings.worker.components.volume), 1 << 20)
    with holder.using(digest):
        assert components.clear_volume(world.settings) == 1
    assert list(holder.ready()) == [digest]


@pytest.mark.parametrize(("damage", "word"), [(weights.volume_altered, "altered"), (weights.volume_cut, "cut")])
def test_a_file_on_the_volume_is_damaged(world: Any, damage: Any, word: str) -> None:
    told = over(damage(world, a_fault("volume-altered")))
    (file,) = (pathlib.Path(world.settings.worker.components.volume) / "ready").rglob("*.safetensors")
    right = (world.settings.home / "one" / "weights.safetensors").read_bytes()
    assert word in told
    assert file.read_bytes() != right
    assert (len(file.read_bytes()) == len(right)) == (word == "altered")


class Proxy:
    """A proxy that nobody asks until the test says so."""

    def __init__(self) -> None:
        self.cuts, self.most = 3, list[int]()

    @contextlib.contextmanager
    def cutting(self, most: int) -> Iterator[None]:
        self.most.append(most)
        yield


@pytest.mark.parametrize(("fault", "is_away"), [(weights.remote_drops, False), (weights.remote_away, True)])
def test_connections_are_cut_from_the_first_one_on(world: Any, fault: Any, is_away: bool) -> None:
    world.remote.proxy = Proxy()
    steps = fault(world, a_fault("remote-drops", lasts_ms=5000))
    assert next(steps) < 1
    assert not components.volume_of(world.settings).ready(), "so that somebody must fetch"
    world.remote.proxy.cuts += 2
    assert next(steps) == 5.0
    assert ("2 connections closed" if is_away else "2 of them") in over(steps)
    assert (world.remote.proxy.most == [0]) == is_away


def test_a_remote_that_nobody_asks_is_not_cut(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "AMBUSH_S", 0.1)
    world.remote.proxy = Proxy()
    with pytest.raises(NotThere, match="no connection was cut"):
        over(weights.remote_away(world, a_fault("remote-away")))


def test_an_empty_volume_has_nothing_to_damage(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "AMBUSH_S", 0.1)
    components.clear_volume(world.settings)
    with pytest.raises(NotThere):
        over(weights.volume_cut(world, a_fault("volume-cut")))


@pytest.mark.parametrize("damage", [weights.remote_altered, weights.remote_cut])
def test_a_file_of_the_remote_is_wrong_for_a_while_and_nobody_has_it_on_the_volume(world: Any, damage: Any) -> None:
    def read() -> list[bytes]:
        return [each.read_bytes() for each in sorted(world.remote.folder.rglob("*.safetensors"))]

    right, steps = read(), damage(world, a_fault("remote-altered", lasts_ms=5000))
    assert next(steps) == 5.0
    assert sum(one != other for one, other in zip(right, read(), strict=True)) == 1
    assert not components.volume_of(world.settings).ready()
    steps.close()
    assert read() == right
    assert not list(world.remote.folder.rglob("*.kept"))


def test_two_components_lie_in_each_others_place_for_a_while(world: Any) -> None:
    steps = weights.remote_swapped(world, a_fault("remote-swapped", lasts_ms=5000))
    next(steps)
    assert [read_manifest(remote_of(world, number)).component for number in (0, 1)] == ["adapter:two", "adapter:one"]
    with pytest.raises(NotThere, match="another fault changes"):
        next(damage_while_swapped(world))
    steps.close()
    assert read_manifest(remote_of(world, 0)).component == "adapter:one"


def damage_while_swapped(world: Any) -> Steps:
    first = weights.remote_cut(world, a_fault("remote-cut", lasts_ms=5000))
    next(first)
    try:
        return (yield from weights.remote_swapped(world, a_fault("remote-swapped", lasts_ms=5000)))
    finally:
        first.close()


def test_where_no_small_disk_can_be_made_a_workers_files_cannot_grow(
    world: Any, worker: "subprocess.Popen[str]"
) -> None:
    world.child = lambda _target: worker
    steps = components._no_large_files(world, a_fault("volume-full", lasts_ms=5000))
    next(steps)
    assert resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)[0] == components.FILE_BYTES
    steps.close()
    assert resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    os.kill(worker.pid, signal.SIGKILL)
