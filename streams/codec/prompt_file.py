"""Requests from a list of prompts, and the checks before one is sent; all bad entries are reported at once."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from schemas.errors import InvalidRecord, InvalidRequest
from schemas.ids import new_request_id
from schemas.messages import GenerateRequest
from schemas.record import Incoming
from schemas.topics import PROMPTS
from schemas.vocabulary import as_stated, in_own_words
from streams.codec.prompt_lists import entries
from streams.codec.requests import decode_request
from streams.visible import counted

MAX_LISTED = 10  # bad lines that a message names


class InvalidFile(InvalidRequest):
    """Lines that are no requests, with file and line."""


def requests_in(
    lines: Iterable[str],
    name: str,
    *,
    now_ms: int,
    check: Callable[[GenerateRequest], object],
    defaults: dict[str, Any],
) -> list[dict[str, Any]]:
    """The fields of each request of a list of prompts (`prompt_lists.py`); `defaults` are those that an entry lacks.

    `check` raises InvalidRequest for one that would not be served.

    Raises InvalidFile: which entries are wrong and why; ids that are given twice too.
    """
    wrong: list[str] = []
    requests: list[dict[str, Any]] = []
    first: dict[str, str] = {}
    for where, fields, fault in entries(lines, name):
        if fault:
            wrong.append(f"{where}: {fault}")
            continue
        try:
            own = {**defaults, **in_own_words(fields, now_ms)}
            request = request_of(own, now_ms)
            check(request)
            if request.request_id in first:
                raise InvalidRequest(f"request_id {request.request_id!r} is that of {first[request.request_id]} too")
        except (InvalidRecord, InvalidRequest) as error:
            wrong.append(f"{where}: {as_stated(error, fields) if isinstance(error, InvalidRequest) else error}")
            continue
        first[request.request_id] = where
        requests.append(own)
    if wrong:
        more = f"\n... and {len(wrong) - MAX_LISTED} more" if len(wrong) > MAX_LISTED else ""
        bad = counted(len(wrong), "bad line")
        raise InvalidFile(f"nothing was sent: {bad}\n" + "\n".join(wrong[:MAX_LISTED]) + more)
    return requests


def request_of(fields: dict[str, Any], now_ms: int) -> GenerateRequest:
    """A request from its JSON fields, with an id and a creation time where it names none.

    Raises InvalidRequest: an unknown field, a value of the wrong type, or an empty id.
    """
    if fields.get("request_id") == "":  # on the topic its position would name it; here there is none
        raise InvalidRequest("request_id must not be empty: leave it out to have one made", field="request_id")
    fields = {"request_id": new_request_id(), "created_ms": now_ms, **fields}
    value = json.dumps(fields).encode()  # the rules of `prompts` are applied where they are
    return decode_request(Incoming(topic=PROMPTS, partition=0, offset=0, timestamp_ms=now_ms, key=None, value=value))
