"""One contract for every vector store: exact search, Milvus Lite, and a Milvus server with TLS and a password."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from streams.settings import Settings
from streams.vectors.open import open_all, open_vectors
from streams.vectors.port import (
    Latent,
    Nearest,
    Selection,
    UnusableRow,
    VectorStore,
    VectorsUnavailable,
    Wanted,
    WrongCollection,
)
from tests.streams.vectors.backends import Backend, opened
from tests.streams.vectors.conftest import is_ensured
from tests.streams.vectors.rows import (
    CALL_S,
    DIMENSION,
    EAST,
    HOUR_MS,
    NORTH,
    NORTH_EAST,
    NOW_MS,
    WANTED,
    a_row,
    ids,
    matches,
    poll_until,
    written,
)

pytestmark = pytest.mark.milvus

HOSTILE = (
    'a tenant" or tenant_key != "',
    'back\\slash\\" or 1 == 1 //',
    "it's 'quoted' \n\t\0 {tenant}",
    "ünïcodé 東京 🎨 \ud800",
    "",
    "x" * 5000,
)
FAST_S = 5.0  # within which a dead server is reported, on a loaded machine too


@pytest.fixture
def wanted(request: pytest.FixtureRequest) -> Wanted:
    """What a job of this test's own tenant wants: other tests' rows are in the same collection."""
    return replace(WANTED, tenant=request.node.name)


def test_ensuring_a_collection_again_changes_nothing(store: VectorStore, wanted: Wanted) -> None:
    written(store, a_row(tenant=wanted.tenant), wanted=wanted)
    store.ensure(DIMENSION, CALL_S)
    assert ids(store, wanted) == ["row-1"]


def test_processes_that_ensure_the_same_at_once_all_succeed(backend: Backend) -> None:
    stores = [opened(backend, "ensured at once") for _ in range(3)]
    results: list[bool] = []
    threads = [threading.Thread(target=lambda s: results.append(is_ensured(s)), args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in stores:
        each.close()
    assert results == [True] * 3


def test_a_row_comes_back_as_it_was_written(store: VectorStore, wanted: Wanted) -> None:
    row = a_row(tenant=wanted.tenant, vector=NORTH_EAST)
    written(store, row, wanted=wanted)
    (match,) = matches(store, wanted, EAST)
    assert match.row == row
    assert match.similarity == pytest.approx(0.5**0.5)


def test_the_nearest_come_first_and_no_more_than_asked_for(store: VectorStore, wanted: Wanted) -> None:
    rows = {"east": EAST, "north": NORTH, "between": NORTH_EAST}
    written(store, *(a_row(id=f"near-{name}", tenant=wanted.tenant, vector=rows[name]) for name in rows), wanted=wanted)
    assert ids(store, wanted, EAST) == ["near-east", "near-between", "near-north"]
    found = store.nearest(EAST, wanted, 2, CALL_S)
    assert [match.row.id for match in found.matches] == ["near-east", "near-between"]
    assert not found.dropped


def test_writing_a_row_again_replaces_it(store: VectorStore, wanted: Wanted) -> None:
    row = a_row(id="again", tenant=wanted.tenant)
    for _ in range(2):
        written(store, row, wanted=wanted)
    changed = replace(row, source=replace(row.source, score=0.75))
    written(store, changed, wanted=wanted)
    poll_until(lambda: [match.row for match in matches(store, wanted)] == [changed], "the new row alone is found")


def test_what_rows_name_is_read_by_their_ids_whoever_they_are_of(store: VectorStore, wanted: Wanted) -> None:
    own = a_row(id=f"by-id-{wanted.tenant[-6:].strip('[]-')}-1", tenant=wanted.tenant)
    other = replace(own, id=f"{own.id}-2", tenant="somebody")
    assert store.latents([own.id, other.id], CALL_S) == {}
    written(store, own, wanted=wanted)
    written(store, other, wanted=replace(wanted, tenant="somebody"))
    nobodys = [f"nobodys-{number}" for number in range(600)]  # more than one question of Milvus has
    found = store.latents([own.id, *nobodys, other.id, own.id], CALL_S)
    assert found == {own.id: own.latent, other.id: other.latent}
    assert store.latents([], CALL_S) == {}


def test_every_collection_of_a_deployment_is_opened_and_none_of_another(
    store: VectorStore, backend: Backend, wanted: Wanted
) -> None:
    row = a_row(id="of-the-deployment", tenant=wanted.tenant)
    written(store, row, wanted=wanted)
    found = open_all(backend.settings, CALL_S)
    assert [latents for each in found if (latents := _latents(each, row.id))] == [{row.id: row.latent}]
    assert open_all(_named(backend, f"{backend.settings.kafka.prefix}-other"), CALL_S) == []
    for each in found:
        each.close()


def test_collections_of_a_deployment_with_a_like_name_are_another_s(backend: Backend) -> None:
    store = open_vectors(_named(backend, "like-named"), "key")
    assert store is not None
    poll_until(lambda: is_ensured(store), "the store answers")
    store.close()
    assert open_all(_named(backend, "like.named"), CALL_S) == []


def _named(backend: Backend, prefix: str) -> Settings:
    """The settings of a deployment with this prefix on the same store."""
    kafka = backend.settings.kafka.model_copy(update={"prefix": prefix})
    return backend.settings.model_copy(update={"kafka": kafka})


def _latents(store: VectorStore, name: str) -> dict[str, Latent]:
    try:
        return store.latents([name], CALL_S)
    except WrongCollection:  # one that another test dropped
        return {}


def test_another_process_finds_it_too(store: VectorStore, backend: Backend, wanted: Wanted) -> None:
    written(store, a_row(id="shared", tenant=wanted.tenant), wanted=wanted)
    other = opened(backend)
    poll_until(lambda: ids(other, wanted) == ["shared"], "another client finds the row")
    other.close()


@pytest.mark.parametrize(
    ("name", "value"), [("tenant", "mallory"), ("model", "model-2"), ("width", 128), ("height", 128)]
)
def test_what_is_another_tenants_models_or_sizes_is_not_found(
    store: VectorStore, wanted: Wanted, name: str, value: Any
) -> None:
    own = a_row(id=f"own-{name}", tenant=wanted.tenant)
    other, of_others = replace(own, id=f"other-{name}", **{name: value}), replace(wanted, **{name: value})
    written(store, own, wanted=wanted)
    written(store, other, wanted=of_others)
    assert ids(store, wanted) == [own.id]
    assert ids(store, of_others) == [other.id]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_tenant_may_have_any_name_and_finds_its_own_rows_alone(store: VectorStore, number: int) -> None:
    others = [a_row(id=f"hostile-{n}", tenant=name) for n, name in enumerate(HOSTILE)]
    store.upsert(others, CALL_S)
    row, wanted = others[number], replace(WANTED, tenant=HOSTILE[number])
    poll_until(lambda: [match.row for match in matches(store, wanted)] == [row], "its own row alone is found")
    store.delete(Selection(tenant=row.tenant), CALL_S)
    poll_until(lambda: ids(store, wanted) == [], "its row is deleted")


def test_what_has_expired_is_not_found(store: VectorStore, wanted: Wanted) -> None:
    row = a_row(id="expires", tenant=wanted.tenant, expires_ms=NOW_MS + 1)
    written(store, row, wanted=wanted)
    assert ids(store, replace(wanted, now_ms=NOW_MS + 1)) == []


@pytest.mark.parametrize(
    "selection",
    [
        Selection(ids=("gone",)),
        Selection(expired_ms=NOW_MS + 1),
        Selection(created_before_ms=NOW_MS - HOUR_MS),
        Selection(model="old-model", tenant=None),
    ],
    ids=["ids", "expired", "created before", "model"],
)
def test_only_what_is_selected_is_deleted(store: VectorStore, wanted: Wanted, selection: Selection) -> None:
    tenant = wanted.tenant
    own = replace(selection, tenant=tenant)
    old = replace(wanted, model="old-model")
    gone = a_row(id="gone", tenant=tenant, model="old-model", expires_ms=NOW_MS + 1, created_ms=NOW_MS - HOUR_MS - 1)
    written(store, gone, wanted=old)
    written(store, a_row(id="stays", tenant=tenant), wanted=wanted)
    store.delete(own, CALL_S)
    store.delete(own, CALL_S)
    poll_until(lambda: ids(store, old) == [], "the selected row is gone")
    assert ids(store, wanted) == ["stays"]


def test_deleting_no_ids_deletes_nothing(store: VectorStore, wanted: Wanted) -> None:
    written(store, a_row(id="stays", tenant=wanted.tenant), wanted=wanted)
    store.delete(Selection(ids=()), CALL_S)
    assert ids(store, wanted) == ["stays"]


def test_a_vector_of_another_dimension_is_refused(store: VectorStore, wanted: Wanted) -> None:
    long = (*EAST, 0.0)
    for refused in (
        lambda: store.ensure(DIMENSION + 1, CALL_S),
        lambda: store.upsert([a_row(vector=long)], CALL_S),
        lambda: store.nearest(long, wanted, 1, CALL_S),
    ):
        with pytest.raises(WrongCollection, match="dimensions"):
            refused()


@pytest.mark.parametrize("vector", [(float("nan"), *EAST[1:]), (float("inf"), *EAST[1:]), (0.0,) * DIMENSION, ()])
def test_what_has_no_direction_is_refused(store: VectorStore, wanted: Wanted, vector: tuple[float, ...]) -> None:
    with pytest.raises(UnusableRow):
        store.nearest(vector, wanted, 1, CALL_S)


def test_a_collection_that_nobody_ensured_is_said_to_be_missing(backend: Backend, wanted: Wanted) -> None:
    store = opened(backend, "nobody ensured it")
    assert store.probe(CALL_S).rows is None
    for refused in (
        lambda: store.nearest(EAST, wanted, 1, CALL_S),
        lambda: store.upsert([a_row()], CALL_S),
        lambda: store.delete(Selection(), CALL_S),
    ):
        with pytest.raises(WrongCollection, match="ensure it"):
            refused()
    store.close()


def test_vectors_of_two_encoders_are_kept_apart_and_all_rows_of_one_may_be_deleted(
    backend: Backend, store: VectorStore, wanted: Wanted
) -> None:
    other = opened(backend, "another encoder")
    other.ensure(DIMENSION, CALL_S)
    written(store, a_row(id="of-one", tenant=wanted.tenant), wanted=wanted)
    written(other, a_row(id="of-the-other", tenant=wanted.tenant), wanted=wanted)
    other.delete(Selection(), CALL_S)
    poll_until(lambda: ids(other, wanted) == [], "all rows of the other are gone")
    assert ids(store, wanted) == ["of-one"]
    other.close()


def test_a_probe_tells_rows_and_dimension(store: VectorStore, wanted: Wanted) -> None:
    written(store, a_row(id="counted", tenant=wanted.tenant), wanted=wanted)
    poll_until(lambda: (store.probe(CALL_S).rows or 0) >= 1, "a row is counted")
    assert store.probe(CALL_S).dimension == DIMENSION


def test_a_closed_store_is_unavailable_or_opens_again(store: VectorStore, wanted: Wanted) -> None:
    store.close()
    try:
        assert isinstance(store.nearest(EAST, wanted, 1, CALL_S), Nearest)
    except VectorsUnavailable as error:
        assert "closed" in str(error)  # noqa: PT017  either is right


def test_a_store_that_hangs_costs_no_more_than_the_deadline(
    server: Backend, served: VectorStore, wanted: Wanted
) -> None:
    written(served, a_row(id="before", tenant=wanted.tenant), wanted=wanted)
    fresh = opened(server)  # it has to connect first
    server.freeze()
    try:
        for store in (served, fresh):
            for ask in (
                lambda s=store: s.nearest(EAST, wanted, 1, 0.2),
                lambda s=store: s.upsert([a_row()], 0.2),
                lambda s=store: s.delete(Selection(ids=("nobody",)), 0.2),
                lambda s=store: s.ensure(DIMENSION, 0.2),
                lambda s=store: s.probe(0.2),
            ):
                begun_s = time.monotonic()
                with pytest.raises(VectorsUnavailable):
                    ask()
                assert time.monotonic() - begun_s < 0.2 + FAST_S
    finally:
        server.thaw()
    poll_until(lambda: is_found(served, wanted), "the same client finds the row again")
    poll_until(lambda: is_found(fresh, wanted), "and the one that could not connect does")
    fresh.close()


def test_a_store_that_dies_is_reported_at_once_and_has_its_rows_when_it_is_back(
    server: Backend, served: VectorStore, wanted: Wanted
) -> None:
    written(served, a_row(id="before", tenant=wanted.tenant), wanted=wanted)
    server.kill()
    for _ in range(3):
        begun_s = time.monotonic()
        with pytest.raises(VectorsUnavailable):
            served.nearest(EAST, wanted, 1, 2 * FAST_S)
        assert time.monotonic() - begun_s < FAST_S
    server.start()
    poll_until(lambda: is_found(served, wanted), "the same client finds the row in the new process")
    written(served, a_row(id="before", tenant=wanted.tenant, created_ms=1), wanted=wanted)


def test_a_collection_that_nobody_has_ensured_since_the_store_began_can_be_asked_and_cleared(
    server: Backend, wanted: Wanted
) -> None:
    former = opened(server, "a former encoder")
    poll_until(lambda: is_ensured(former), "the store answers")
    written(former, a_row(id="before", tenant=wanted.tenant), wanted=wanted)
    server.kill()
    poll_until(lambda: _rows(former) is None, "the store is gone")
    former.close()
    server.start()
    later = opened(server, "a former encoder")
    poll_until(lambda: _rows(later) == 1, "its row is counted")
    later.delete(Selection(tenant=wanted.tenant), CALL_S)
    poll_until(lambda: _rows(later) == 0, "its row is gone")
    later.close()


def _rows(store: VectorStore) -> int | None:
    try:
        return store.probe(CALL_S).rows
    except VectorsUnavailable:
        return None


def is_found(store: VectorStore, wanted: Wanted) -> bool:
    try:
        return ids(store, wanted) == ["before"]
    except VectorsUnavailable:
        return False
