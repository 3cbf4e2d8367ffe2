"""Topics and messages, of the AsyncAPI document."""

import importlib.metadata
from typing import Any, Final

from infra.site.reference.tables import code, fields, table
from schemas import asyncapi
from schemas.asyncapi import ANY_VARIANT
from schemas.topics import TABLE, jobs_topic, waiting_topic

DAY_MS: Final = 86_400_000


def body() -> str:
    """Return the table of topics, then a section a message."""
    topics = (*TABLE, jobs_topic(ANY_VARIANT, 4), waiting_topic(ANY_VARIANT))
    document = asyncapi.document(topics, "pochade", importlib.metadata.version("pochade"))
    text = table(("topic", "messages", "who writes and reads", "kept"), map(_topic, document["channels"].values()))
    for name, message in document["components"]["messages"].items():
        payload = message.get("payload", {})
        of_avro = ((f"`{each['name']}`", _type(each["type"]), _default(each)) for each in _avro(payload))
        shown = fields(payload) or table(("field", "type", "default"), of_avro)
        text += f"\n## {name}\n\n{message['title']}. {message['summary']}\n{shown}"
    return text


def _topic(channel: dict[str, Any]) -> tuple[str, ...]:
    kept = channel["bindings"]["kafka"].get("topicConfiguration", {})
    days = f"{kept['retention.ms'] / DAY_MS:g} days" if kept.get("retention.ms", -1) > 0 else ""
    messages = ", ".join(f"[{name}](#{name.lower()})" for name in channel["messages"])
    return (
        f"`{channel['address']}`",
        messages,
        channel["description"],
        days or ", ".join(kept.get("cleanup.policy", ())),
    )


def _avro(payload: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = payload.get("schema", {}).get("fields", [])
    return found


def _default(field: dict[str, Any]) -> str:
    return (
        "" if field.get("default") in (None, "", []) or isinstance(field["default"], dict) else code(field["default"])
    )


def _type(kind: Any) -> str:
    """An Avro type in words: of records only the names."""
    if isinstance(kind, list):
        return " or ".join("none" if each == "null" else _type(each) for each in kind)
    if isinstance(kind, dict) and kind["type"] in ("array", "map"):
        return f"list of {_type(kind['items'])}" if kind["type"] == "array" else f"table of {_type(kind['values'])}"
    return str(kind.get("name", kind["type"]) if isinstance(kind, dict) else kind)
