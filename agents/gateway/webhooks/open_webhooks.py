"""The webhooks that are not told to their ends, as the topic has them: every gateway knows all, whichever delivers."""

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
    """One thread hands over records, any asks."""

    def __init__(self, max_open: int) -> None:
        """`max_open`: of one tenant; beyond it no more are taken."""
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
        """Have a bell rung, from the thread that hands over, whenever `changed` has news; what is known now is news."""
        with self._lock:
            self._ring = ring
            self._changed |= self._open.keys()
        ring()

    def changed(self) -> set[str]:
        """Return the requests of which something was told since the last call."""
        with self._lock:
            changed, self._changed = self._changed, set()
        return changed

    def get(self, request_id: str) -> tuple[int, Webhook] | None:
        """Return what the newest record of a request says, with its offset; None: nothing is to be told of it."""
        return self._open.get(request_id)

    def ids(self) -> set[str]:
        """Return the requests of which something is to be told."""
        with self._lock:
            return set(self._open)

    def check_room(self, tenant: str) -> None:
        """Raise Refusal if a tenant has as many webhooks open as it may."""
        if self._of_tenant[tenant] >= self._max_open:
            limit = f"{self._max_open} webhooks of this tenant are not delivered yet (gateway.webhooks.max_open)"
            raise Refusal("too-many-webhooks", limit, retry_after_ms=10_000)


def record_of(hook: Webhook, now_ms: int) -> Outgoing:
    """Return the record that tells of a webhook."""
    headers = stamp({}, kind="Webhook", source="gateway", subject=hook.request_id, time_ms=now_ms)
    return Outgoing(topic=WEBHOOKS, key=hook.request_id.encode(), value=encode(hook), headers=headers)


def ending_of(hook: Webhook) -> Outgoing:
    """Return the record after which nothing is to be told of a request any more."""
    return Outgoing(topic=WEBHOOKS, key=hook.request_id.encode(), value=None)
