"""The AsyncAPI document of a deployment's topics: addresses, settings, keys, messages, and who writes and reads them.

Made from the topic table, the rights and the newest registered schemas, so that it says what they say. AsyncAPI 3.0.0
with its Kafka bindings 0.5.0 (asyncapi.com/docs/reference/specification/v3.0.0).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from schemas import messages
from schemas.access import ACCESS, OF_VARIANTS, PRODUCER, Rows
from schemas.avro import Message, subject_of
from schemas.json_types import properties_of
from schemas.registry import latest
from schemas.topics import PLAN, PUBLIC, RESULTS, Topic, full_name
from schemas.vocabulary import aliased
from schemas.wire_names import with_documented_names

VERSION: Final = "3.0.0"
AVRO: Final = "application/vnd.apache.avro;version=1.9.0"
BINDING: Final = "0.5.0"
ANY_VARIANT: Final = "{variant}"
ANY_KEY: Final = "any, or none: it is no id. A request that states no request_id has one made of its record's position"
NUMBERS: Final = frozenset(  # the settings of a Kafka binding that are numbers
    {"retention.ms", "delete.retention.ms", "retention.bytes", "max.message.bytes"}
)
MORE: Final[Mapping[str, tuple[type[Message], ...]]] = {PLAN: (messages.Pin,)}  # beside the table's own message


def document(
    topics: Iterable[Topic], prefix: str, release: str, bootstrap: Sequence[str] = (), *, is_tls: bool = False
) -> dict[str, Any]:
    """Return the document. `topics`: of the table, and `jobs_topic` and `waiting_topic` of ANY_VARIANT.

    `bootstrap`: host:port of brokers; none: the document names no server.
    """
    topics = tuple(topics)
    protocol = "kafka-secure" if is_tls else "kafka"
    servers = {f"broker-{at}": {"host": host, "protocol": protocol} for at, host in enumerate(bootstrap, 1)}
    return {
        "asyncapi": VERSION,
        "info": {
            "title": f"Pochade: topics of the deployment {prefix}",
            "version": release,
            "description": "Text-to-image serving on Apache Kafka. Clients write prompts and read results; the other "
            "topics are between roles. Values are Avro, with a magic byte 0 and four bytes of schema id before them.",
            "license": {"name": "Apache-2.0"},
        },
        **({"servers": servers} if servers else {}),
        "defaultContentType": "application/octet-stream",
        "channels": {_id(topic): _channel(topic, prefix) for topic in topics},
        "operations": {name: each for topic in topics for name, each in _operations(topic).items()},
        "components": {"messages": _messages(topics)},
    }


def _channel(topic: Topic, prefix: str) -> dict[str, Any]:
    settings: dict[str, Any] = {name: int(value) for name, value in topic.config.items() if name in NUMBERS}
    if "cleanup.policy" in topic.config:
        settings["cleanup.policy"] = [topic.config["cleanup.policy"]]
    kafka: dict[str, Any] = {"partitions": topic.partitions, "bindingVersion": BINDING}
    channel: dict[str, Any] = {
        "address": full_name(prefix, topic.name),
        "description": f"Written by: {topic.written_by}. Read by: {topic.read_by}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _of_topic(topic)},
        "bindings": {"kafka": kafka | ({"topicConfiguration": settings} if settings else {})},
    }
    if ANY_VARIANT in topic.name:
        channel["parameters"] = {"variant": {"description": "Name of a variant of the catalog."}}
    return channel


def _operations(topic: Topic) -> dict[str, Any]:
    """Return a topic's operations: Pochade receives its records, and sends those that its roles write."""
    rows, own = _rights(topic), _id(topic)
    found = {f"receive.{own}": ("receive", f"Read with the rights of {', '.join(rows.read_by)}.")}
    if any(who != PRODUCER for who in rows.written_by):
        found[f"send.{own}"] = ("send", f"Written with the rights of {', '.join(rows.written_by)}.")
    return {
        name: {"action": action, "channel": {"$ref": f"#/channels/{own}"}, "summary": summary}
        for name, (action, summary) in found.items()
    }


def _id(topic: Topic) -> str:
    return topic.name.replace(ANY_VARIANT, "variant")


def _rights(topic: Topic) -> Rows:
    return ACCESS[next((begin for begin in OF_VARIANTS if topic.name.startswith(begin)), topic.name)]


def _kinds(topic: Topic) -> tuple[type[Message], ...]:
    return () if topic.record is None else (topic.record, *MORE.get(topic.name, ()))


def _of_topic(topic: Topic) -> list[str]:
    """Names of the messages on a topic."""
    names = [kind.__name__ for kind in _kinds(topic)]
    if topic.name in PUBLIC:
        names.append("PromptLine")
    if topic.name == RESULTS:
        names.append("ResultLine")
    return names or ["Bytes"]


def _messages(topics: Iterable[Topic]) -> dict[str, Any]:
    kinds = {kind: topic for topic in topics for kind in _kinds(topic)}
    return {kind.__name__: _avro(kind, topic) for kind, topic in kinds.items()} | {
        "PromptLine": {
            "name": "PromptLine",
            "title": "GenerateRequest as one JSON object",
            "summary": "A request; only the prompt is needed. Options stand beside the other fields.",
            "contentType": "application/json",
            "payload": {
                "type": "object",
                "required": ["prompt"],
                "properties": _flat(),
                "additionalProperties": False,
            },
            "bindings": _key(ANY_KEY),
        },
        "ResultLine": {
            "name": "ResultLine",
            "title": "Result as one JSON object",
            "summary": "Where the setting results.format is json.",
            "contentType": "application/json",
            "payload": {"type": "object", "properties": _result()},
            "bindings": _key("request_id"),
        },
        "Bytes": {"name": "Bytes", "title": "Bytes as they are", "summary": "No message of Pochade's own."},
    }


def _flat() -> dict[str, Any]:
    """The fields of a request in JSON, and their aliases: those of its options stand beside its own."""
    return aliased(properties_of(messages.GenerateRequest, ("options",)) | properties_of(messages.GenerateOptions))


def _result() -> dict[str, Any]:
    """The fields of a result in JSON, by the names on the wire and the documented ones; `path` is a list of stages."""
    stage = with_documented_names(properties_of(messages.Stage))
    path = {"type": "array", "items": {"type": "object", "properties": stage}}
    return with_documented_names(properties_of(messages.Result)) | {"path": path}


def _avro(kind: type[Message], topic: Topic) -> dict[str, Any]:
    known = latest()[subject_of(kind)]
    summary = (kind.__doc__ or "").split("\n", 1)[0]
    binding = {"schemaIdLocation": "payload", "schemaIdPayloadEncoding": "4"}
    return {
        "name": known.subject,
        "title": f"{kind.__name__}, schema id {known.id}",
        "summary": summary,
        "contentType": "application/octet-stream",
        "payload": {"schemaFormat": AVRO, "schema": known.schema},
        "bindings": {"kafka": _key(ANY_KEY if topic.name in PUBLIC else topic.key)["kafka"] | binding},
    }


def _key(what: str) -> dict[str, Any]:
    return {"kafka": {"key": {"type": "string", "description": what}, "bindingVersion": BINDING}}
