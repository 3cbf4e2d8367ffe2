"""From a result to what the rules of writing read, and to the row that enters the vector store."""

from dataclasses import dataclass

from planner.reuse.eligibility import Asked
from planner.reuse.eviction import Entry
from planner.reuse.indexing.writing import Ended
from planner.reuse.terms import Terms
from schemas.messages import ImageRef, LatentRef, Result
from schemas.record import Incoming
from streams.codec.avro import decode_result
from streams.operator.explain import steps_of
from streams.vectors.port import Latent, Source, VectorRow, row_id

ROW_BYTES = 2048  # of a row's text; its vector is counted beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An ended request whose image may enter the index."""

    partition: int  # of `results`
    result: Result
    ended: Ended
    image: ImageRef | None
    latent: LatentRef | None
    latents: tuple[str, ...] = ()  # URIs of those of all stages, the image's own last

    def row(self, vector: tuple[float, ...], score: float | None, terms: Terms) -> VectorRow:
        """The row; writing it again changes nothing. Raises UnusableRow."""
        image, latent, result = self.image, self.latent, self.result
        assert image is not None, f"{result.request_id} has no image"
        assert latent is not None, f"{result.request_id} has no latent"
        return VectorRow(
            id=row_id(result.tenant, image.sha256), vector=vector, tenant=result.tenant, model=latent.autoencoder,
            width=image.width, height=image.height, created_ms=result.ended_ms,
            expires_ms=result.ended_ms + round(terms.ttl_ms),
            latent=Latent(uri=latent.uri, sha256=latent.sha256, bytes=latent.bytes),
            source=Source(request_id=result.request_id, image_uri=image.uri, prompt=result.prompt, score=score or 0.0),
        )  # fmt: skip


def candidate_of(record: Incoming) -> Candidate:
    """Read a record of `results`. Who opted out has no latent: the worker stored none.

    Raises:
        InvalidRecord: not a result, or its path is none.
    """
    result = decode_result(record.value)
    path = steps_of(result)
    last = path[-1] if path else None
    ended = Ended(
        request_id=result.request_id,
        status=result.status,
        asked=Asked(),
        reuse_steps=tuple(stage.reuse.step for stage in path if stage.reuse is not None),
        score=last.confidence if last else None,
        scored_by=last.discriminator if last else "",
        has_latent=last is not None and last.latent is not None and last.image is not None,
        ended_ms=result.ended_ms,
    )
    image, latent = (last.image, last.latent) if last else (None, None)
    uris = tuple(stage.latent.uri for stage in path if stage.latent is not None)
    return Candidate(partition=record.partition, result=result, ended=ended, image=image, latent=latent, latents=uris)


def entry_of(row: VectorRow) -> Entry:
    """A row as the account has it."""
    size = row.latent.bytes + ROW_BYTES + 4 * len(row.vector)
    return Entry(key=row.id, created_ms=row.created_ms, bytes=size, latent_uri=row.latent.uri)
