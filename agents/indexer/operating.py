"""Operators' actions on the index: its state, the reuse of one request, clear, rebuild."""

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from agents.indexer.role import BATCH, writer_opener
from agents.indexer.rows import candidate_of
from agents.indexer.writer import CALL_S
from planner.catalog.model import Catalog
from planner.reuse.explain import meaning
from planner.reuse.neighbour import LATENT_NAME, tenant_mark
from planner.reuse.terms import UNLIMITED, terms_of
from schemas.avro import to_wire
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import Heartbeat, Plan, Result, ReusePlan
from schemas.record import Incoming
from schemas.topics import FLEET, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.kafka.consumers import snapshot
from streams.operator.explain import steps_of
from streams.operator.reuse_index import LOOKED_AT, delete_rows, is_readable
from streams.settings import Settings
from streams.store.latents import EXTENSION
from streams.store.port import ImageStore
from streams.vectors.keys import digest_of
from streams.vectors.open import collection_of, open_vectors
from streams.vectors.port import Selection, row_id

HEARTBEATS_MS: Final = 60_000  # how far back they are read


def status(settings: Settings, plan: Plan | None) -> dict[str, Any]:
    """Return the plan's terms of reuse, the vector store's content, and the results of workers' lookups.

    Raises PochadeError if the broker does not answer, or the plan names something unknown here.
    """
    reuse = plan.reuse if plan is not None else None
    return {
        "plan": plan.version if plan is not None else None,
        "reuse": None if reuse is None else to_wire(ReusePlan)(reuse),
        "store": _store_status(settings, reuse.key if reuse is not None else ""),
        "workers": workers(settings),
    }


def _store_status(settings: Settings, key: str) -> dict[str, Any]:
    digest = digest_of(key)
    found: dict[str, Any] = {
        "url": settings.vectors.url or None, "collection": collection_of(settings.kafka.prefix, digest), "rows": None,
        "trouble": "",
    }  # fmt: skip
    try:
        store = open_vectors(settings, digest)
        if store is not None:
            try:
                found["rows"] = store.probe(CALL_S).rows or 0
            finally:
                store.close()
    except PochadeError as error:
        found["trouble"] = str(error)
    return found


def workers(settings: Settings) -> list[dict[str, Any]]:
    """Return a row for each worker whose last heartbeat reports lookups."""
    beats: dict[str, Heartbeat] = {}
    records = snapshot.past(settings, [FLEET], since_ms=now_ms() - HEARTBEATS_MS)
    for _, beat in snapshot.readable(records, lambda record: decode(record.value, Heartbeat)):
        beats[beat.worker_id] = beat
    return [
        {
            "worker": name, "breaker": health.breaker, "lookups": health.lookups, "unanswered": health.unanswered,
            "p50_ms": health.p50_ms, "p95_ms": health.p95_ms, "hits": health.hits, "misses": health.misses,
        }
        for name, beat in sorted(beats.items())
        if (health := beat.reuse) is not None
    ]  # fmt: skip


def explained(result: Result) -> dict[str, Any]:
    """Return what reuse did for a request, from its own result only: no other request's data is read."""
    stages = [
        {
            "level": stage.level,
            "reused": stage.reuse is not None and stage.reuse.step > 0,
            "step": stage.reuse.step if stage.reuse else 0,
            "steps": stage.reuse.steps if stage.reuse else None,
            "similarity": stage.reuse.similarity if stage.reuse else None,
            "miss": stage.reuse.miss if stage.reuse else "",
            "why": _why(stage.reuse.miss) if stage.reuse else "the plan asked for no reuse",
            "latent": stage.latent.uri if stage.latent else None,
        }
        for stage in steps_of(result)
    ]
    return {"request_id": result.request_id, "status": result.status, "reused": result.reused, "stages": stages}


def _why(miss: str) -> str:
    return meaning(miss) if miss else "it began from a stored image of its tenant"


def clear(settings: Settings, store: ImageStore, tenant: str | None, *, dry_run: bool) -> dict[str, Any]:
    """Delete rows and latents, of one tenant or of all; rows of former encoders, too.

    Raises PochadeError if a store does not answer; the call may be repeated.
    """
    mark = tenant_mark(tenant) if tenant is not None else ""
    latents = [each.uri for each in store.list(now_ms() + 1) if is_latent(each.uri, mark)]
    if not dry_run:
        delete_rows(settings, Selection(tenant=tenant))
        for uri in latents:
            store.delete(uri)
    return {"tenant": tenant, "latents": len(latents), "deleted": not dry_run}


def is_latent(uri: str, mark: str = "") -> bool:
    """Whether an object is a latent, of the tenant with this mark; "" for any tenant."""
    name = uri.rpartition("/")[2]
    return LATENT_NAME.match(name) is not None and name.endswith(f".{EXTENSION}") and name.startswith(mark)


def rebuild(settings: Settings, catalog: Catalog, store: ImageStore, plan: Plan) -> Mapping[str, int]:
    """Write the rows of results within the plan's time to live again, as far as `results` and the store go back.

    Rows whose latents are gone are deleted. Return the numbers of `results`, of `latents` that are there, of those
    `unlisted` by the store, of those `gone` from it, and of `rows` that were written.

    Raises PochadeError if the plan has no reuse, there is no vector store, or a store does not answer; the call may be
    repeated.
    """
    if plan.reuse is None:
        raise PochadeError(f"plan {plan.version} has no reuse group: there is nothing to fill the index for")
    terms = terms_of(plan.reuse)
    opens = writer_opener(settings, catalog, store)
    if opens is None:
        raise PochadeError("vectors.url names no vector store: set it, for example to lite")
    rule = replace(terms.write, quota=UNLIMITED)  # what entered before enters again, however fast
    writer = opens(replace(terms, write=rule))
    counts = Counter[str]()
    try:
        named = _named(settings, round(now_ms() - terms.ttl_ms), counts)
        listed = {each.uri for each in store.list(now_ms() + 1)}
        unlisted = [each.uri for each in named if each.uri not in listed]
        has_lost_its_list = any(is_readable(store, uri) for uri in unlisted[-LOOKED_AT:])
        there = [each for each in named if has_lost_its_list or each.uri in listed]
        counts |= {"latents": len(there), "unlisted" if has_lost_its_list else "gone": len(unlisted)}
        gone = sorted({each.row for each in named} - {each.row for each in there})
        for first in range(0, len(gone), BATCH):
            delete_rows(settings, Selection(ids=tuple(gone[first : first + BATCH])))
        for first in range(0, len(there), BATCH):
            batch = [each.record for each in there[first : first + BATCH]]
            counts["rows"] += writer.write(batch, replace(terms, write=rule), keeps_latents=True)
    finally:
        writer.close()
    return {name: counts[name] for name in ("results", "latents", "unlisted", "gone", "rows")}


class Named(NamedTuple):
    """A result that names a latent of its image."""

    record: Incoming
    uri: str  # of the latent
    row: str  # id of the image's row


def _named(settings: Settings, since_ms: int, counts: Counter[str]) -> list[Named]:
    """Return the results from a moment on that name a latent; count them all."""
    found = list[Named]()

    def take(record: Incoming) -> bool:
        counts["results"] += 1
        with contextlib.suppress(InvalidRecord):
            each = candidate_of(record)
            if each.latent is not None and each.image is not None:
                found.append(Named(record, each.latent.uri, row_id(each.result.tenant, each.image.sha256)))
        return False

    snapshot.past(settings, [RESULTS], since_ms=since_ms, keep=take)
    return found
