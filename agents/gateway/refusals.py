"""Refusals over HTTP: the table of codes and their HTTP statuses, and errors as JSON in OpenAI's shape.

The pipeline's codes and texts are passed on unchanged.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from planner.serving.decisions import DEADLINE, OVERLOADED, QUOTA, SHED, STARTING, UNHONOURED
from planner.serving.safety import UNSAFE
from schemas.errors import InvalidRequest, PochadeError
from schemas.messages import Result, Status
from schemas.vocabulary import as_stated

INVALID: Final = "invalid"
UNKNOWN_MODEL: Final = "model_not_found"  # as OpenAI spells it: clients look at it
INVALID_TYPE: Final = "invalid_request_error"
LIMIT_TYPE: Final = "rate_limit_error"
SERVER_TYPE: Final = "server_error"


OTHER_WAYS: Final = "; a data URI and an https address are taken as well, and so is what POST /v1/files answers"


class Kind(NamedTuple):
    """The HTTP form of a code."""

    status: int  # of HTTP
    type: str  # OpenAI's word for its class of errors
    may_repeat: bool = True  # if False, `x-should-retry: false` stops clients that repeat 408, 409, 429 and 5xx


KINDS: Final[Mapping[str, Kind]] = {
    # of the pipeline, as results carry them
    INVALID: Kind(400, INVALID_TYPE),
    UNHONOURED: Kind(400, INVALID_TYPE),
    UNSAFE: Kind(400, INVALID_TYPE),
    OVERLOADED: Kind(429, LIMIT_TYPE),
    QUOTA: Kind(429, LIMIT_TYPE),
    SHED: Kind(429, LIMIT_TYPE),
    STARTING: Kind(429, LIMIT_TYPE),
    DEADLINE: Kind(504, SERVER_TYPE, may_repeat=False),  # a repetition would be late behind the same queue
    "cancelled": Kind(409, INVALID_TYPE, may_repeat=False),
    "poison": Kind(500, SERVER_TYPE, may_repeat=False),  # its calls failed as often as they may, or ended workers
    # of the gateway itself
    UNKNOWN_MODEL: Kind(404, INVALID_TYPE),
    "unsupported": Kind(400, INVALID_TYPE),
    "invalid_api_key": Kind(401, INVALID_TYPE),  # as OpenAI spells it, like the next
    "missing_scope": Kind(403, INVALID_TYPE),
    "host": Kind(403, INVALID_TYPE),
    "not-found": Kind(404, INVALID_TYPE),
    "method": Kind(405, INVALID_TYPE),
    "slow-body": Kind(408, INVALID_TYPE, may_repeat=False),
    "gone": Kind(410, INVALID_TYPE),
    "too-large": Kind(413, INVALID_TYPE),
    "media-type": Kind(415, INVALID_TYPE),
    "webhook": Kind(400, INVALID_TYPE),
    "too-many-keys": Kind(429, LIMIT_TYPE),
    "too-many-webhooks": Kind(429, LIMIT_TYPE),
    "internal": Kind(500, SERVER_TYPE, may_repeat=False),
    "busy": Kind(503, SERVER_TYPE),
    "unavailable": Kind(503, SERVER_TYPE),
    "stopping": Kind(503, SERVER_TYPE, may_repeat=False),  # its request is in work: a repetition would be a second one
    "waiting": Kind(504, SERVER_TYPE, may_repeat=False),  # so here
}
OF_STATUS: Final[Mapping[Status, Kind]] = {  # for codes of a newer release
    Status.REJECTED: Kind(400, INVALID_TYPE),
    Status.EXPIRED: KINDS[DEADLINE],
    Status.CANCELLED: KINDS["cancelled"],
    Status.FAILED: KINDS["poison"],
}


class Refusal(PochadeError):
    """An error answer to a request."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_ms: int | None = None,
        kind: Kind | None = None,
    ) -> None:
        """`param`: the wrong parameter; None if there is no single one. `kind`: None for the table's kind of `code`."""
        super().__init__(message)
        self.code = code
        self.param = None if param is None else param.encode(errors="replace").decode()  # a client may have chosen it
        self.retry_after_ms = retry_after_ms
        self.kind = kind or KINDS[code]

    def body(self) -> dict[str, Any]:
        """Return the error in OpenAI's shape, with the words of RFC 9457 beside it, which Replicate's client reads."""
        error = {"message": str(self), "type": self.kind.type, "param": self.param, "code": self.code}
        return {"error": error, "title": self.code, "status": self.kind.status, "detail": str(self)}

    def headers(self) -> dict[str, str]:
        """Return the headers that say whether and when to repeat; `Retry-After` in whole seconds, at least 1."""
        headers = {} if self.kind.may_repeat else {"x-should-retry": "false"}
        if self.kind.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.retry_after_ms is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after_ms / 1000)))
            headers["retry-after-ms"] = str(self.retry_after_ms)
        return headers


def refusal_of(result: Result, params: Mapping[str, str]) -> Refusal:
    """Return the refusal that a result other than COMPLETED is answered with, by its own code and reason.

    A REJECTED one with a time to retry is a 429, whatever its code. `params`: as below.
    """
    assert result.status is not Status.COMPLETED, "it has an image"
    kind = KINDS.get(result.code, OF_STATUS[result.status])
    if result.status is Status.REJECTED and result.retry_after_ms is not None:
        kind = KINDS[OVERLOADED]
    code = result.code or str(result.status).lower()
    param = params.get(result.param, result.param) or None
    return Refusal(code, result.reason, param=param, retry_after_ms=result.retry_after_ms, kind=kind)


def refusal_of_error(error: InvalidRequest, params: Mapping[str, str], request_id: str = "") -> Refusal:
    """Return the refusal of a request that the pipeline's own check refuses, with its text.

    `params`: field of a request -> the API's name for it, where they differ; an alias is named in the text, too.
    `request_id`: left out of the text, as no such request exists. Advice for the command line is replaced by advice for
    HTTP.
    """
    param = params.get(error.field, error.field)
    fault = as_stated(error, [param.removeprefix("input.")]).fault.removesuffix(f" (request {request_id})")
    way = OTHER_WAYS if error.command else ""
    return Refusal(INVALID, f"{fault}{way}", param=param or None)
