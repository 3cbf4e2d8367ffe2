"""The index writer: `results` -> rows in the vector store, by the plan in force. `IndexLogic` decides.

Offsets are committed after the rows are acknowledged. While a store is away it waits, longer each time, and reads the
same results again; a plan without reuse, and a deployment without `vectors.url`, let them pass.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from agents.indexer.source import Results, ResultSource
from agents.indexer.writer import IndexWriter
from planner.catalog.model import Catalog
from planner.reuse.indexing.index import IndexLogic
from planner.reuse.terms import Terms, terms_of
from planner.serving.backoff import MAX_RETRY_S, RETRY_S
from schemas.errors import PochadeError
from schemas.messages import Plan
from streams import metrics
from streams.clock import now_ms
from streams.settings import Settings
from streams.store.port import ImageStore

log = logging.getLogger(__name__)

ROLE: Final = "indexer"
BATCH: Final = 100  # results at a time
POLL_S: Final = 1.0
OPEN_S: Final = 10.0  # for the collection to be made


class Plans(Protocol):
    """The part of `PlanView` that it uses."""

    @property
    def plan(self) -> Plan | None:
        """The plan in force."""


class Indexer:
    """One index writer. `run` blocks until `stopping` is set."""

    def __init__(
        self, source: Callable[[], Results], plans: Plans, opens: Callable[[Terms], IndexWriter] | None
    ) -> None:
        """`source`: joins the group; `opens`: opens a writer for an encoder, None where there is no vector store."""
        self._opens_source = source
        self._source: Results | None = None  # None: it has not joined yet
        self._plans = plans
        self._opens = opens
        self._writer: IndexWriter | None = None
        self._key: str | None = None  # encoder of the writer
        self._recalled = frozenset[int]()  # partitions whose last hours are in the account
        self._wait_s = 0.0
        self._trouble = ""

    def not_ready(self) -> str:
        """Why nothing is written now; any thread may ask."""
        return self._trouble or (self._source.waits_for if self._source is not None else "")

    def run(self, stopping: threading.Event) -> None:
        """Write until `stopping` is set."""
        source = self._source = self._opens_source()
        try:
            while not stopping.is_set():
                if not self.turn(source):
                    stopping.wait(self._wait_s)
        finally:
            source.close()
            if self._writer is not None:
                self._writer.close()
                self._writer = self._key = None
            self._recalled = frozenset()

    def turn(self, source: Results) -> bool:
        """Read and write one batch; False where a store is away, and it is to be tried again after a while."""
        batch = source.take(BATCH, POLL_S)
        plan = self._plans.plan
        terms = terms_of(plan.reuse) if plan is not None and plan.reuse is not None else None
        if terms is not None and self._opens is not None:
            try:
                writer = self._opened(terms)
                writer.divide_among(source.partitions)
                self._recall(writer, source, terms)
                writer.write(batch, terms)
                writer.evict(terms)
            except PochadeError as error:  # a store is away, or what the plan names cannot be opened
                self._back_off(error)
                source.rewind(batch)
                return False
            self._wait_s, self._trouble = 0.0, ""
        metrics.RECORDS.labels(ROLE).inc(len(batch))
        source.commit(batch)
        return True

    def _opened(self, terms: Terms) -> IndexWriter:
        if self._writer is None or self._key != terms.key:
            assert self._opens is not None, "there is a vector store"
            if self._writer is not None:
                self._writer.close()
            self._writer, self._key, self._recalled = None, None, frozenset()
            self._writer = self._opens(terms)
            self._key = terms.key
        return self._writer

    def _recall(self, writer: IndexWriter, source: Results, terms: Terms) -> None:
        """Take into the account what was written of partitions that are new here, and forget that of lost ones."""
        owned = source.owned
        if lost := self._recalled - owned:
            writer.forget(sorted(lost))
        if gained := owned - self._recalled:
            writer.recall(source.since(now_ms() - round(terms.ttl_ms), gained), terms)
        self._recalled = owned

    def _back_off(self, error: PochadeError) -> None:
        self._wait_s = min(MAX_RETRY_S, 2 * self._wait_s or RETRY_S)
        self._trouble = f"cannot write the index: {error}"
        metrics.FALLBACKS.labels(ROLE, "store-away").inc()
        log.warning("%s; again in %g s", self._trouble, self._wait_s)


def indexer_of(settings: Settings, catalog: Catalog, store: ImageStore, plans: Plans) -> Indexer:
    """The index writer of a process."""
    return Indexer(lambda: ResultSource(settings), plans, writer_opener(settings, catalog, store))


def writer_opener(settings: Settings, catalog: Catalog, store: ImageStore) -> Callable[[Terms], IndexWriter] | None:
    """Return what opens a writer for the terms of a plan; None where the settings name no vector store."""
    if not settings.vectors.url:
        return None

    def open_writer(terms: Terms) -> IndexWriter:
        from agents.discriminator.scorers import open_scorer
        from agents.reuse.prompt_key import open_key
        from streams.vectors.open import open_vectors

        key = open_key(terms.key)
        vectors = open_vectors(settings, key.digest)
        assert vectors is not None, "vectors.url names a store"
        vectors.ensure(key.dimension, OPEN_S)
        return IndexWriter(IndexLogic(), key, vectors, store, lambda name: open_scorer(catalog.discriminator(name)))

    return open_writer
