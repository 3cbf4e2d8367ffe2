"""Every Avro schema ever written, with its id: `registry.json`, committed, append-only.

`python -m schemas.registry` appends a version for each message whose dataclass changed. A used id never changes
(a test holds the golden bytes), and a new version must read the old one's bytes.
"""

import functools
import importlib.resources
import json
import pathlib
from dataclasses import dataclass
from typing import Any

from schemas import messages
from schemas.avro import Message, avro_schema, subject_of

MESSAGES: tuple[type[Message], ...] = (
    messages.GenerateRequest,
    messages.ClassifiedRequest,
    messages.GenerateJob,
    messages.ImageGenerated,
    messages.Outcome,
    messages.Result,
    messages.Event,
    messages.Plan,
    messages.Pin,
    messages.Heartbeat,
    messages.EndedChunk,
    messages.ApiKey,
    messages.Webhook,
    messages.OperatorAction,
    messages.PoisonMark,
)


@dataclass(frozen=True, slots=True)
class Registered:
    """One version of one subject, with its schema id."""

    id: int  # what stands in the four bytes after the magic byte
    subject: str
    version: int  # from 1, within the subject
    schema: dict[str, Any]


@functools.cache
def registered() -> tuple[Registered, ...]:
    """Return all versions, in the order of their ids."""
    text = importlib.resources.files("schemas").joinpath("registry.json").read_text()
    return tuple(Registered(**entry) for entry in json.loads(text))


@functools.cache
def by_id() -> dict[int, Registered]:
    """Return all versions by their schema ids."""
    return {entry.id: entry for entry in registered()}


@functools.cache
def latest() -> dict[str, Registered]:
    """Return the newest version of each subject: this release writes it, unless set to write an older one."""
    return {entry.subject: entry for entry in registered()}


def newest_up_to(subject: str, schema_id: int) -> Registered:
    """The newest version of a subject whose id is at most this; its first one where all have higher ids."""
    versions = [entry for entry in registered() if entry.subject == subject]
    return next((entry for entry in reversed(versions) if entry.id <= schema_id), versions[0])


def append_changed(entries: tuple[Registered, ...]) -> tuple[Registered, ...]:
    """The entries plus a version for each message whose derived schema is not its newest one."""
    grown = list(entries)
    for kind in MESSAGES:
        subject, schema = subject_of(kind), avro_schema(kind)
        versions = [entry for entry in grown if entry.subject == subject]
        if not versions or versions[-1].schema != schema:
            grown.append(Registered(len(grown) + 1, subject, len(versions) + 1, schema))
    return tuple(grown)


def main() -> None:
    """Write `registry.json` beside this file."""
    path = pathlib.Path(__file__).with_name("registry.json")
    entries = registered() if path.exists() else ()
    grown = append_changed(entries)
    lines = ",\n".join(
        json.dumps({"id": e.id, "subject": e.subject, "version": e.version, "schema": e.schema}) for e in grown
    )
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{len(grown) - len(entries)} versions appended, {len(grown)} in all")


if __name__ == "__main__":
    main()
