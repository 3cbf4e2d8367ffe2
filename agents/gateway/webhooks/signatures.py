"""Signs webhooks by Standard Webhooks 1.0.0 (section "Signature scheme", symmetric), which Replicate's clients verify.

A tenant's secret is derived from the gateways' own (`gateway.url_secret`), so that it need not be stored.
"""

import base64
import hashlib
import hmac
from typing import Final

BEGIN: Final = "whsec_"
USER_AGENT: Final = "pochade-webhooks/1"


def secret_of(key: bytes, tenant: str) -> str:
    """Return the secret with which a tenant verifies its webhooks. `key`: the gateways' own."""
    return BEGIN + base64.b64encode(hmac.digest(key, f"webhooks:{tenant}".encode(), hashlib.sha256)).decode()


def id_of(tenant: str, request_id: str, event: str) -> str:
    """Return the id of an event of a request: the same in every attempt, by whichever gateway."""
    digest = hashlib.sha256("\0".join((tenant, request_id, event)).encode(errors="replace"))
    return f"msg_{digest.hexdigest()[:32]}"


def headers(secret: str, webhook_id: str, now_s: int, body: bytes) -> dict[str, str]:
    """Return the headers of one attempt at a moment (epoch seconds)."""
    key = base64.b64decode(secret.removeprefix(BEGIN))
    digest = hmac.digest(key, f"{webhook_id}.{now_s}.".encode() + body, hashlib.sha256)
    return {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": webhook_id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
