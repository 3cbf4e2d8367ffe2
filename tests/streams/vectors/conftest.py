"""Servers of vector stores: each is started once a session, by the first test that asks for it."""

from collections.abc import Callable, Iterator

import pytest

from streams.vectors.port import VectorStore, VectorsUnavailable
from tests.streams.vectors.backends import Backend, Exact, Lite, Real, opened
from tests.streams.vectors.milvus_server import why_not
from tests.streams.vectors.rows import CALL_S, DIMENSION, poll_until

KINDS = {"exact": Exact, "lite": Lite, "real": Real}


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Backend]]:
    backends: dict[str, Backend] = {}

    def get(kind: str) -> Backend:
        if kind == "real" and (reason := why_not()):
            pytest.skip(reason)
        if kind not in backends:
            backends[kind] = KINDS[kind](tmp_path_factory.mktemp(kind))
        return backends[kind]

    yield get
    for each in backends.values():
        each.close()


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, started: Callable[[str], Backend]) -> Backend:
    return started(request.param)


@pytest.fixture(params=["lite", "real"])
def server(request: pytest.FixtureRequest, started: Callable[[str], Backend]) -> Backend:
    return started(request.param)


@pytest.fixture
def store(backend: Backend) -> Iterator[VectorStore]:
    yield from ready(backend)


@pytest.fixture
def served(server: Backend) -> Iterator[VectorStore]:
    yield from ready(server)


def ready(backend: Backend) -> Iterator[VectorStore]:
    """A client of the one collection that tests share; each has tenants of its own."""
    store = opened(backend)
    poll_until(lambda: is_ensured(store), "the store answers")
    yield store
    store.close()


def is_ensured(store: VectorStore) -> bool:
    try:
        store.ensure(DIMENSION, CALL_S)
    except VectorsUnavailable:
        return False
    return True
