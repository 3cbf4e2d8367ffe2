"""One contract for every object store: a folder, memory, and a bucket on a server that speaks S3."""

import os
import pathlib
import stat
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from schemas.errors import PochadeError
from streams.settings import InvalidSettings, load
from streams.store.folder import FolderImageStore
from streams.store.open import open_store
from streams.store.port import ImageStore, Stored, StoreUnavailable
from tests.memory_store import MemoryImageStore
from tests.streams.store.s3_server import s3_server, set_up_credentials

KINDS = ("folder", "memory", "s3", "s3-prefix")
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server("one-bucket", "another-bucket") as url:
        yield url


@pytest.fixture(params=KINDS)
def opened(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], ImageStore]:
    """Opens the same store each time it is called, as two processes would."""
    memory = MemoryImageStore()
    set_up_credentials(monkeypatch)
    prefix = f"/runs/{tmp_path.name}" if request.param == "s3-prefix" else ""
    s3_store = {"url": f"s3://one-bucket{prefix}", "s3_endpoint_url": s3, "s3_region": "us-east-1"}
    openers: dict[str, Callable[[], ImageStore]] = {
        "folder": lambda: open_store(load({"store": {"folder": str(tmp_path)}})),
        "memory": lambda: memory,
        "s3": lambda: open_store(load({"store": s3_store})),
    }
    return openers[request.param.removesuffix("-prefix")]


@pytest.fixture
def store(opened: Callable[[], ImageStore]) -> Iterator[ImageStore]:
    store = opened()
    yield store
    for stored in listed(store):
        store.delete(stored.uri)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def listed(store: ImageStore) -> list[Stored]:
    return list(store.list(now_ms() + HOUR_MS))


def test_what_was_put_is_got(store: ImageStore) -> None:
    assert store.get(store.put("job-1", b"picture")) == b"picture"


def test_another_process_gets_it_too(store: ImageStore, opened: Callable[[], ImageStore]) -> None:
    assert opened().get(store.put("job-1", b"picture")) == b"picture"


def test_the_same_bytes_under_the_same_name_are_one_object(store: ImageStore) -> None:
    assert store.put("job-1", b"picture") == store.put("job-1", b"picture")
    assert len(listed(store)) == 1


def test_workers_that_write_the_same_at_once_all_succeed_with_one_object(opened: Callable[[], ImageStore]) -> None:
    start, uris = threading.Barrier(8), []

    def put() -> None:
        store = opened()
        start.wait()
        uris.append(store.put("job-at-once", b"picture"))

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(uris) == 8
    assert len(set(uris)) == 1
    assert opened().get(uris[0]) == b"picture"
    opened().delete(uris[0])


def test_other_bytes_under_the_same_name_never_overwrite(store: ImageStore) -> None:
    first, second = store.put("job-1", b"one"), store.put("job-1", b"two")
    assert store.get(first) == b"one"
    assert store.get(second) == b"two"


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "ünï", "", "x" * 500, "a b?c=d#e%20"])
def test_any_name_gives_a_safe_key(store: ImageStore, name: str) -> None:
    assert store.get(store.put(name, b"data")) == b"data"
    assert len(listed(store)) == 1


@pytest.mark.parametrize("uri", ["file:///etc/hostname", "s3://another-bucket/ab/x-0123456789abcdef.png", "nonsense"])
def test_a_uri_of_another_store_is_refused(store: ImageStore, uri: str) -> None:
    for ask in (store.get, store.delete):
        with pytest.raises(PochadeError, match="is not an image of"):
            ask(uri)


def test_a_listing_names_every_image_with_its_size_and_time(store: ImageStore) -> None:
    wanted = {store.put(f"job-{n}", b"x" * n): n for n in range(1, 4)}
    found = listed(store)
    assert {stored.uri: stored.bytes for stored in found} == wanted
    assert all(abs(stored.modified_ms - now_ms()) < 60_000 for stored in found)


def test_a_listing_leaves_out_what_is_newer(store: ImageStore) -> None:
    store.put("job-1", b"picture")
    assert list(store.list(now_ms() - HOUR_MS)) == []


def test_what_was_deleted_has_gone_and_may_be_deleted_again(store: ImageStore) -> None:
    uri = store.put("job-1", b"picture")
    store.delete(uri)
    store.delete(uri)
    assert listed(store) == []
    with pytest.raises(PochadeError, match="has gone"):
        store.get(uri)


def test_what_was_deleted_can_be_put_again(store: ImageStore) -> None:
    store.delete(store.put("job-1", b"picture"))
    assert store.get(store.put("job-1", b"picture")) == b"picture"


def test_a_folder_that_cannot_be_written_is_unavailable_not_fatal(tmp_path: pathlib.Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StoreUnavailable, match="cannot write"):
        FolderImageStore(blocked).put("job", b"x")


def test_a_write_that_a_full_disk_broke_off_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", no_space)
    with pytest.raises(StoreUnavailable, match="No space left on device; free space"):
        FolderImageStore(tmp_path).put("job", b"x")
    assert listed(FolderImageStore(tmp_path)) == []


def test_images_lie_where_no_other_user_may_look_unless_the_folder_was_made_for_others(tmp_path: pathlib.Path) -> None:
    FolderImageStore(tmp_path / "home" / "images").put("job-1", b"picture")
    assert [mode(tmp_path / "home"), mode(tmp_path / "home" / "images")] == [0o700, 0o700]
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    FolderImageStore(shared).put("job-1", b"picture")
    assert mode(shared) == 0o2770


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("left", [b"", b"pict", b"another"])
def test_a_file_that_a_power_cut_damaged_is_refused_and_written_again(tmp_path: pathlib.Path, left: bytes) -> None:
    store = FolderImageStore(tmp_path)
    uri = store.put("job-1", b"picture")
    (file,) = tmp_path.glob("[0-9a-f][0-9a-f]/*")
    file.write_bytes(left)
    with pytest.raises(PochadeError, match="is damaged"):
        store.get(uri)
    assert store.put("job-1", b"picture") == uri
    assert store.get(uri) == b"picture"


def test_an_image_and_its_name_are_on_the_disk_before_its_uri_is_returned(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    replace = os.replace
    monkeypatch.setattr(
        os, "fsync", lambda handle: steps.append(pathlib.Path(f"/proc/self/fd/{handle}").readlink().parent.name)
    )
    monkeypatch.setattr(os, "replace", lambda *paths: steps.append("replace") or replace(*paths))
    FolderImageStore(tmp_path).put("job-1", b"picture")
    assert steps == ["drafts", "replace", tmp_path.name]


def test_files_of_others_in_the_folder_are_never_listed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "holiday.png").write_bytes(b"mine")
    (tmp_path / "holidays").mkdir()
    (tmp_path / "holidays" / "sea.png").write_bytes(b"mine")
    assert listed(FolderImageStore(tmp_path)) == []


def test_two_stores_in_the_settings_are_an_error() -> None:
    with pytest.raises(InvalidSettings, match="unset one"):
        open_store(load({"store": {"url": "s3://bucket", "folder": "/tmp/x"}}))


def test_what_no_store_ever_made_is_refused_and_not_waited_for(store: ImageStore) -> None:
    root, name = store.put("job-1", b"picture").rsplit("/", 2)[0], "0" * 16 + ".png"
    for uri in (
        root,
        f"{root}/",
        f"{root}/ab",
        f"{root}/ab/{'x' * 3000}-{name}",
        f"{root}/ab/\0-{name}",
        "file://[",
        "",
    ):
        with pytest.raises(PochadeError) as refused:
            store.get(uri)
        assert not isinstance(refused.value, StoreUnavailable)
