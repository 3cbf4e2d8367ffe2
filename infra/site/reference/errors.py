"""How requests end, and the codes of refusals with their HTTP statuses; tests hold the words to the code's tables."""

from collections.abc import Mapping
from typing import Final

from agents.gateway.refusals import KINDS
from infra.site.reference.tables import table

LATER: Final = (408, 409, 429, 503, 504)  # statuses that a later request may not get
STATUSES: Final[Mapping[str, str]] = {
    "COMPLETED": "It has its images.",
    "REJECTED": "It was not served. `code` says why, and `retry_after_ms` whether it may be later.",
    "EXPIRED": "Its deadline passed before it had an image.",
    "CANCELLED": "Its client or an operator ended it.",
    "FAILED": "It cannot be served: it cannot be read, or its calls failed as often as they may.",
}
MEANINGS: Final[Mapping[str, str]] = {
    "invalid": "The request itself is wrong. `param` names the field, the message the value and what is allowed.",
    "unhonoured": "No level of this deployment does what the request asks for. Ask for less, or without `strict`.",
    "unsafe": "The safety check blocked the image.",
    "overloaded": "It would wait for longer than this deployment lets requests wait. Ask after `retry_after_ms`.",
    "quota": "The tenant has used its images for now. Ask after `retry_after_ms`.",
    "shed": "The workers cannot serve all of the demand, and this tier is turned away first. Ask later.",
    "starting": "The worker that it needs is being started, and would come too late. Ask after `retry_after_ms`.",
    "deadline": "The deadline passed first. State a later one, or a cheaper level.",
    "cancelled": "It was cancelled before it had ended.",
    "poison": "Its calls failed as often as they may, or an equal request ended its workers within the hour.",
    "model_not_found": "The catalog has no model of this name; `/v1/models` lists them.",
    "unsupported": "This API does not take the field or value. The message lists those that it takes.",
    "invalid_api_key": "No key came, or it is unknown, revoked or expired.",
    "missing_scope": "The key may not do this: reading needs the scope `read`, all else `generate`.",
    "host": "A page of another site asked, or the host is foreign. See the setting `gateway.origins`.",
    "not-found": "Nothing is at this address, or the request is unknown, or another tenant's.",
    "method": "The address takes another method, which the message names.",
    "slow-body": "The body did not come in time.",
    "gone": "The address of the image or stream has expired. Ask for a new one.",
    "too-large": "The body, file or image is larger than the limit that the message names.",
    "media-type": "The content type is not the one that the message names.",
    "webhook": "The webhook's address is not https, or not public.",
    "too-many-keys": "Too many refused keys came from this address within a minute.",
    "too-many-webhooks": "The tenant has too many webhooks that are not delivered yet.",
    "internal": "The gateway failed. Its log says why, under the id that the message names.",
    "busy": "The gateway answers as many requests as it may. Ask again.",
    "unavailable": "The broker or the image store is away, or the gateway still reads what came before. Ask again.",
    "stopping": "This gateway stops, and the request goes on. Ask for it by the address in the message.",
    "waiting": "It had no result in time, and goes on. Ask for it by the address in the message.",
}


def body() -> str:
    """Return the statuses, then the codes."""
    codes = (
        (f"`{name}`", str(kind.status), f"`{kind.type}`", "later" if _is_for_later(kind.status) else "", MEANINGS[name])
        for name, kind in KINDS.items()
    )
    statuses = table(("status", "what it says"), STATUSES.items())
    return f"\n## How a request ends\n{statuses}\n## Codes\n" + table(("code", "HTTP", "type", "again", "what"), codes)


def _is_for_later(status: int) -> bool:
    return status in LATER
