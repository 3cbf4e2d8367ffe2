"""Fills an index with the rows of prompts that were never generated, as many as a lookup is to search among."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final

from agents.lab.reuse_bench.stand import NAME, Place, Request, Stand
from agents.reuse.prompt_key import PromptKey
from planner.reuse.neighbour import latent_name
from schemas.messages import ImageGenerated
from streams.clock import now_ms
from streams.vectors.port import Latent, Source, VectorRow, VectorStore, row_id

BATCH: Final = 500  # rows a call
CALL_S: Final = 60.0
HOUR_MS: Final = 3_600_000


def one_image(stand: Stand) -> ImageGenerated:
    """Generate an image whose latent all rows name."""
    return stand.serve(Request("filling-0", "a red heart", 0))


def fill(
    place: Place, vectors: VectorStore, key: PromptKey, prompts: Sequence[str], image: ImageGenerated,
    advance: Callable[[int], object],
) -> None:  # fmt: skip
    """Write a row for each prompt; all of them name one latent, which is really there.

    Raises:
        VectorsUnavailable, WrongCollection: the store is away, or its collection is of another dimension.
    """
    assert image.latent is not None, "a plan with reuse stores latents"
    data = place.store.get(image.latent.uri)
    tenant = image.job.classified.request.tenant
    uri = place.store.put(latent_name(tenant, NAME), data, image.latent.uri.rpartition(".")[2])
    latent = Latent(uri=uri, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
    at_ms = now_ms()
    vectors.ensure(key.dimension, CALL_S)
    for first in range(0, len(prompts), BATCH):
        some = prompts[first : first + BATCH]
        rows = [
            VectorRow(
                id=row_id(tenant, prompt), vector=tuple(vector), tenant=tenant, model=image.latent.autoencoder,
                width=image.image.width, height=image.image.height, created_ms=at_ms, expires_ms=at_ms + HOUR_MS,
                latent=latent, source=Source(request_id=NAME, image_uri=image.image.uri, prompt=prompt),
            )
            for prompt, vector in zip(some, key.embed(some).tolist(), strict=True)
        ]  # fmt: skip
        vectors.upsert(rows, CALL_S)
        advance(len(some))
