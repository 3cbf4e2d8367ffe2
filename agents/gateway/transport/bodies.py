"""Bodies and addresses of HTTP requests, as the handlers read and write them."""

import json
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse

from agents.gateway.refusals import Refusal
from schemas.errors import InvalidRequest
from streams.codec.requests import without_repeated_keys

JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "multipart/form-data"
CLOSES: Final = frozenset({"too-large", "slow-body", "host"})  # what is left of such a request is not read


def is_form(headers: Headers) -> bool:
    """Whether a body may carry files, as its headers say."""
    return media_type(headers) == FORM_TYPE


def media_type(headers: Headers) -> str:
    """Return the type of a body in lower case, without its parameters; "": none is stated."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_body(http: Request) -> dict[str, Any]:
    """Return the JSON object that a request carries.

    Raises Refusal: another type of content (a page of another site can send those unasked), no JSON, or no object.
    """
    kind = media_type(http.headers)
    if kind != JSON_TYPE:
        raise Refusal("media-type", f"content-type must be {JSON_TYPE}: got {kind!r:.80}")
    try:
        body = parsed(await http.body())
    except (ValueError, RecursionError) as error:
        raise Refusal("invalid", f"the body is not JSON: {error}"[:300]) from None
    except InvalidRequest as error:
        raise Refusal("invalid", str(error), param=error.field) from None
    if not isinstance(body, dict):
        raise Refusal("invalid", f"the body must be a JSON object: got {type(body).__name__}")
    return body


def parsed(text: bytes) -> Any:
    """Return what a JSON text says. Raises ValueError, RecursionError or InvalidRequest for what cannot be said in an
    answer either: numbers that JSON lacks, halves of characters, and keys that stand twice.
    """
    found = json.loads(text, object_pairs_hook=without_repeated_keys)
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    return found


def base_url(http: Request) -> str:
    """Return the address by which clients reach us, without a slash at its end: the stated one, or this client's."""
    return str(http.state.base_url or http.base_url).rstrip("/")


def refused(refusal: Refusal) -> JSONResponse:
    """Return the answer that a refusal is."""
    headers = refusal.headers() | ({"connection": "close"} if refusal.code in CLOSES else {})
    return JSONResponse(refusal.body(), refusal.kind.status, headers)
