"""Refuses requests that equal one which ended its workers: for an hour, or until an operator redrives that one.

Requests are equal if their tenant, prompt and options are; the seed is left out. A mark keeps no text, but a digest
with a salt of its own: a prompt can be held against it, not read from it, and no two marks can be compared.
"""

import dataclasses
import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from typing import Final

from schemas.messages import GenerateRequest, PoisonMark

REMEMBERED_MS: Final = 60 * 60 * 1000
MAX_MARKS: Final = 100  # the oldest leave first; a job is compared with each, at some 2 us


def mark_of(request: GenerateRequest, salt: str = "") -> PoisonMark:
    """Return the mark of a request that ended its workers; `salt`: hexadecimal, by default a new one."""
    salt = salt or secrets.token_hex(16)
    return PoisonMark(salt=salt, digest=_digest(salt, _content(request)))


def _content(request: GenerateRequest) -> bytes:
    return json.dumps([request.tenant, request.prompt, dataclasses.asdict(request.options)], sort_keys=True).encode()


def _digest(salt: str, content: bytes) -> str:
    return hmac.digest(salt.encode(), content, hashlib.sha256).hex()


class PoisonMarks:
    """The marks of the last hour by the id of the request that ended its workers. One thread at a time."""

    def __init__(self) -> None:
        self._marks: OrderedDict[str, tuple[PoisonMark, float]] = OrderedDict()

    def add(self, request_id: str, mark: PoisonMark, at_ms: float) -> None:
        """Refuse requests equal to this one from now on."""
        self._marks[request_id] = mark, at_ms
        if len(self._marks) > MAX_MARKS:
            self._marks.popitem(last=False)

    def remove(self, request_id: str) -> None:
        """Refuse no request on account of this one any more. Does nothing if it has no mark."""
        self._marks.pop(request_id, None)

    def __contains__(self, request_id: str) -> bool:
        """Whether this request has a mark."""
        return request_id in self._marks

    def equal_to(self, request: GenerateRequest, now_ms: float) -> str | None:
        """Return the id of an equal request that ended its workers within the hour; None if there is none."""
        if not self._marks:
            return None
        content = _content(request)
        for request_id, (mark, at_ms) in self._marks.items():
            if now_ms - at_ms < REMEMBERED_MS and hmac.compare_digest(mark.digest, _digest(mark.salt, content)):
                return request_id
        return None
