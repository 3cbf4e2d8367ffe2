"""Which store the settings open, and which settings are refused before anything is sent."""

import pathlib

import pytest

from schemas.errors import PochadeError
from streams.settings import InvalidSettings, load
from streams.vectors import open as opening
from streams.vectors.open import collection_of, open_all, open_vectors
from streams.vectors.port import Selection, VectorsUnavailable
from tests.streams.vectors.rows import CALL_S, DIMENSION, WANTED, a_row, ids

pytestmark = pytest.mark.milvus


def test_without_a_setting_there_is_no_store() -> None:
    assert open_vectors(load(), "key") is None


@pytest.mark.parametrize("url", ["milvus", "exact:", "LITE", "file:///x", "rows.db", "tcp://127.0.0.1:1"])
def test_a_store_of_an_unknown_kind_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings, match="must be lite, exact, http://HOST:PORT or https://HOST:PORT"):
        load({"vectors": {"url": url}})


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ({"url": "https://me:hunter2@127.0.0.1:1"}, "holds a password"),
        ({"url": "http://127.0.0.1:1", "token": "me:hunter2"}, "use https"),
        ({"url": "https://127.0.0.1:1", "ca": "/nowhere/ca.pem"}, "vectors.ca /nowhere/ca.pem cannot be read"),
        ({"url": "https://"}, "names no host"),
        ({"url": "https://127.0.0.1:1", "token": "file:/nowhere/hunter2"}, "vectors.token names the file"),
    ],
)
def test_settings_that_would_show_or_lose_a_secret_are_refused(vectors: dict[str, str], said: str) -> None:
    with pytest.raises(PochadeError, match=said) as refused:
        open_vectors(load({"vectors": vectors}), "key")
    assert "me:hunter2" not in str(refused.value)


def test_a_secret_is_not_shown_with_the_settings() -> None:
    assert "hunter2" not in repr(load({"vectors": {"url": "https://127.0.0.1:1", "token": "hunter2"}}))


@pytest.mark.parametrize(
    "vectors",
    [
        {"url": "http://127.0.0.1:1"},
        {"url": "https://127.0.0.1:1", "token": "hunter2"},
    ],
)
def test_opening_asks_nobody_and_a_server_that_is_not_there_is_unavailable(vectors: dict[str, str]) -> None:
    store = open_vectors(load({"vectors": vectors}), "key")
    assert store is not None
    with pytest.raises(VectorsUnavailable) as unavailable:
        store.probe(5)
    assert "127.0.0.1:1" in str(unavailable.value)
    assert "hunter2" not in str(unavailable.value)
    store.close()


def test_deployments_and_encoders_have_collections_of_their_own(tmp_path: pathlib.Path) -> None:
    names = [collection_of(prefix, key) for prefix in ("a.b", "a-b", "x" * 150) for key in ("k1", "k2")]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and len(name) < 200 for name in names)
    for key in ("k1", "k2"):
        store = open_vectors(load({"home": tmp_path, "vectors": {"url": "exact"}}), key)
        assert store is not None
        store.ensure(8, 5)
    assert len(list((tmp_path / "vectors").glob("*.jsonl"))) == 2


def test_rows_that_an_older_version_wrote_are_not_looked_up_but_are_deleted_with_their_tenant(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load({"home": tmp_path, "vectors": {"url": "exact"}})
    with monkeypatch.context() as before:
        before.setattr(opening, "VERSION", opening.VERSION - 1)
        old = open_vectors(settings, "key")
        assert old is not None
        old.ensure(DIMENSION, CALL_S)
        old.upsert([a_row()], CALL_S)
    new = open_vectors(settings, "key")
    assert new is not None
    new.ensure(DIMENSION, CALL_S)
    assert ids(new) == []
    for each in open_all(settings, CALL_S):
        each.delete(Selection(tenant=WANTED.tenant), CALL_S)
    assert ids(old) == []
