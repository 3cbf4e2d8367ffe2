"""Messages to bytes and back: Confluent framing (0, four bytes of schema id, Avro), or JSON for requests.

Ids come from the committed `schemas/registry.json`; a reader resolves any version ever written to its own, and those of
newer releases once it has learnt them (`schemas/later.py`).
"""

import functools
import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import fastavro
import pydantic

from schemas.avro import Message, subject_of, to_avro, to_wire
from schemas.errors import InvalidRecord, Unknown, UnknownSchema
from schemas.later import LATER, may_come
from schemas.messages import Result, Stage
from schemas.record import Incoming
from schemas.registry import by_id, latest, newest_up_to
from schemas.wire_names import FIELDS, field_name, in_python_names, with_documented_names

M = TypeVar("M")
HEAD = struct.Struct(">BI")
JSON_NAMES = pydantic.ConfigDict(alias_generator=field_name, validate_by_alias=True, validate_by_name=True)

for kind in (Result, Stage):  # what is read from JSON as well, where the names on the wire stand
    pydantic.with_config(JSON_NAMES)(kind)


_highest = 0  # id of a schema that this process writes; 0: the newest of each message


def write_up_to(schema_id: int) -> None:
    """Write no schema with a higher id from now on, as readers of an older release would not know it.

    Of a message that is newer than this id its first version is written. 0: the newest version of each message.
    """
    global _highest
    _highest = schema_id
    _writer.cache_clear()


def encode(message: Message) -> bytes:
    """Framed Avro of any message, under its newest schema, or the newest that `write_up_to` allows."""
    head, schema, convert = _writer(type(message))
    out = io.BytesIO()
    out.write(head)
    fastavro.schemaless_writer(out, schema, convert(message))
    return out.getvalue()


@functools.cache
def _writer(kind: type[Message]) -> tuple[bytes, Any, Callable[[Any], Any]]:
    subject = subject_of(kind)
    entry = newest_up_to(subject, _highest) if _highest else latest()[subject]
    return HEAD.pack(0, entry.id), _parsed(entry.schema), to_avro(kind)


def decode(data: bytes | None, kind: type[M]) -> M:
    """Decode the message in framed Avro bytes.

    Raises:
        UnknownSchema: this process has not learnt the schema id.
        InvalidRecord: not framed, another message's id, or bytes that are not that schema's.
    """
    if data is None:
        raise InvalidRecord("no value (a tombstone): expected 0, schema id, Avro")
    if len(data) < HEAD.size or data[0] != 0:
        start = repr(data[:12])
        raise InvalidRecord(f"not framed Avro: {len(data)} bytes starting {start}; expected 0, schema id, Avro")
    _, schema_id = HEAD.unpack_from(data)
    writer, reader = _schemas(schema_id, kind)  # type: ignore[arg-type]
    stream = io.BytesIO(data)
    stream.seek(HEAD.size)
    try:
        record = fastavro.schemaless_reader(stream, writer, reader)
        message: M = from_values(kind, record)
    except Exception as error:  # fastavro raises whatever the broken bytes lead it to
        raise InvalidRecord(f"bytes do not follow schema {schema_id}: {type(error).__name__}: {error}") from error
    if stream.tell() != len(data):
        raise InvalidRecord(f"{len(data) - stream.tell()} bytes left over after a record of schema {schema_id}")
    return message


def read_each(records: Iterable[Incoming], kind: type[M]) -> Iterator[tuple[Incoming, M | InvalidRecord]]:
    """Yield records with what they say, or why they cannot be read."""
    for record in records:
        try:
            yield record, decode(record.value, kind)
        except InvalidRecord as error:
            yield record, error


@functools.lru_cache(maxsize=256)
def _schemas(schema_id: int, kind: type[Message]) -> tuple[Any, Any]:
    entry = by_id().get(schema_id) or LATER.find(schema_id)
    if entry is None:
        raise UnknownSchema(schema_id, len(by_id()))
    subject = subject_of(kind)
    if entry.subject != subject:
        raise InvalidRecord(f"schema id {schema_id} is {entry.subject}, expected {subject}")
    newest = latest()[subject]
    reader = None if newest.id == schema_id else _parsed(newest.schema)
    return _parsed(entry.schema), reader


def _parsed(schema: Any) -> Any:
    return fastavro.parse_schema(in_python_names(schema))


def awaited_schema(data: bytes | None) -> int | None:
    """Return the schema id that these bytes wait for: a newer release's, which this process has not learnt yet.

    None if nothing is to be waited for, an id that was given up among it.
    """
    if not data or len(data) < HEAD.size or data[0] != 0:
        return None
    schema_id = int(HEAD.unpack_from(data)[1])
    if not may_come(schema_id) or LATER.is_given_up(schema_id) or LATER.find(schema_id) is not None:
        return None
    return schema_id


def encode_result(result: Result, format: str) -> bytes:
    """Encode a result as `results.format` says: framed Avro, or one JSON object.

    With `schemas.write_up_to` JSON is that of 0.1, whose `path` is a string of JSON. Raises Unknown: another format.
    """
    if format == "avro":
        return encode(result)
    if format == "json":
        values = to_wire(Result)(result) if _highest else result_values(result)
        return json.dumps(values, ensure_ascii=False).encode(errors="replace")
    raise Unknown("results.format", format, ("avro", "json"))


def result_values(result: Result) -> dict[str, Any]:
    """Return a result as JSON has it: `path` is a list, and documented names stand beside those of the wire."""
    path = [with_documented_names(stage) for stage in json.loads(result.path)]
    return with_documented_names(to_wire(Result)(result)) | {"path": path}


def as_written(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result's values with `path` as the message has it, a string of JSON; given as a list or as that."""
    if not isinstance(path := values.get("path"), list):
        return values
    stages = [dict(stage) if isinstance(stage, dict) else {} for stage in path]
    stages = [{name: each for name, each in stage.items() if FIELDS.get(name) not in stage} for stage in stages]
    return {**values, "path": json.dumps(stages)}


def decode_result(data: bytes | None) -> Result:
    """The result in a record of `results`, whichever format it was written in; fields of later versions are ignored.

    Raises InvalidRecord: neither framed Avro nor a JSON object with a result's fields.
    """
    if not data or data[0] == 0:
        return decode(data, Result)
    given = json_object(data)
    try:
        result: Result = from_json(Result, json.dumps(as_written(given)))
        encode(result)  # refuses integers beyond 64 bits, which no reader of Avro would have met
    except (ValueError, OverflowError) as error:
        raise InvalidRecord(f"JSON is no result: {error}; starts {data[:40]!r}") from error
    return result


def from_values(kind: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass, from a dict as Avro and JSON have it: lists for tuples, dicts for dataclasses.

    Raises ValueError: a missing field or a value of the wrong type; the first of these.
    """
    try:
        return _adapter(kind).validator.validate_python(values)
    except pydantic.ValidationError as error:
        raise ValueError(_first_of(error)) from None


def from_json(kind: Any, text: str | bytes) -> Any:
    """A dataclass, or a tuple of them, in JSON; unknown fields are ignored.

    Raises ValueError: no JSON, nested without end, a missing field or a value of the wrong type; the first of these.
    """
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        raise ValueError(_first_of(error)) from None


@functools.cache
def _adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)


def _first_of(error: pydantic.ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")


def is_unicode(text: str) -> bool:
    """Whether the text can be written: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_object(
    value: bytes | None, of_pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]] = dict
) -> dict[str, Any]:
    """The JSON object in these bytes, each object made by `of_pairs`. Raises InvalidRecord, saying what they are."""
    if value is None:
        raise InvalidRecord("no value (a tombstone): expected framed Avro or JSON")
    if not value or value[:1] == b"\0":
        raise InvalidRecord(f"neither framed Avro nor JSON: {len(value)} bytes {value[:40]!r}")
    if value[:2] == b"\x1f\x8b":
        raise InvalidRecord(
            "gzip, neither framed Avro nor JSON: send the value unpacked, and set compression.type=gzip"
        )
    try:
        parsed = json.loads(value, object_pairs_hook=of_pairs)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
        raise InvalidRecord(f"neither framed Avro nor JSON: {error}; starts {value[:40]!r}") from error
    if not isinstance(parsed, dict):
        raise InvalidRecord(f"not a JSON object but {type(parsed).__name__}: {value[:40]!r}")
    return parsed
