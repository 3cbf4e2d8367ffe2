"""Forgets a tenant: deletes what is known to be its own, and says until when its records lie on topics.

Kafka deletes records by age, not by tenant; what is compacted goes by a record without a value.
"""

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from planner.reuse.neighbour import is_named_for
from planner.serving.admission.inputs import input_name
from schemas.errors import InvalidRecord
from schemas.messages import Event, EventKind, ImageGenerated, Webhook
from schemas.record import Incoming, Outgoing
from schemas.topics import (
    CLASSIFIED,
    DLQ,
    EVENTS,
    IMAGES,
    KEYS,
    OUTCOMES,
    PROMPTS,
    PROMPTS_BATCH,
    RESULTS,
    WEBHOOKS,
)  # fmt: skip
from streams.clock import now_ms, utc
from streams.codec.avro import decode, decode_result
from streams.control.api_keys import WRITE_TIMEOUT_S, stored
from streams.kafka.consumers import snapshot
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.operator import cluster
from streams.operator.explain import steps_of
from streams.operator.reuse_index import delete_rows
from streams.settings import Settings
from streams.store.port import ImageStore
from streams.vectors.port import Selection

READ: Final = (RESULTS, IMAGES, EVENTS, WEBHOOKS)
OF_REQUESTS: Final = {PROMPTS, PROMPTS_BATCH, CLASSIFIED, IMAGES, OUTCOMES, RESULTS, EVENTS, DLQ}
OF_VARIANTS: Final = ("jobs.", "waiting.")
COMPACTED: Final = "Kafka compacts it, once a later record has closed its segment"


def forget(settings: Settings, store: ImageStore, tenant: str, *, dry_run: bool) -> tuple[list[dict[str, Any]], int]:
    """Delete a tenant's images, latents, rows of the index, keys and webhooks; return rows and `unreadable`.

    Rows: `what`, `count`, `deleted`, and `until`: when the records have gone. `unreadable`: records that may name more
    images. Keys go first, so that gateways take no new request; what workers store meanwhile is not found: repeat it.

    Raises PochadeError: a store or the broker does not answer; the call may be repeated.
    """
    keys = [key.key_id for key in stored(settings) if key.tenant == tenant]
    if not dry_run:
        _end(settings, KEYS, keys)
    topics, own = cluster.topics(settings), Own(tenant)
    snapshot.past(settings, [name for name in READ if name in topics], keep=own.add)
    hooks = [request_id for request_id, is_own in own.hooks.items() if is_own]
    there = [each.uri for each in store.list(now_ms() + 1)]
    mark, latents = f"{input_name(tenant)}-", {uri for uri in there if is_named_for(uri, tenant)}
    inputs = {uri for uri in there if uri.rpartition("/")[2].startswith(mark)}
    images = own.uris.intersection(there) - inputs - latents
    if not dry_run:
        _end(settings, WEBHOOKS, hooks)
        delete_rows(settings, Selection(tenant=tenant))
        for uri in sorted(images | inputs | latents):
            store.delete(uri)
    counts = {"images": images, "input images": inputs, "latents": latents, "keys": keys, "webhooks": hooks}
    rows = [
        {
            "what": name, "count": len(found), "deleted": not dry_run,
            "until": COMPACTED if found and name in ("keys", "webhooks") else None,
        }
        for name, found in counts.items()
    ]  # fmt: skip
    return [*rows, *_remaining(topics)], own.unreadable


class Own:
    """What records of one tenant name: images, drafts and previews among them, and open webhooks."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self.uris = set[str]()
        self.hooks: dict[str, bool] = {}  # request -> whether it is the tenant's and open
        self.unreadable = 0

    def add(self, record: Incoming) -> bool:
        """Take in a record; it need not be kept."""
        try:
            self.uris.update(uri for uri in self._uris(record) if uri)
        except (InvalidRecord, ValueError):
            self.unreadable += 1
        return False

    def _uris(self, record: Incoming) -> Iterator[str]:
        if record.topic == RESULTS:
            result = decode_result(record.value)
            if result.tenant == self._tenant:
                yield from (result.image_uri or "", *result.image_uris)
                yield from (ref.uri for step in steps_of(result) for ref in (step.image, *step.more) if ref is not None)
        elif record.topic == IMAGES:
            image = decode(record.value, ImageGenerated)
            if image.job.classified.request.tenant == self._tenant:
                yield from (ref.uri for ref in (image.image, *image.more))
        elif record.topic == WEBHOOKS:
            hook = decode(record.value, Webhook) if record.value else None
            self.hooks[(record.key or b"").decode(errors="replace")] = bool(hook and hook.tenant == self._tenant)
        else:
            event = decode(record.value, Event)
            detail = json.loads(event.detail) if event.kind == EventKind.PREVIEW else None
            if isinstance(detail, dict) and detail.get("tenant") == self._tenant:
                yield str(detail.get("preview", ""))


def _end(settings: Settings, topic: str, keys: Sequence[str]) -> None:
    """Write a record without a value for each key."""
    if keys:
        with contextlib.closing(KafkaRecordProducer(settings)) as producer:
            records = [Outgoing(topic=topic, key=key.encode(), value=None) for key in keys]
            send_all(producer, records, WRITE_TIMEOUT_S)


def _remaining(topics: Mapping[str, cluster.Found]) -> Iterator[dict[str, Any]]:
    """Yield a row for each topic with records of requests: until when the newest of now lies there."""
    for name, found in sorted(topics.items()):
        if name in OF_REQUESTS or name.startswith(OF_VARIANTS):
            kept_ms = found.retention_ms + found.segment_ms
            until = utc(now_ms() + kept_ms) if found.is_config_visible and math.isfinite(kept_ms) else "unknown"
            yield {"what": f"records on {name}", "count": None, "deleted": False, "until": until}
