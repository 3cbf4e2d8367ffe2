"""Faults of the vector store: what lies it tells, and faults on a real Milvus Lite."""

import pathlib
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from replay.verify.chaos.faults import vectors
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, Steps, World
from schemas.errors import PochadeError
from streams.settings import Settings, load
from streams.vectors import lite, lite_server
from streams.vectors.checking import why_dropped
from streams.vectors.open import open_vectors
from streams.vectors.port import Latent, UnusableRow, VectorRow, VectorStore, VectorsUnavailable
from streams.vectors.row_text import as_row
from tests.patience import PATIENCE_S
from tests.streams.vectors.rows import DIMENSION, WANTED, a_row, matches, poll_until, written

OBJECT = "file:///images/ab/0123-job-fedcba9876543210.safetensors"
OWN = a_row(id="own", latent=Latent(uri=OBJECT, sha256="ab12", bytes=512))
FOREIGN = a_row(id="foreign", tenant="mallory", latent=Latent(uri=f"{OBJECT}-2", sha256="cd34", bytes=512))


def told(row: VectorRow, others: list[VectorRow]) -> dict[str, str]:
    """Every lie about a row, with its text."""
    found = {}
    for dice in range(300):
        what, entity = vectors.lied({"id": row.id}, row, others, random.Random(dice))
        found[what] = entity["row"]
    return found


def test_every_lie_is_told_and_none_is_true() -> None:
    lies = told(OWN, [OWN, FOREIGN])
    assert set(lies) == set(vectors.LIES_ABOUT)
    for what, text in lies.items():
        try:
            row = as_row(text, OWN.vector)
        except UnusableRow:
            continue
        is_dropped = why_dropped(row, OWN.vector, WANTED) is not None
        assert is_dropped or row.latent != OWN.latent, what


def test_a_row_alone_is_lied_about_without_others() -> None:
    assert set(told(OWN, [OWN])) == set(vectors.LIES_ABOUT) - vectors.OF_OTHERS


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    settings = load({"home": tmp_path_factory.mktemp("home"), "vectors": {"url": "lite"}})
    try:
        lite_server.ensure(settings)
        yield settings
    finally:
        lite_server.stop(settings)


@pytest.fixture
def store(home: Settings) -> Iterator[VectorStore]:
    lite_server.ensure(home)
    store = open_vectors(home, "faults")
    assert store is not None
    store.ensure(DIMENSION, PATIENCE_S)
    yield store
    store.close()


def a_world(settings: Settings) -> World:
    hosted: Any = SimpleNamespace(settings=settings, processes=[])
    return World(hosted, None, None)  # type: ignore[arg-type]


def over(steps: Steps) -> str:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)


def a_fault(kind: str) -> Fault:
    return Fault(number=0, at_ms=0, kind=kind, target="", lasts_ms=0, dice=1)


def test_a_killed_store_comes_back_with_its_rows(home: Settings, store: VectorStore) -> None:
    written(store, OWN)
    before = lite.running(home)
    assert over(vectors.kill(a_world(home), a_fault("vectors-kill"))).startswith("SIGKILL of the vector store")
    after = lite.running(home)
    assert before is not None
    assert after is not None
    assert before.process != after.process
    poll_until(lambda: _found(store) == [OWN], "the row is there again")


def test_a_frozen_store_answers_nobody_until_it_goes_on(home: Settings, store: VectorStore) -> None:
    written(store, OWN)
    steps = vectors.freeze(a_world(home), a_fault("vectors-freeze"))
    next(steps)
    with pytest.raises(VectorsUnavailable):
        store.probe(0.2)
    assert over(steps).startswith("SIGSTOP of the vector store")
    poll_until(lambda: _found(store) == [OWN], "it answers again")


def test_rows_that_lie_are_found_and_none_of_them_is_used(home: Settings, store: VectorStore) -> None:
    written(store, OWN)
    for _ in range(3):  # a lie about a row is one about what it has become
        store.upsert([OWN], PATIENCE_S)
        assert over(vectors.lie(a_world(home), a_fault("vectors-lie"))).startswith("rows that lie: 1 ")
        assert all(row.latent != OWN.latent or row.tenant == OWN.tenant for row in _found(store))
        assert _found(store) != [OWN]


def test_a_dropped_collection_is_gone_until_it_is_ensured(home: Settings, store: VectorStore) -> None:
    written(store, OWN)
    assert over(vectors.empty(a_world(home), a_fault("vectors-empty"))) == "1 collections dropped, of 1 rows"
    assert store.probe(PATIENCE_S).dimension is None
    store.ensure(DIMENSION, PATIENCE_S)
    assert _found(store) == []
    over(vectors.empty(a_world(home), a_fault("vectors-empty")))
    with pytest.raises(NotThere, match="no collection"):
        over(vectors.empty(a_world(home), a_fault("vectors-empty")))


@pytest.mark.parametrize("act", [vectors.kill, vectors.freeze, vectors.empty, vectors.lie])
def test_a_store_that_does_not_run_cannot_be_broken(tmp_path: pathlib.Path, act: Any) -> None:
    with pytest.raises(NotThere):
        over(act(a_world(load({"home": tmp_path, "vectors": {"url": "lite"}})), a_fault("any")))


def _found(store: VectorStore) -> list[VectorRow]:
    try:
        return [match.row for match in matches(store)]
    except PochadeError:
        return []
