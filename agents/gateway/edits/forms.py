"""Bodies of `multipart/form-data`: fields as JSON values, files, and a digest that does not depend on the boundary."""

import hashlib
import re
from collections.abc import AsyncGenerator
from typing import Any, Final, NamedTuple

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from agents.gateway.refusals import INVALID, Refusal
from agents.gateway.transport.bodies import FORM_TYPE
from schemas.vocabulary import ALIASES, DECLARED
from streams.store.input_images import MAX_BYTES

MAX_FILES, MAX_FIELDS = 17, 100  # OpenAI's clients may send 16 images and a mask; the refusal says that one is accepted
OPTIONS: Final = {**DECLARED, **{alias: DECLARED[own] for alias, (own, *_) in ALIASES.items()}}
WHOLE: Final = {name for name, each in OPTIONS.items() if each.numbers is int} | {
    "output_compression", "partial_images",
}  # fmt: skip
DECIMAL: Final = {name for name, each in OPTIONS.items() if each.numbers is float}
YES_OR_NO: Final = {name for name, each in OPTIONS.items() if each.type is bool} | {"stream"}
LISTS: Final = {name for name, each in OPTIONS.items() if each.is_list}
NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,18})?")


class Form(NamedTuple):
    """A form as it was sent."""

    fields: dict[str, Any]
    files: dict[str, list[bytes]]  # by field, without the brackets of a list
    digest: bytes  # of all fields and files with their names, in their order


async def form_of(http: Request) -> Form:
    """Return a request's form. Large files lie on the disk until the whole form is read.

    A malformed number or boolean stays a text; the check of the request then refuses it by name.

    Raises Refusal: another content type, an invalid form, too many parts, a file above MAX_BYTES, or a repeated field.
    """
    kind, options = parse_options_header(http.headers.get("content-type", ""))
    if kind != FORM_TYPE.encode():
        raise Refusal("media-type", f"content-type must be {FORM_TYPE}: got {kind.decode('latin-1')!r:.80}")
    last, end = b"--%b--" % options.get(b"boundary", b""), b""

    async def body() -> AsyncGenerator[bytes, None]:
        nonlocal end
        async for part in http.stream():
            end = (end + part)[-len(last) - 2 :]
            yield part

    parser = MultiPartParser(http.headers, body(), max_files=MAX_FILES, max_fields=MAX_FIELDS)
    try:
        sent = await parser.parse()
    except MultiPartException as error:
        raise Refusal(INVALID, f"the body is no form that can be read: {error.message}"[:300]) from None
    try:
        if not end.rstrip(b"\r\n").endswith(last):  # the parser passes over a part without an end
            raise Refusal(INVALID, "the body ends before its last boundary")
        return await _read(sent.multi_items())
    finally:
        await sent.close()


async def _read(items: list[tuple[str, UploadFile | str]]) -> Form:
    fields: dict[str, Any] = {}
    files: dict[str, list[bytes]] = {}
    digest = hashlib.sha256()
    for sent_name, value in items:
        name = sent_name.removesuffix("[]")
        if isinstance(value, UploadFile):
            if (value.size or 0) > MAX_BYTES:
                limit = f"{name:.80} must have at most {MAX_BYTES} bytes"
                raise Refusal("too-large", f"{limit}: got {value.size}; shrink it", param=name[:80])
            data = await value.read()
            files.setdefault(name, []).append(data)
        else:
            data = value.encode(errors="replace")
            if name in LISTS:
                fields.setdefault(name, []).append(_typed(name, value))
            elif name in fields:
                raise Refusal(INVALID, f"{name:.80} must be there once", param=name[:80])
            else:
                fields[name] = _typed(name, value)
        for part in (sent_name.encode(errors="replace"), data):
            digest.update(hashlib.sha256(part).digest())
    return Form(fields, files, digest.digest())


def _typed(name: str, text: str) -> Any:
    """A field's value as JSON has it."""
    if name in YES_OR_NO:
        return {"true": True, "false": False}.get(text.lower(), text)
    if (name in WHOLE or name in DECIMAL) and (found := NUMBER.fullmatch(text)):
        return float(text) if name in DECIMAL or found[1] else int(text)
    return text
