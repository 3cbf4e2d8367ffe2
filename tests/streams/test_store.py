"""One contract for every object store."""

import pathlib
from collections.abc import Callable

import pytest

from schemas.errors import PochadeError
from streams.store import FolderImageStore, ImageStore, MemoryImageStore, StoreUnavailable

OPEN: dict[str, Callable[[pathlib.Path], ImageStore]] = {
    "folder": FolderImageStore,
    "memory": lambda _: MemoryImageStore(),
}


@pytest.fixture(params=sorted(OPEN))
def store(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> ImageStore:
    return OPEN[request.param](tmp_path)


def test_what_was_put_is_got(store: ImageStore) -> None:
    assert store.get(store.put("job-1", b"picture")) == b"picture"


def test_the_same_bytes_under_the_same_name_are_one_object(store: ImageStore) -> None:
    assert store.put("job-1", b"picture") == store.put("job-1", b"picture")


def test_other_bytes_under_the_same_name_never_overwrite(store: ImageStore) -> None:
    first, second = store.put("job-1", b"one"), store.put("job-1", b"two")
    assert store.get(first) == b"one"
    assert store.get(second) == b"two"


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "ünï", "", "x" * 500])
def test_any_name_gives_a_safe_key(store: ImageStore, name: str) -> None:
    assert store.get(store.put(name, b"data")) == b"data"


def test_a_uri_of_another_store_is_refused(store: ImageStore) -> None:
    with pytest.raises(PochadeError):
        store.get("file:///etc/hostname")


def test_a_picture_that_has_gone_is_said_so(tmp_path: pathlib.Path) -> None:
    store = FolderImageStore(tmp_path)
    uri = store.put("job", b"x")
    next(tmp_path.glob("*/*.png")).unlink()
    with pytest.raises(PochadeError, match="has gone"):
        store.get(uri)


def test_a_folder_that_cannot_be_written_is_unavailable_not_fatal(tmp_path: pathlib.Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StoreUnavailable, match="cannot write"):
        FolderImageStore(blocked).put("job", b"x")
