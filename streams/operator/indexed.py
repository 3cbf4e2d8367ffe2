"""The latents that a deployment's index still names, which `pochade gc` must keep.

A latent is needed as long as a row of the index names it. If the index cannot be read, all are kept:

    no vector store in the settings, or it does not answer    all that COMPLETED results name
    no row at all, as after the collection was dropped        all of them: `pochade reuse rebuild` fills it from them
    the index writer has not read the result yet              that result's
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from schemas.errors import PochadeError
from schemas.messages import Result, Stage
from schemas.topics import RESULTS, full_name
from streams.kafka.consumers.offsets import positions
from streams.settings import Settings
from streams.vectors.open import open_all
from streams.vectors.port import VectorStore, row_id

CALL_S: Final = 10.0  # for one call of the vector store
INDEXER: Final = "indexer"  # whose group is PREFIX.indexer
IDS_A_CALL: Final = 500


@dataclass(frozen=True, slots=True)
class NamedLatent:
    """A latent that a COMPLETED result names as that of its image."""

    uri: str
    row: str  # id of the row that would name it
    partition: int  # of the result
    offset: int


def named_latent(result: Result, path: tuple[Stage, ...], partition: int, offset: int) -> NamedLatent | None:
    """Return the latent that the index may name because of a completed result; None if it has none."""
    last = path[-1] if path else None
    if last is None or last.latent is None or last.image is None:
        return None
    return NamedLatent(last.latent.uri, row_id(result.tenant, last.image.sha256), partition, offset)


def still_needed(
    named: Iterable[NamedLatent], read_to: Mapping[int, int], rows: Mapping[str, frozenset[str]] | None
) -> set[str]:
    """Return the URIs to keep.

    `read_to`: partition of `results` -> the offset that the index writer goes on from, 0 where it has read nothing;
    `rows`: id of a row -> the latents that rows with this id name; None if unknown.
    """
    return {
        each.uri
        for each in named
        if rows is None or each.offset >= read_to.get(each.partition, 0) or each.uri in rows.get(each.row, ())
    }


def needed_latents(settings: Settings, named: list[NamedLatent]) -> tuple[set[str], str]:
    """Return the URIs to keep of one deployment's latents, and why the index could not be read; "" if it was.

    Raises PochadeError: the cluster does not answer.
    """
    if not named or not settings.vectors.url:
        return still_needed(named, {}, None), ""
    read_to = _read_to(settings)  # before the rows: what is written meanwhile only keeps more
    try:
        rows, trouble = _rows(settings, [each.row for each in named])
    except PochadeError as error:
        why = f"latents of {settings.kafka.prefix} are kept, as its index cannot be asked: {error}"
        return still_needed(named, {}, None), why
    return still_needed(named, read_to, rows), trouble


def unindexed(settings: Settings, named: list[NamedLatent]) -> list[NamedLatent]:
    """Return the images that have no row in the index though the index writer has read their results, each once.

    Raises PochadeError: the vector store or the cluster does not answer.
    """
    read_to = _read_to(settings)
    rows, _ = _rows(settings, [each.row for each in named])
    read = (each for each in named if each.offset < read_to.get(each.partition, 0))
    return list({each.row: each for each in read if each.row not in (rows or {})}.values())


def _read_to(settings: Settings) -> dict[int, int]:
    """Return the offset of `results` by partition that the index writer goes on from. Raises PochadeError."""
    prefix = settings.kafka.prefix
    try:
        return positions(settings, full_name(prefix, RESULTS), f"{prefix}.{INDEXER}")
    except KafkaException as failure:
        raise PochadeError(f"cannot ask how far {prefix}.{INDEXER} has read: {failure.args[0].str()}") from None


def _rows(settings: Settings, ids: list[str]) -> tuple[dict[str, frozenset[str]] | None, str]:
    """Row id -> the latents that it names, in all collections; (None, why) where there is no row at all."""
    found: dict[str, frozenset[str]] = {}
    count, stores = 0, open_all(settings, CALL_S)
    try:
        for store in stores:
            count += _add(store, ids, found)
    finally:
        for store in stores:
            store.close()
    if count:
        return found, ""
    why = f"latents of {settings.kafka.prefix} are kept, as its index is empty: `pochade reuse rebuild` fills it"
    return None, why


def _add(store: VectorStore, ids: list[str], found: dict[str, frozenset[str]]) -> int:
    """Add what one collection says; return the number of its rows."""
    probed = store.probe(CALL_S)
    if not probed.rows:
        return 0
    for first in range(0, len(ids), IDS_A_CALL):
        for name, latent in store.latents(ids[first : first + IDS_A_CALL], CALL_S).items():
            found[name] = found.get(name, frozenset()) | {latent.uri}
    return probed.rows
