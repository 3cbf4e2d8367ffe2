"""Components in S3, on a real server: whole, by ranges, over connections that break, and errors that say what to do."""

import pathlib
import socket

import boto3
import pytest

from schemas.errors import PochadeError
from streams.store.port import StoreUnavailable
from streams.weights.errors import WeightsGone
from streams.weights.manifest import Manifest, describe
from streams.weights.publish import missing, publish, send
from streams.weights.remotes.open import open_remote
from streams.weights.remotes.remote import Remote, read_manifest
from streams.weights.volume import Volume
from tests.streams.store.s3_server import answering, s3_server, set_up_credentials
from tests.streams.weights.components import MIB, contents, cutting_proxy, made


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up_credentials(monkeypatch)


def remote_at(endpoint: str, prefix: str = "bases/test") -> Remote:
    return open_remote(f"s3://weights/{prefix}", endpoint, "us-east-1")


def in_bucket(folder: pathlib.Path, endpoint: str) -> Manifest:
    made(folder)
    return publish("base:test", folder / "source-1", remote_at(endpoint))


def volume_in(folder: pathlib.Path) -> Volume:
    return Volume(folder / "volume", 100 * MIB, ranges=4, wait=lambda _: None)


def test_a_component_comes_from_a_bucket_by_ranges(tmp_path: pathlib.Path) -> None:
    with s3_server("weights") as endpoint:
        listed = in_bucket(tmp_path, endpoint)
        volume, remote = volume_in(tmp_path), remote_at(endpoint)
        transfer = volume.fetch(remote, read_manifest(remote, listed.digest))
    folder = volume.path(listed.digest)
    assert folder
    assert contents(folder) == contents(tmp_path / "remote-1")
    assert transfer.retries == 0


def test_connections_that_are_cut_cost_retries_and_no_byte(tmp_path: pathlib.Path) -> None:
    with s3_server("weights") as endpoint, cutting_proxy(endpoint, 400_000) as cut:
        listed = in_bucket(tmp_path, endpoint)
        volume = volume_in(tmp_path)
        transfer = volume.fetch(remote_at(cut), listed)
    folder = volume.path(listed.digest)
    assert folder
    assert contents(folder) == contents(tmp_path / "remote-1")
    assert transfer.retries >= 10
    assert transfer.fetched_bytes == listed.bytes


def test_a_fetch_goes_on_after_the_server_was_away(tmp_path: pathlib.Path) -> None:
    with s3_server("weights") as endpoint:
        listed = in_bucket(tmp_path, endpoint)
        volume = volume_in(tmp_path)
        with cutting_proxy(endpoint, 5_000) as cut, pytest.raises(StoreUnavailable, match="cannot read"):
            volume.fetch(remote_at(cut), listed)
        volume.fetch(remote_at(endpoint), listed)
    assert volume.path(listed.digest)


def test_a_server_that_is_down_is_told_with_its_place(tmp_path: pathlib.Path) -> None:
    _, listed = made(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(
        StoreUnavailable, match=r"cannot read s3://weights/bases/test/config.json: .*is the server up\?"
    ):
        volume_in(tmp_path).fetch(remote_at(f"http://127.0.0.1:{port}"), listed)


def test_a_component_that_is_not_published_says_so() -> None:
    with s3_server("weights") as endpoint, pytest.raises(WeightsGone, match="publish the component"):
        read_manifest(remote_at(endpoint, "bases/nowhere"))


def test_a_refusal_is_not_retried(tmp_path: pathlib.Path) -> None:
    _, listed = made(tmp_path)
    with (
        answering(403, "AccessDenied") as endpoint,
        pytest.raises(PochadeError, match="check credentials, region, s3:GetObject") as refused,
    ):
        volume_in(tmp_path).fetch(remote_at(endpoint), listed)
    assert not isinstance(refused.value, StoreUnavailable)


def test_a_server_without_ranges_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    made(tmp_path)
    with answering(200, "Whole") as endpoint, pytest.raises(PochadeError, match="does not honour ranges"):
        remote_at(endpoint).read_into("config.json", '"etag"', 2, memoryview(bytearray(5)))


def test_an_object_that_changes_while_it_is_read_is_not_mixed() -> None:
    with s3_server("weights") as endpoint:
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.put_object(Bucket="weights", Key="bases/test/file", Body=b"old bytes")
        remote = remote_at(endpoint)
        version = remote.stat("file").version
        client.put_object(Bucket="weights", Key="bases/test/file", Body=b"new bytes")
        with pytest.raises(WeightsGone, match="changed while it was read"):
            remote.read_into("file", version, 0, memoryview(bytearray(4)))


def test_a_large_file_is_published_in_parts_and_counted_on_its_way(tmp_path: pathlib.Path) -> None:
    source, counted = tmp_path / "source", list[int]()
    source.mkdir()
    (source / "model.safetensors").write_bytes(bytes(9 * MIB))
    with s3_server("weights") as endpoint:
        listed, remote = describe("base:large", source), remote_at(endpoint)
        send(listed, missing(listed, remote), source, remote, counted.append)
        assert missing(listed, remote).is_nothing
        volume = volume_in(tmp_path)
        volume.fetch(remote, read_manifest(remote, listed.digest))
    assert volume.path(listed.digest)
    assert (sum(counted), len(counted) > 1) == (9 * MIB, True)


def test_publishing_to_no_bucket_or_without_rights_says_what_to_do(tmp_path: pathlib.Path) -> None:
    made(tmp_path)
    with s3_server() as endpoint, pytest.raises(PochadeError, match=r"there is no bucket 'none': create it"):
        publish("base:test", tmp_path / "source-1", open_remote("s3://none/x", endpoint, "us-east-1"))
    with (
        answering(403, "AccessDenied", head=404) as endpoint,
        pytest.raises(PochadeError, match="check credentials, region, s3:PutObject"),
    ):
        publish("base:test", tmp_path / "source-1", remote_at(endpoint))
