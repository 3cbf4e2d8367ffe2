"""Messages to bytes and back: Confluent framing (0, four bytes of schema id, Avro), or JSON for requests.

Ids come from the committed `schemas/registry.json`; a reader resolves any version ever written to its own.
"""

import functools
import io
import json
import struct
from collections.abc import Callable
from typing import Any, TypeVar

import fastavro

from schemas.avro import Message, from_avro, subject_of, to_avro
from schemas.errors import InvalidRecord, InvalidRequest, Unknown
from schemas.ids import request_id_of_record
from schemas.messages import GenerateRequest
from schemas.record import Incoming
from schemas.registry import by_id, latest

M = TypeVar("M")
HEAD = struct.Struct(">BI")


def encode(message: Message) -> bytes:
    """Framed Avro of any message, under its newest schema."""
    head, schema, convert = _writer(type(message))
    out = io.BytesIO()
    out.write(head)
    fastavro.schemaless_writer(out, schema, convert(message))
    return out.getvalue()


@functools.cache
def _writer(kind: type[Message]) -> tuple[bytes, Any, Callable[[Any], Any]]:
    entry = latest()[subject_of(kind)]
    return HEAD.pack(0, entry.id), fastavro.parse_schema(entry.schema), to_avro(kind)


def decode(data: bytes | None, kind: type[M]) -> M:
    """The message in framed Avro bytes.

    Raises:
        InvalidRecord: not framed, an unknown id, another message's id, or bytes that are not that schema's.
    """
    if not data or len(data) < HEAD.size or data[0] != 0:
        start = repr((data or b"")[:12])
        raise InvalidRecord(f"not framed Avro: {len(data or b'')} bytes starting {start}; expected 0, schema id, Avro")
    _, schema_id = HEAD.unpack_from(data)
    writer, reader, convert = _reader(schema_id, kind)  # type: ignore[arg-type]
    stream = io.BytesIO(data)
    stream.seek(HEAD.size)
    try:
        record = fastavro.schemaless_reader(stream, writer, reader)
        message: M = convert(record)
    except Exception as error:  # fastavro raises whatever the broken bytes lead it to
        raise InvalidRecord(f"bytes do not follow schema {schema_id}: {type(error).__name__}: {error}") from error
    if stream.tell() != len(data):
        raise InvalidRecord(f"{len(data) - stream.tell()} bytes left over after a record of schema {schema_id}")
    return message


@functools.lru_cache(maxsize=256)
def _reader(schema_id: int, kind: type[Message]) -> tuple[Any, Any, Callable[[Any], Any]]:
    entry = by_id().get(schema_id)
    if entry is None:
        raise InvalidRecord(f"unknown schema id {schema_id}: known are 1 to {len(by_id())} (schemas/registry.json)")
    subject = subject_of(kind)
    if entry.subject != subject:
        raise InvalidRecord(f"schema id {schema_id} is {entry.subject}, expected {subject}")
    newest = latest()[subject]
    reader = None if newest.id == schema_id else fastavro.parse_schema(newest.schema)
    return fastavro.parse_schema(entry.schema), reader, from_avro(kind)


JSON_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "request_id": ((str,), "a string"),
    "prompt": ((str,), "a string"),
    "created_ms": ((int,), "an integer (epoch milliseconds)"),
    "deadline_ms": ((int, type(None)), "an integer (epoch milliseconds) or null"),
    "seed": ((int, type(None)), "an integer or null"),
    "tenant": ((str,), "a string"),
}


def decode_request(record: Incoming) -> GenerateRequest:
    """The request in a record of `prompts`: framed Avro, or one JSON object of which only `prompt` is required.

    Raises:
        InvalidRecord: not readable at all.
        InvalidRequest: readable JSON with an unknown key or a value of the wrong type.
    """
    if record.value and record.value[0] == 0:
        return decode(record.value, GenerateRequest)
    fields = _json_object(record.value)
    for name, value in fields.items():
        if name not in JSON_TYPES:
            raise InvalidRequest(str(Unknown("request field", name, JSON_TYPES)))
        kinds, wanted = JSON_TYPES[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise InvalidRequest(f"request field {name!r} must be {wanted}: got {value!r:.80}")
        if isinstance(value, str) and not _is_unicode(value):
            raise InvalidRequest(f"request field {name!r} must be valid Unicode: it holds half a surrogate pair")
    if "prompt" not in fields:
        raise InvalidRequest('request field "prompt" is missing: send {"prompt": "a red heart"}')
    named = {"request_id": request_id_of(record), "created_ms": record.timestamp_ms}
    return GenerateRequest(**{**named, **fields})


def request_id_of(record: Incoming) -> str:
    """The request a record belongs to, readable or not: its JSON `request_id`, its key, or its own position."""
    try:
        named = _json_object(record.value).get("request_id")
        if isinstance(named, str) and named and _is_unicode(named):
            return named
    except InvalidRecord:
        pass  # not JSON: the key decides
    try:
        key = (record.key or b"").decode()
    except UnicodeDecodeError:
        key = ""
    return key or request_id_of_record(record.topic, record.partition, record.offset)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_object(value: bytes | None) -> dict[str, Any]:
    if not value or value[:1] == b"\0":
        raise InvalidRecord(f"neither framed Avro nor JSON: {len(value or b'')} bytes {(value or b'')[:40]!r}")
    try:
        parsed = json.loads(value)
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise InvalidRecord(f"neither framed Avro nor JSON: {error}; starts {value[:40]!r}") from error
    if not isinstance(parsed, dict):
        raise InvalidRecord(f"not a JSON object but {type(parsed).__name__}: {value[:40]!r}")
    return parsed
