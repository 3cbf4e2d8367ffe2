"""Operators' actions on the index: its state, the reuse of one request, clear, rebuild."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

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
from streams.operator.reuse_index import delete_rows
from streams.settings import Settings
from streams.store.latents import EXTENSION
from streams.store.port import ImageStore
from streams.vectors.keys import digest_of
from streams.vectors.open import collection_of, open_vectors
from streams.vectors.port import Selection

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
    for record in snapshot.past(settings, [FLEET], since_ms=now_ms() - HEARTBEATS_MS):
        try:
            beat = decode(record.value, Heartbeat)
        except InvalidRecord:
            continue
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
        there = {each.uri for each in store.list(now_ms() + 1)}

        def is_there(record: Incoming) -> bool:
            counts["results"] += 1
            try:
                latent = candidate_of(record).latent
            except InvalidRecord:
                return False
            return latent is not None and latent.uri in there

        found = snapshot.past(settings, [RESULTS], since_ms=round(now_ms() - terms.ttl_ms), keep=is_there)
        counts["latents"] = len(found)
        for first in range(0, len(found), BATCH):
            counts["rows"] += writer.write(found[first : first + BATCH], replace(terms, write=rule), keeps_latents=True)
    finally:
        writer.close()
    return {name: counts[name] for name in ("results", "latents", "rows")}
