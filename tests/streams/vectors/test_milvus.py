"""What only a server can show: refusals that say what to do, and a collection that somebody dropped."""

from collections.abc import Callable

import pytest
from pymilvus import MilvusClient

from streams.settings import load
from streams.vectors import lite
from streams.vectors.open import collection_of, open_vectors
from streams.vectors.port import VectorsUnavailable, WrongCollection
from tests.streams.vectors.backends import Backend, opened
from tests.streams.vectors.conftest import is_ensured
from tests.streams.vectors.rows import CALL_S, DIMENSION, a_row, ids, poll_until, written

pytestmark = pytest.mark.milvus


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"token": "root:wrong"}, "check vectors.token"),
        ({"token": ""}, "check vectors.token"),
        ({"ca": ""}, "vectors.ca"),
    ],
)
def test_a_refusal_names_the_setting_to_correct(
    started: Callable[[str], Backend], changes: dict[str, str], said: str
) -> None:
    real = started("real")
    usual = opened(real)
    poll_until(lambda: is_ensured(usual), "the store answers")
    usual.close()
    vectors = real.settings.vectors.model_dump() | changes
    store = open_vectors(load({"vectors": vectors}), "key-1")
    assert store is not None
    with pytest.raises(VectorsUnavailable, match=said):
        store.probe(CALL_S)
    store.close()


def test_a_collection_that_somebody_dropped_is_missing_until_it_is_ensured_again(
    server: Backend,
) -> None:
    key = "dropped"
    store = opened(server, key)
    poll_until(lambda: is_ensured(store), "the store answers")
    written(store, a_row(id="before"))
    vectors = server.settings.vectors
    uri = lite.url(server.settings) if vectors.url == "lite" else vectors.url
    client = MilvusClient(uri, token=vectors.token, server_pem_path=vectors.ca, dedicated=True)
    client.drop_collection(collection_of(server.settings.kafka.prefix, key))
    client.close()
    with pytest.raises(WrongCollection, match="ensure it"):
        ids(store)
    store.ensure(DIMENSION, CALL_S)
    assert ids(store) == []
    written(store, a_row(id="after"))
    store.close()
