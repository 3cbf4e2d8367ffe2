"""The remote of a run with components: published, served, and cut."""

import pathlib
import shutil
from collections.abc import Iterator

import pytest

from planner.catalog.components import ADAPTER, Component
from replay.verify.chaos.weights.remote import BUCKET, WeightsRemote, folder_of
from streams import catalogs
from streams.store.port import StoreUnavailable
from streams.weights.errors import DamagedWeights
from streams.weights.remotes.open import open_remote
from streams.weights.remotes.remote import Remote, read_manifest
from streams.weights.volume import Volume
from tests.streams.store.s3_server import set_up_credentials


@pytest.fixture(scope="module")
def adapters() -> list[Component]:
    components = catalogs.load("tiny").level("styles").components
    return [each for each in components if each.kind == ADAPTER][:2]


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory, adapters: list[Component]) -> Iterator[WeightsRemote]:
    remote = WeightsRemote(tmp_path_factory.mktemp("remote") / BUCKET, adapters)
    with pytest.MonkeyPatch.context() as patch:
        set_up_credentials(patch)
        with remote.serving():
            yield remote


def of(remote: WeightsRemote, component: Component) -> Remote:
    return open_remote(f"s3://{BUCKET}/{component.kind}/{component.name}", remote.endpoint_url, "us-east-1")


def volume_in(folder: pathlib.Path) -> Volume:
    return Volume(folder / "volume", 10_000_000, wait=lambda _: None)


def test_what_ships_is_fetched_through_the_proxy_and_is_what_the_catalog_says(
    remote: WeightsRemote, adapters: list[Component], tmp_path: pathlib.Path
) -> None:
    for each in adapters:
        listed = read_manifest(of(remote, each))
        assert each.sha256 in {file.sha256 for file in listed.files}
        volume_in(tmp_path).fetch(of(remote, each), listed)
    assert remote.proxy.cuts == 0


def test_connections_are_cut_within_a_file_for_as_long_as_the_block_runs(
    remote: WeightsRemote, adapters: list[Component], tmp_path: pathlib.Path
) -> None:
    volume, source = volume_in(tmp_path), of(remote, adapters[0])
    listed, before = read_manifest(source), remote.proxy.cuts
    with remote.proxy.cutting(70_000):
        done = volume.fetch(source, listed)
    assert remote.proxy.cuts > before
    assert done.retries > 0
    assert volume.path(listed.digest)


def test_a_remote_that_is_away_closes_each_connection(remote: WeightsRemote, adapters: list[Component]) -> None:
    with remote.proxy.cutting(0), pytest.raises(StoreUnavailable):
        read_manifest(of(remote, adapters[0]))
    read_manifest(of(remote, adapters[0]))


def test_a_file_that_is_cut_there_reaches_no_volume(
    remote: WeightsRemote, adapters: list[Component], tmp_path: pathlib.Path
) -> None:
    file = next(folder_of(remote.folder, adapters[1]).glob("*.safetensors"))
    right = shutil.copy2(file, tmp_path / "right")
    listed = read_manifest(of(remote, adapters[1]))
    file.write_bytes(file.read_bytes()[:-1])
    try:
        with pytest.raises(DamagedWeights):
            volume_in(tmp_path).fetch(of(remote, adapters[1]), listed)
    finally:
        shutil.copy2(right, file)
