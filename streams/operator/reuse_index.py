"""The index of stored latents as an operator sees it: its collection, and rows that are missing or useless.

A row belongs to the autoencoder that decodes its latent. When a variant's model changes, so may its autoencoder: no
search asks for the rows of the former one any more, and they take space until they expire. Which autoencoder a variant
has shows in the latents that its newest results name.
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from planner.catalog.entries import variant_of
from schemas.errors import InvalidRecord
from schemas.messages import Status
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode_result
from streams.kafka.consumers import snapshot
from streams.operator.explain import steps_of
from streams.operator.indexed import NamedLatent, named_latent, unindexed
from streams.settings import Settings
from streams.store.port import ImageStore, Unreadable
from streams.vectors.keys import encoder
from streams.vectors.open import collection_of, open_all, open_vectors
from streams.vectors.port import Selection, WrongCollection

CALL_S: Final = 10.0  # for one call of the vector store
LOOKED_AT: Final = 20  # latents that are read to learn whether the store has them
SIDE_BY_SIDE_MS: Final = 600_000  # two releases of a model may serve a variant for so long: neither's rows are stale


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The collection of a plan's encoder."""

    name: str
    dimension: int | None  # None: it is not there
    wanted: int  # dimension of the encoder's vectors
    rows: int = 0


@dataclass(slots=True)
class StoredLatents:
    """The latents that results name, by the autoencoder that decodes them."""

    uris: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    named: list[NamedLatent] = field(default_factory=list)  # those of completed images, which may have a row
    _served: defaultdict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, record: Incoming, variants: Set[str]) -> None:
        """Take in a result; one that cannot be read names nothing. `variants`: of the catalog."""
        try:
            result = decode_result(record.value)
            stages = steps_of(result)
        except InvalidRecord:
            return
        last = named_latent(result, stages, record.partition, record.offset)
        if last is not None and result.status is Status.COMPLETED:
            self.named.append(last)
        for stage in stages:
            if stage.latent is None:
                continue
            autoencoder, variant = stage.latent.autoencoder, variant_of(stage.level)
            self.uris[autoencoder].add(stage.latent.uri)
            if variant in variants:
                times = self._served[variant]
                times[autoencoder] = max(times.get(autoencoder, 0), result.ended_ms)

    def stale(self) -> dict[str, Set[str]]:
        """Return autoencoder -> URIs of latents, for autoencoders that no variant of the catalog used recently."""
        live = {
            autoencoder
            for times in self._served.values()
            for autoencoder, ended_ms in times.items()
            if ended_ms >= max(times.values()) - SIDE_BY_SIDE_MS
        }
        return {name: uris for name, uris in sorted(self.uris.items()) if name not in live}


def collection(settings: Settings, key: str) -> Collection:
    """Search the collection of an encoder once. Raises PochadeError: the store is away, or the encoder is unknown."""
    known = encoder(key)
    store = open_vectors(settings, known.digest())
    assert store is not None, "the settings name a vector store"
    with contextlib.closing(store):
        found = store.probe(CALL_S)
    name = collection_of(settings.kafka.prefix, known.digest())
    return Collection(name=name, dimension=found.dimension, wanted=known.dimension, rows=found.rows or 0)


class Missing(NamedTuple):
    """Images whose latents results name, and that have no row in the index; latents that left the store are no loss."""

    of: int  # images whose latents results name
    lacking: int  # of these without a row
    looked_at: int  # of these latents, the newest, that were read
    there: int  # and that the store has


def missing_rows(settings: Settings, store: ImageStore, named: list[NamedLatent]) -> Missing:
    """Count the rows that the index lacks. An image that was evicted or not taken in has no latent any more.

    Raises PochadeError: a store or the cluster does not answer.
    """
    lacking = unindexed(settings, named)
    looked_at = lacking[-LOOKED_AT:]
    there = sum(is_readable(store, each.uri) for each in looked_at)
    return Missing(len({each.row for each in named}), len(lacking), len(looked_at), there)


def is_readable(store: ImageStore, uri: str) -> bool:
    """Whether the store has an object, whatever it lists. Raises StoreUnavailable."""
    try:
        store.get(uri)
    except Unreadable:
        return False
    return True


def stored_latents(
    settings: Settings, variants: Set[str], ttl_s: float, timeout_s: float = snapshot.READ_TIMEOUT_S
) -> StoredLatents:
    """Return the latents of results that ended within the time to live. Raises PochadeError: as `snapshot.past`.

    `variants`: of the catalog. Of a variant that has served nothing since, its former autoencoder counts as its own.
    """
    stored = StoredLatents()

    def add(record: Incoming) -> bool:
        stored.add(record, variants)
        return False

    snapshot.past(settings, [RESULTS], since_ms=round(now_ms() - 1000 * ttl_s), keep=add, timeout_s=timeout_s)
    return stored


def clear_stale(settings: Settings, store: ImageStore, stale: Mapping[str, Set[str]], *, dry_run: bool) -> int:
    """Delete the rows of these autoencoders and their latents; return how many latents are there.

    Raises PochadeError: a store is away; it may be repeated.
    """
    there = {each.uri for each in store.list(now_ms() + 1)}
    uris = sorted(there & set().union(*stale.values()))
    if not dry_run:
        delete_rows(settings, *(Selection(model=autoencoder) for autoencoder in stale))
        for uri in uris:
            store.delete(uri)
    return len(uris)


def delete_rows(settings: Settings, *selections: Selection) -> None:
    """Delete the rows of these selections in every collection of this deployment, those of former encoders too.

    A collection with the name of one of ours and other fields is left as it is, and reported once the others are done.

    Raises PochadeError: the store is away, or a collection is not ours; it may be repeated.
    """
    foreign: WrongCollection | None = None
    with contextlib.ExitStack() as opened:
        stores = [opened.enter_context(contextlib.closing(each)) for each in open_all(settings, CALL_S)]
        for store in stores:
            try:
                if store.probe(CALL_S).dimension is not None:
                    for selection in selections:
                        store.delete(selection, CALL_S)
            except WrongCollection as error:
                foreign = error
    if foreign is not None:
        raise foreign
