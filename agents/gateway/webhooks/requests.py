"""Reads the webhook that a body states; its record is written before the request."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from agents.gateway.webhooks.addresses import PARAM, checked_url
from agents.gateway.webhooks.notices import events_of
from agents.gateway.webhooks.open_webhooks import OpenWebhooks
from schemas.messages import Webhook


class WebhookRequests:
    """Reads the parameters `webhook` and `webhook_events_filter`."""

    def __init__(self, hooks: OpenWebhooks, internal: Collection[str], clock_ms: Callable[[], int]) -> None:
        """`internal`: origins that are always allowed, as `origin_of` returns them."""
        self._hooks = hooks
        self._internal = internal
        self._clock_ms = clock_ms

    def wanted(self, body: Mapping[str, Any], tenant: str, base_url: str) -> Webhook | None:
        """Return the webhook that a body states, still without a request id; None if it states none.

        Raises Refusal: webhooks may not be sent there, or too many of this tenant are open.
        """
        events = events_of(body)
        if body.get(PARAM) is None:
            return None
        url = checked_url(body[PARAM], self._internal)
        self._hooks.check_room(tenant)
        return Webhook(
            request_id="", tenant=tenant, url=url, events=events, base_url=base_url, created_ms=self._clock_ms()
        )
