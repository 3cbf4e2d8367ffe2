"""`VectorStore` in a collection of Milvus, by pymilvus: a server, a cluster, or Milvus Lite as a local server.

Every call has two deadlines: the one that pymilvus gives to gRPC, and our own around it, as pymilvus retries and
reconnects in its own time. Filters hold hashes and numbers only, so that no name can change what they mean.
"""

import contextlib
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core writes past our log, and what it writes is raised here too

import grpc
from pymilvus import DataType, MilvusClient
from pymilvus.exceptions import MilvusException

from streams.vectors.port import (
    MAX_MATCHES,
    Dropped,
    Latent,
    Match,
    Nearest,
    Probed,
    Selection,
    UnusableRow,
    VectorRow,
    VectorsUnavailable,
    Wanted,
    WrongCollection,
    check_dimension,
)
from streams.vectors.row_text import as_row, as_text

logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs a stack trace of each failure; they are raised here

T = TypeVar("T")
Left = Callable[[], float]  # seconds that a call still has

CONNECT_S = 2.0
THREADS = 8  # calls at the same time; more wait, and give up at their deadlines
ROWS_A_CALL = 500
ANY_VECTOR = (1.0,)  # of a row that is read for what it names
MAX_TEXT = 65_535  # of a string, Milvus' own limit
CONSISTENCY = "Bounded"  # Strong waits for the next tick of the cluster's clock: 200 ms where Bounded takes 5
METRIC = "COSINE"
HNSW = {"index_type": "HNSW", "metric_type": METRIC, "params": {"M": 16, "efConstruction": 200}}
ANY_INDEX = {"index_type": "AUTOINDEX", "metric_type": METRIC, "params": {}}  # where there is no HNSW, as on Lite
SEARCH = {"metric_type": METRIC, "params": {"ef": 128}}
NO_COLLECTION = 100  # Milvus' error code
# of pymilvus, of gRPC beneath it, which pymilvus lets through on timeouts, and of answers that are none
FAILURES = (MilvusException, grpc.RpcError, grpc.FutureTimeoutError, OSError, ValueError, LookupError)
REMEDIES = {
    "auth check failure": "; check vectors.token",
    "UNAUTHENTICATED": "; check vectors.token",
    "CERTIFICATE_VERIFY_FAILED": "; set vectors.ca to the file of the authority that signed its certificate",
}
RECONNECT = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,  # gRPC's own is 120 s: a store that is back would not be noticed
    "grpc.min_reconnect_backoff_ms": 5000,  # for one attempt to connect, whatever its name says
}


class MilvusVectorStore:
    """One collection; connects at the first call, and again after each failure."""

    def __init__(
        self, uri: str, collection: str, *, token: str = "", ca: str = "", database: str = "", is_local: bool = False
    ) -> None:
        """`ca`: PEM file of the authority that signed the server's certificate; `is_local`: no proxy is asked."""
        self._uri = uri
        self._collection = collection
        self._options: dict[str, Any] = {
            "token": token,
            "db_name": database,
            "server_pem_path": ca,
            "grpc_options": RECONNECT | ({"grpc.enable_http_proxy": 0} if is_local else {}),
        }
        self._lock = threading.Lock()
        self._client: MilvusClient | None = None
        self._dimension: int | None = None  # of the collection, once it was asked for
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="vectors")

    def ensure(self, dimension: int, timeout_s: float) -> None:
        self._within(timeout_s, lambda client, left: self._ensure(client, dimension, left))

    def upsert(self, rows: Sequence[VectorRow], timeout_s: float) -> None:
        entities = [_entity(row) for row in rows]
        self._within(timeout_s, lambda client, left: self._upsert(client, rows, entities, left))

    def nearest(self, vector: Sequence[float], wanted: Wanted, limit: int, timeout_s: float) -> Nearest:
        hits = self._within(timeout_s, lambda client, left: self._search(client, vector, _filter(wanted), limit, left))
        matches, damaged = [], 0
        for hit in hits:
            try:
                row = as_row(hit["entity"].get("row"), hit["entity"].get("vector"))
                matches.append(Match(row, float(hit["distance"])))
            except UnusableRow:
                damaged += 1
        return Nearest(tuple(matches), {Dropped.DAMAGED: damaged} if damaged else {})

    def latents(self, ids: Sequence[str], timeout_s: float) -> dict[str, Latent]:
        found = self._within(timeout_s, lambda client, left: self._texts(client, ids, left)) if ids else []
        latents: dict[str, Latent] = {}
        for entity in found:
            with contextlib.suppress(UnusableRow):
                row = as_row(entity.get("row"), ANY_VECTOR)
                latents[row.id] = row.latent
        return latents

    def delete(self, selection: Selection, timeout_s: float) -> None:
        if selection.ids != ():
            expression = _selected(selection)
            self._within(
                timeout_s, lambda client, left: client.delete(self._collection, filter=expression, timeout=left())
            )

    def probe(self, timeout_s: float) -> Probed:
        return self._within(timeout_s, self._probe)

    def ask(self, timeout_s: float, question: Callable[[MilvusClient, Left], T]) -> T:
        """Call Milvus directly, within a deadline, for what the port does not offer: used to inject faults.

        Raises VectorsUnavailable, WrongCollection.
        """
        return self._within(timeout_s, question)

    def collections(self, timeout_s: float) -> list[str]:
        """Return the names of all collections of its database. Raises VectorsUnavailable."""
        return list(self._within(timeout_s, lambda client, left: client.list_collections(timeout=left())))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _ensure(self, client: MilvusClient, dimension: int, left: Left) -> None:
        if not client.has_collection(self._collection, timeout=left()):
            client.create_collection(
                self._collection, schema=_schema(dimension), consistency_level=CONSISTENCY, timeout=left()
            )
        found = self._described(client, left)
        if found != dimension:
            raise WrongCollection(f"{self._collection} at {self._uri} holds {found} dimensions, not {dimension}")
        if not client.list_indexes(self._collection, timeout=left()):
            self._index(client, left)
        client.load_collection(self._collection, timeout=left())
        self._dimension = dimension

    def _index(self, client: MilvusClient, left: Left) -> None:
        try:
            self._create_index(client, HNSW, left)
        except MilvusException:
            self._create_index(client, ANY_INDEX, left)

    def _create_index(self, client: MilvusClient, index: Mapping[str, Any], left: Left) -> None:
        params = client.prepare_index_params()
        params.add_index(field_name="vector", index_name="vector", **index)
        client.create_index(self._collection, params, timeout=left(), sync=False)

    def _described(self, client: MilvusClient, left: Left) -> int:
        """The collection's dimension. Raises WrongCollection where it has none, or other fields than ours."""
        fields = {each["name"]: each for each in client.describe_collection(self._collection, timeout=left())["fields"]}
        if not fields.keys() >= {"id", "vector", "row", "tenant_key", "model_key", "scope"}:
            raise WrongCollection(f"{self._collection} at {self._uri} is not one of ours: it has {', '.join(fields)}")
        return int(fields["vector"]["params"]["dim"])

    def _known_dimension(self, client: MilvusClient, left: Left) -> int:
        if self._dimension is None:
            self._dimension = self._described(client, left)
        return self._dimension

    def _upsert(
        self, client: MilvusClient, rows: Sequence[VectorRow], entities: Sequence[dict[str, Any]], left: Left
    ) -> None:
        dimension = self._known_dimension(client, left)
        for row in rows:
            check_dimension(row.vector, dimension, self._collection)
        for first in range(0, len(entities), ROWS_A_CALL):
            client.upsert(self._collection, list(entities[first : first + ROWS_A_CALL]), timeout=left())

    def _search(
        self, client: MilvusClient, vector: Sequence[float], expression: str, limit: int, left: Left
    ) -> list[Any]:
        check_dimension(vector, self._known_dimension(client, left), self._collection)
        (hits,) = client.search(
            self._collection,
            data=[list(vector)],
            anns_field="vector",
            filter=expression,
            limit=min(limit, MAX_MATCHES),
            output_fields=["vector", "row"],
            search_params=SEARCH,
            consistency_level=CONSISTENCY,
            timeout=left(),
        )
        return list(hits)

    def _texts(self, client: MilvusClient, ids: Sequence[str], left: Left) -> list[Any]:
        """Return rows without vectors: Lite reports errors for the vectors of recently written rows."""
        found: list[Any] = []
        for first in range(0, len(ids), ROWS_A_CALL):
            expression = _selected(Selection(ids=tuple(ids[first : first + ROWS_A_CALL])))
            found += client.query(self._collection, filter=expression, output_fields=["row"], timeout=left())
        return found

    def _probe(self, client: MilvusClient, left: Left) -> Probed:
        if not client.has_collection(self._collection, timeout=left()):
            return Probed(rows=None, dimension=None)
        dimension = self._described(client, left)
        self._search(client, [1.0] + [0.0] * (dimension - 1), "", 1, left)
        (counted,) = client.query(self._collection, output_fields=["count(*)"], timeout=left())
        return Probed(rows=int(counted["count(*)"]), dimension=dimension)

    def _within(self, timeout_s: float, ask: Callable[[MilvusClient, Left], T]) -> T:
        """Run a call in a thread, and leave it there at its deadline."""
        until_s = time.monotonic() + timeout_s

        def left() -> float:
            remaining = until_s - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            return remaining

        try:
            future = self._pool.submit(lambda: ask(self._connected(left), left))
        except RuntimeError:
            raise VectorsUnavailable(f"the connection to the vector store {self._uri} was closed") from None
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise VectorsUnavailable(f"the vector store {self._uri} gave no answer within {timeout_s:g} s") from None
        except FAILURES as error:
            raise self._translated(error) from error

    def _connected(self, left: Left) -> MilvusClient:
        with self._lock:
            left()
            if self._client is None:
                self._client = MilvusClient(self._uri, dedicated=True, timeout=CONNECT_S, **self._options)
            return self._client

    def _translated(self, error: Exception) -> VectorsUnavailable | WrongCollection:
        reason = _reason(error)
        if getattr(error, "code", None) == NO_COLLECTION:
            self._dimension = None
            return WrongCollection(f"{self._collection} is not at {self._uri}: ensure it")
        do = next((do for mark, do in REMEDIES.items() if mark in reason), "")
        return VectorsUnavailable(f"the vector store {self._uri}: {reason:.300}{do}")


def _reason(error: Exception) -> str:
    """Return gRPC's error text, which pymilvus hides behind its own; else Milvus' text."""
    for each in (error.__cause__, error):
        if isinstance(each, grpc.RpcError) and isinstance(each, grpc.Call):
            return f"{each.code().name} {each.details() or ''}"
    return str(getattr(error, "message", "") or error)


def _schema(dimension: int) -> Any:
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=128)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    schema.add_field("tenant_key", DataType.VARCHAR, max_length=64)
    schema.add_field("model_key", DataType.VARCHAR, max_length=64)
    for name in ("scope", "created_ms", "expires_ms"):
        schema.add_field(name, DataType.INT64)
    schema.add_field("row", DataType.VARCHAR, max_length=MAX_TEXT)
    return schema


def _entity(row: VectorRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "vector": list(row.vector),
        "tenant_key": _key(row.tenant),
        "model_key": _key(row.model),
        "scope": _scope(row),
        "created_ms": row.created_ms,
        "expires_ms": row.expires_ms,
        "row": as_text(row),
    }


def _filter(wanted: Wanted) -> str:
    return f"scope == {_scope(wanted):d} and expires_ms > {wanted.now_ms:d}"


def _scope(of: VectorRow | Wanted) -> int:
    """Return a number for tenant, model and size together: to compare texts by row took longer than the search itself.

    63 bits, so that it fits Milvus' signed integers. Rows of another scope with an equal number are removed by the
    check of the answer.
    """
    named = f"{_key(of.tenant)} {_key(of.model)} {of.width:d}x{of.height:d}"
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:8], "big") >> 1


def _selected(selection: Selection) -> str:
    """The filter of a selection; the ids in it are of the port's own few characters."""
    terms = []
    if selection.ids is not None:
        terms.append("id in [" + ", ".join(f'"{each}"' for each in selection.ids) + "]")
    if selection.tenant is not None:
        terms.append(f'tenant_key == "{_key(selection.tenant)}"')
    if selection.model is not None:
        terms.append(f'model_key == "{_key(selection.model)}"')
    if selection.expired_ms is not None:
        terms.append(f"expires_ms <= {selection.expired_ms:d}")
    if selection.created_before_ms is not None:
        terms.append(f"created_ms < {selection.created_before_ms:d}")
    return " and ".join(terms) or 'id != ""'


def _key(name: str) -> str:
    """The hash by which a name is filtered: a name may hold quotes, and be longer than a field."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
