"""A row as text beside its vector: one JSON object in ASCII, so that no store meets a character it dislikes."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from streams.vectors.port import Latent, Source, UnusableRow, VectorRow

MAX_BYTES = 60_000  # of one row's text; a string of Milvus has at most 65,535


def as_text(row: VectorRow) -> str:
    """Everything of a row but its vector. Raises UnusableRow: it is larger than a store's field."""
    text = json.dumps({name: value for name, value in asdict(row).items() if name != "vector"})
    if len(text) > MAX_BYTES:
        raise UnusableRow(f"row {row.id} has {len(text)} bytes beside its vector, at most {MAX_BYTES} can be stored")
    return text


def as_row(text: object, vector: Sequence[float]) -> VectorRow:
    """The row of `as_text`.

    Raises UnusableRow: this text is not one, or the vector is none: a store lost or changed a part of it.
    """
    try:
        content = json.loads(text) if isinstance(text, str) else None
        row = _row(content, vector)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise UnusableRow(f"a stored row cannot be read: {error!r:.200}") from None
    return row


def _row(content: Any, vector: Sequence[float]) -> VectorRow:
    latent, source = content["latent"], content["source"]
    return VectorRow(
        id=_text(content["id"]),
        vector=tuple(map(float, vector)),
        tenant=_text(content["tenant"]),
        model=_text(content["model"]),
        width=_whole(content["width"]),
        height=_whole(content["height"]),
        created_ms=_whole(content["created_ms"]),
        expires_ms=_whole(content["expires_ms"]),
        latent=Latent(uri=_text(latent["uri"]), sha256=_text(latent["sha256"]), bytes=_whole(latent["bytes"])),
        source=Source(
            request_id=_text(source["request_id"]),
            image_uri=_text(source["image_uri"]),
            prompt=_text(source["prompt"]),
            facts=_text(source["facts"]),
            score=float(source["score"]),
        ),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {value!r:.80}")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected a whole number, got {value!r:.80}")
    return value
