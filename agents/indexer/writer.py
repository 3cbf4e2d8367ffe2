"""Writes the rows of a batch of results: decides, scores if the plan asks for it, embeds, upserts, and evicts.

A batch is written whole or raises, and may be written again: rows have the ids of their images, and earlier decisions
and scores are kept.
"""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from agents.discriminator.scorers import Scorer
from agents.indexer.rows import Candidate, candidate_of, entry_of
from agents.reuse.prompt_key import PromptKey
from planner.reuse.indexing.index import IndexLogic
from planner.reuse.indexing.writing import NotWritten, ScoreFirst, Write, judge
from planner.reuse.terms import Terms
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import GenerateRequest
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams import metrics
from streams.clock import now_ms
from streams.store.input_images import open_stored
from streams.store.port import ImageStore, StoreUnavailable
from streams.vectors.port import (
    Selection,
    UnusableRow,
    VectorRow,
    VectorStore,
    VectorsUnavailable,
    WrongCollection,
)

log = logging.getLogger(__name__)

CALL_S: Final = 10.0  # for one call of the vector store; no request waits for the index

Place = tuple[int, int]  # partition and offset of a record of `results`


class IndexWriter:
    """Writes for one encoder, into one vector store."""

    def __init__(
        self,
        logic: IndexLogic,
        key: PromptKey,
        vectors: VectorStore,
        store: ImageStore,
        scorer_of: Callable[[str], Scorer],
    ) -> None:
        """`scorer_of`: opens a discriminator by its name in the catalog; asked when a plan's check names it."""
        self._logic = logic
        self._key = key
        self._vectors = vectors
        self._store = store
        self._scorer_of = scorer_of
        self._scorers: dict[str, Scorer] = {}
        self._decided: dict[Place, Write | NotWritten] = {}  # of the batch that is being written

    def write(self, records: Sequence[Incoming], terms: Terms, *, keeps_latents: bool = False) -> int:
        """Write the rows of reusable results; return their number. Unreadable records are counted and skipped.

        `keeps_latents`: do not delete latents that get no row.

        Raises:
            VectorsUnavailable, WrongCollection, StoreUnavailable: pass the same records again later.
        """
        rows = self._rows(records, terms)
        if rows:
            self._upsert([row for _, row in rows])
        for partition, row in rows:
            self._logic.enter(partition, entry_of(row))
        if not keeps_latents:
            self._delete(self._unneeded(records))
        for decision in self._decided.values():
            outcome = "written" if isinstance(decision, Write) else _outcome(decision)
            metrics.REUSE_ROWS.labels(outcome).inc()
        self._decided.clear()
        metrics.REUSE_BYTES.set(self._logic.bytes)
        return len(rows)

    def recall(self, records: Sequence[Incoming], terms: Terms) -> None:
        """Count earlier results as written, without scoring or writing them again."""
        for record in records:
            candidate = _read(record)
            if candidate is None or isinstance(self._logic.examine(candidate.ended, terms, now_ms()), NotWritten):
                continue
            row = _row(candidate, (1.0,) * self._key.dimension, None, terms)
            if row is not None:
                self._logic.enter(record.partition, entry_of(row))

    def evict(self, terms: Terms) -> int:
        """Remove rows that are expired or beyond the byte budget from both stores; return their number.

        A store that does not answer keeps them until the next call.
        """
        leaving = self._logic.leaving(terms, now_ms())
        if not leaving:
            return 0
        try:
            self._vectors.delete(Selection(ids=tuple(entry.key for _, entry in leaving)), CALL_S)
        except (VectorsUnavailable, WrongCollection) as error:
            log.warning("%d rows stay for now: %s", len(leaving), error)
            metrics.FALLBACKS.labels("indexer", "rows-left").inc()
            for partition, entry in leaving:
                self._logic.enter(partition, entry)
            return 0
        self._delete([entry.latent_uri for _, entry in leaving])
        metrics.REUSE_EVICTED.inc(len(leaving))
        metrics.REUSE_BYTES.set(self._logic.bytes)
        return len(leaving)

    def divide_among(self, partitions: int) -> None:
        """Divide the byte budget among this number of partitions of `results` from now on."""
        self._logic.divide_among(partitions)

    def forget(self, partitions: Sequence[int]) -> None:
        """Forget the rows of partitions that another writer owns now."""
        self._logic.forget(partitions)
        self._decided = {place: each for place, each in self._decided.items() if place[0] not in partitions}

    def close(self) -> None:
        """Give back the connections of the vector store."""
        self._vectors.close()

    def _rows(self, records: Sequence[Incoming], terms: Terms) -> list[tuple[int, VectorRow]]:
        found = list[tuple[Candidate, Write]]()
        for record in records:
            place = record.partition, record.offset
            candidate = _read(record)
            if candidate is None:
                continue
            if place not in self._decided:
                self._decided[place] = self._decide(candidate, terms)
            decision = self._decided[place]
            if isinstance(decision, Write):
                found.append((candidate, decision))
        if not found:
            return []
        vectors = self._key.embed([candidate.result.prompt for candidate, _ in found]).tolist()
        rows = [
            (candidate.partition, _row(candidate, tuple(vector), decision.score, terms))
            for (candidate, decision), vector in zip(found, vectors, strict=True)
        ]
        return [(partition, row) for partition, row in rows if row is not None]

    def _decide(self, candidate: Candidate, terms: Terms) -> Write | NotWritten:
        at_ms = now_ms()
        decision = self._logic.examine(candidate.ended, terms, at_ms)
        if isinstance(decision, ScoreFirst):
            decision = judge(self._score(candidate, decision.discriminator), terms.write)
        if isinstance(decision, NotWritten):
            return decision
        return self._logic.admit(candidate.result.tenant, terms, at_ms) or decision

    def _score(self, candidate: Candidate, discriminator: str) -> float | None:
        """Return the confidence in an image; None if it cannot be scored. Raises StoreUnavailable."""
        result, image = candidate.result, candidate.image
        assert image is not None, f"{result.request_id} has no image"
        if discriminator not in self._scorers:
            self._scorers[discriminator] = self._scorer_of(discriminator)
        request = GenerateRequest(request_id=result.request_id, prompt=result.prompt, created_ms=result.ended_ms)
        try:
            with open_stored(self._store.get(image.uri)) as opened:
                (confidence,) = self._scorers[discriminator].score([request], [np.asarray(opened.convert("RGB"))])
                return None if math.isnan(confidence) else confidence
        except StoreUnavailable:
            raise
        except Exception as error:  # gone, broken, or whatever a model raises over it
            log.warning("the image of %s cannot be scored, and does not enter: %s", result.request_id, error)
            return None

    def _unneeded(self, records: Sequence[Incoming]) -> list[str]:
        """Return URIs of the latents that these results name and that got no row, drafts' among them."""
        uris = list[str]()
        for record in records:
            candidate = _read(record)
            decision = self._decided.get((record.partition, record.offset))
            if candidate is not None and decision is not None:
                uris += candidate.latents[:-1] if isinstance(decision, Write) else candidate.latents
        return uris

    def _delete(self, uris: Sequence[str]) -> None:
        """Delete latents; one that stays is collected as an orphan or an old object."""
        for uri in uris:
            try:
                self._store.delete(uri)
            except PochadeError as error:
                log.debug("a latent stays: %s", error)
                metrics.FALLBACKS.labels("indexer", "latent-left").inc()

    def _upsert(self, rows: Sequence[VectorRow]) -> None:
        try:
            self._vectors.upsert(rows, CALL_S)
        except WrongCollection:  # it was dropped: made again, once
            self._vectors.ensure(self._key.dimension, CALL_S)
            self._vectors.upsert(rows, CALL_S)


def _read(record: Incoming) -> Candidate | None:
    """Return the candidate in a record; None if it is invalid or a newer release's: a missing row costs one hit."""
    try:
        return candidate_of(record)
    except InvalidRecord as error:
        metrics.UNUSABLE.labels(RESULTS).inc()
        log.warning("result %s@%s is passed over: %s", record.partition, record.offset, error)
        return None


def _row(candidate: Candidate, vector: tuple[float, ...], score: float | None, terms: Terms) -> VectorRow | None:
    try:
        return candidate.row(vector, score, terms)
    except UnusableRow as error:
        metrics.UNUSABLE.labels(RESULTS).inc()
        log.warning("result of %s is passed over: %s", candidate.result.request_id, error)
        return None


def _outcome(decision: NotWritten) -> str:
    return f"{decision.why}/{decision.refusal}" if decision.refusal else decision.why
