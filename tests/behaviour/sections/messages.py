"""The bytes of every message. Values are generated from the Avro schemas and no field is named here, so that a new name
in Python changes nothing as long as the name on the wire stays."""

import dataclasses
import hashlib
import importlib.resources
import io
import json
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import fastavro

from schemas import topics
from schemas.avro import subject_of
from schemas.messages import GenerateRequest, Result, Status
from schemas.record import Incoming
from schemas.registry import MESSAGES, by_id, latest
from streams.codec.avro import decode, encode, encode_result
from streams.codec.requests import decode_request
from tests.behaviour.invoking import invoked
from tests.behaviour.sections.records import written
from tests.behaviour.tree import Tree
from tests.schemas.golden import GOLDEN

T = TypeVar("T")
Track = Callable[[Sequence[T]], Iterable[T]]

HEAD = struct.Struct(">BI")
EXAMPLES = 5  # of each message, with every field set
STATUS = "status"  # the only string on the wire that Python holds as an enum


def record(_tree: Tree, track: Track[Any]) -> dict[str, Any]:
    """Encoded messages, older bytes after reading and writing, both JSON formats, topics, rights and all records."""
    registry = importlib.resources.files("schemas").joinpath("registry.json").read_bytes()
    return {
        "registry.json": hashlib.sha256(registry).hexdigest(),
        "encoded": {subject_of(kind): _encoded(kind) for kind in track(MESSAGES)},
        "older bytes, encoded again": {str(schema_id): _again(schema_id, text) for schema_id, text in GOLDEN.items()},
        "requests in JSON": {text: encode(_request(text)).hex() for text in _json_requests()},
        "results in JSON": [encode_result(each, "json").decode() for each in _results()],
        "topics": {each.name: [each.key, each.partitions, each.config] for each in topics.table()},
        "names": {"jobs": topics.jobs_topic("light", 3).name, "group": topics.worker_group("pochade", "light")},
        "rights": json.loads(invoked("topics", "acls", "-o", "json").stdout),  # groups and transactional ids by role
        "written": written(),
    }  # fmt: skip


def _encoded(kind: Any) -> dict[str, Any]:
    entry = latest()[subject_of(kind)]
    written = {f"full {n}": _full(entry.schema, f"{entry.subject} {n}") for n in range(EXAMPLES)}
    written["empty"] = _full(entry.schema, entry.subject, is_empty=True)
    found: dict[str, Any] = {"schema id": entry.id}
    for name, value in written.items():
        data = _avro(entry.id, entry.schema, value)
        own = encode(decode(data, kind))
        found[name] = own.hex() if own == data else f"{own.hex()}, read from {data.hex()}"
    found["defaults"] = encode(_with_defaults(decode(_avro(entry.id, entry.schema, written["full 0"]), kind))).hex()
    return found


def _with_defaults(message: Any) -> Any:
    required = [
        field.name
        for field in dataclasses.fields(message)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return type(message)(**{name: getattr(message, name) for name in required})


def _avro(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    out.write(HEAD.pack(0, schema_id))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def _full(schema: dict[str, Any], seed: str, *, is_empty: bool = False) -> dict[str, Any]:
    """Generate a value of a record's schema. Equal seeds give equal values."""
    dice, named = random.Random(seed), {each["name"]: each for each in _records_in(schema)}

    def value_of(kind: Any, field: str) -> Any:
        if isinstance(kind, list):  # a union with null
            return None if is_empty else value_of(next(each for each in kind if each != "null"), field)
        if isinstance(kind, str):
            name = kind.rpartition(".")[2]
            return record_of(named[name]) if name in named else primitive(kind, field)
        if kind["type"] == "array":
            return [] if is_empty else [value_of(kind["items"], field) for _ in range(2)]
        if kind["type"] == "map":
            return {} if is_empty else {f"{field}-{n}": value_of(kind["values"], field) for n in range(2)}
        return record_of(kind)

    def primitive(kind: str, field: str) -> Any:
        if kind == "string" and field == STATUS:
            return dice.choice([str(status) for status in Status])
        return {
            "string": lambda: "" if is_empty else f"{field} {dice.randrange(1000)} é",
            "long": lambda: 0 if is_empty else dice.randrange(1, 2**40),
            "double": lambda: 0.0 if is_empty else dice.random(),
            "boolean": lambda: not is_empty,
            "bytes": lambda: b"" if is_empty else dice.randbytes(24),
        }[kind]()

    def record_of(kind: dict[str, Any]) -> dict[str, Any]:
        return {each["name"]: value_of(each["type"], each["name"]) for each in kind["fields"]}

    return record_of(schema)


def _records_in(schema: Any) -> Iterator[dict[str, Any]]:
    """All records that a schema defines, itself included."""
    if isinstance(schema, dict):
        if schema.get("type") == "record":
            yield schema
        for each in schema.values():
            yield from _records_in(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _records_in(each)


def _again(schema_id: int, text: str) -> str:
    kinds = {subject_of(kind): kind for kind in MESSAGES}
    kind: Any = kinds[by_id()[schema_id].subject]
    return encode(decode(bytes.fromhex(text), kind)).hex()


def _request(text: str) -> GenerateRequest:
    record = Incoming(
        topic=topics.PROMPTS, partition=1, offset=7, timestamp_ms=1_700_000_000_000, key=None, value=text.encode()
    )
    return decode_request(record)


def _json_requests() -> list[str]:
    """Requests with the prompt alone, with every key, and with each single key beside the prompt."""
    schema = latest()[subject_of(GenerateRequest)].schema
    whole = _full(schema, "JSON")
    flat = {name: value for name, value in whole.items() if not isinstance(value, dict)}
    for value in whole.values():
        flat |= value if isinstance(value, dict) else {}
    prompt = {"prompt": "a red heart"}
    return [json.dumps(each) for each in (prompt, flat, *(prompt | {name: value} for name, value in flat.items()))]


def _results() -> list[Result]:
    entry = latest()[subject_of(Result)]
    values = [_full(entry.schema, f"JSON {n}") | {"path": "[]"} for n in range(EXAMPLES)]  # a text that is JSON
    return [decode(_avro(entry.id, entry.schema, value), Result) for value in values]
