"""The webhooks with undelivered events, read from the topic by every gateway, whichever delivers them."""

import threading
from collections import Counter
from collections.abc import Callable

from agents.gateway.refusals import Refusal
from schemas.messages import Webhook
from schemas.record import Incoming, Outgoing
from schemas.topics import WEBHOOKS
from streams import metrics
from streams.codec.avro import decode, encode
from streams.codec.headers import stamp


class OpenWebhooks:
    """Written by one thread, read by any."""

    def __init__(self, max_open: int) -> None:
        """`max_open`: max open webhooks of one tenant."""
        self._max_open = max_open
        self._lock = threading.Lock()
        self._open: dict[str, tuple[int, Webhook]] = {}  # request -> offset of its newest record, and what that says
        self._of_tenant: Counter[str] = Counter()
        self._changed: set[str] = set()
        self._ring: Callable[[], None] = lambda: None

    def on_record(self, record: Incoming) -> None:
        """Take in a record of the topic; one without a value ends its webhook. Raises InvalidRecord."""
        request_id = (record.key or b"").decode(errors="replace")
        hook = decode(record.value, Webhook) if record.value else None
        with self._lock:
            former = self._open.pop(request_id, None)
            if former is not None:
                self._of_tenant[former[1].tenant] -= 1
            if hook is not None:
                self._open[request_id] = record.offset, hook
                self._of_tenant[hook.tenant] += 1
            self._changed.add(request_id)
            metrics.GATEWAY_OPEN_WEBHOOKS.set(len(self._open))
            ring = self._ring
        ring()

    def on_change(self, ring: Callable[[], None]) -> None:
        """Call `ring`, from the writing thread, when `changed` is not empty; all webhooks known now are changed."""
        with self._lock:
            self._ring = ring
            self._changed |= self._open.keys()
        ring()

    def changed(self) -> set[str]:
        """Return the requests whose webhook has changed since the last call."""
        with self._lock:
            changed, self._changed = self._changed, set()
        return changed

    def get(self, request_id: str) -> tuple[int, Webhook] | None:
        """Return the offset of a request's newest record and its webhook; None if it has no open one."""
        return self._open.get(request_id)

    def ids(self) -> set[str]:
        """Return the requests with an open webhook."""
        with self._lock:
            return set(self._open)

    def check_room(self, tenant: str) -> None:
        """Raise Refusal if a tenant has `max_open` open webhooks."""
        if self._of_tenant[tenant] >= self._max_open:
            limit = f"{self._max_open} webhooks of this tenant are not delivered yet (gateway.webhooks.max_open)"
            raise Refusal("too-many-webhooks", limit, retry_after_ms=10_000)


def record_of(hook: Webhook, now_ms: int) -> Outgoing:
    """Return the record of a webhook."""
    headers = stamp({}, kind="Webhook", source="gateway", subject=hook.request_id, time_ms=now_ms)
    return Outgoing(topic=WEBHOOKS, key=hook.request_id.encode(), value=encode(hook), headers=headers)


def ending_of(hook: Webhook) -> Outgoing:
    """Return the record that ends a webhook."""
    return Outgoing(topic=WEBHOOKS, key=hook.request_id.encode(), value=None)
