"""Publishing a component: what is there stays, what is missing or altered is copied, the list comes last."""

import os
import pathlib
from collections.abc import Callable

import pytest

from schemas.errors import PochadeError
from streams.store.port import StoreUnavailable
from streams.weights import manifest
from streams.weights.publish import everything, missing, publish, send
from streams.weights.remotes.folder import FolderRemote
from streams.weights.remotes.remote import read_manifest
from tests.streams.weights.components import FILES, contents, made

LARGEST = "unet/model.safetensors"


class Noting(FolderRemote):
    """A folder that notes what is put there, and fails as often as a test wants."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.put_paths: list[str] = []
        self.failures = 0

    def put(self, path: str, file: pathlib.Path, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        if self.failures:
            self.failures -= 1
            on_bytes(7)
            raise StoreUnavailable("the test lets it fail")
        self.put_paths.append(path)
        super().put(path, file, on_bytes)


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    """A component of four files, which lies in the folder `remote`, too."""
    made(tmp_path)
    publish("base:test", tmp_path / "source-1", FolderRemote(tmp_path / "remote"))
    return tmp_path / "source-1"


def test_what_is_there_is_not_copied_again(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    remote = Noting(tmp_path / "remote")
    listed = publish("base:test", source, remote)
    assert remote.put_paths == []
    assert missing(listed, remote).is_nothing
    assert contents(tmp_path / "remote") == contents(source)


def test_a_changed_file_is_copied_alone_and_the_list_after_it(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (source / "config.json").write_text("{}")
    remote = Noting(tmp_path / "remote")
    listed = publish("base:test", source, remote)
    assert remote.put_paths == ["config.json", manifest.NAME]
    assert read_manifest(remote) == listed
    assert contents(tmp_path / "remote") == contents(source)


@pytest.mark.parametrize("damage", ["cut", "gone", "no list", "a list of something else"])
def test_a_remote_that_lost_a_part_is_made_whole(source: pathlib.Path, tmp_path: pathlib.Path, damage: str) -> None:
    there = tmp_path / "remote"
    if damage == "cut":
        os.truncate(there / LARGEST, 1000)
    elif damage == "gone":
        (there / LARGEST).unlink()
    elif damage == "no list":
        (there / manifest.NAME).unlink()
    else:
        (there / manifest.NAME).write_text('{"a": 1}')
    remote = Noting(there)
    listed = publish("base:test", source, remote)
    assert remote.put_paths[-1] == manifest.NAME
    assert contents(there) == contents(source)
    assert read_manifest(remote) == listed
    if damage in ("cut", "gone"):
        assert remote.put_paths == [LARGEST, manifest.NAME]


def test_everything_is_copied_where_that_is_asked(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "remote" / LARGEST
    target.write_bytes(bytes(target.stat().st_size))  # altered, of the same size
    remote = Noting(tmp_path / "remote")
    listed = manifest.describe("base:test", source)
    assert missing(listed, remote).is_nothing, "no file of the remote is read"
    send(listed, everything(listed), source, remote)
    assert contents(tmp_path / "remote") == contents(source)


def test_an_interrupted_copy_has_no_list_and_is_made_whole_by_the_next(tmp_path: pathlib.Path) -> None:
    made(tmp_path)
    source, remote = tmp_path / "source-1", Noting(tmp_path / "other")
    remote.failures = 10**6
    listed = manifest.describe("base:test", source)
    with pytest.raises(StoreUnavailable):
        send(listed, missing(listed, remote, lambda _: None), source, remote, wait=lambda _: None)
    assert not (tmp_path / "other" / manifest.NAME).exists()
    remote.failures = 0
    publish("base:test", source, remote)
    assert contents(tmp_path / "other") == contents(source)


def test_bytes_are_counted_once_however_often_a_file_begins_again(tmp_path: pathlib.Path) -> None:
    made(tmp_path)
    source, remote, counted = tmp_path / "source-1", Noting(tmp_path / "other"), list[int]()
    remote.failures = 2
    listed = manifest.describe("base:test", source)
    send(listed, missing(listed, remote), source, remote, counted.append, wait=lambda _: None)
    assert sum(counted) == listed.bytes == sum(FILES.values())
    assert max(counted) < listed.bytes, "large files are counted on their way"


def test_a_single_file_is_a_component_too(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "lora.safetensors"
    file.write_bytes(b"weights")
    (tmp_path / "other.safetensors").write_bytes(b"of another")
    remote = FolderRemote(tmp_path / "remote")
    listed = publish("adapter:test", file, remote)
    assert [each.path for each in listed.files] == ["lora.safetensors"]
    assert contents(tmp_path / "remote") == {"lora.safetensors": b"weights"}


def test_a_folder_that_cannot_be_written_is_told_with_what_to_do(tmp_path: pathlib.Path) -> None:
    made(tmp_path)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PochadeError, match=r"cannot write .*: .*; check the rights"):
        publish("base:test", tmp_path / "source-1", FolderRemote(tmp_path / "file" / "base"))
