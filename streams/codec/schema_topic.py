"""The topic `schemas`: each release announces its schemas there, so that older releases can read its records.

Roles and the command line announce their schemas before their first record. An id that is not announced is looked up in
a schema registry: that of `registry.url`, which must have the schemas under the ids of our own file, or the one beside
the embedded broker.
"""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

from schemas.avro import Message, subject_of
from schemas.errors import InvalidRecord, PochadeError
from schemas.later import LATER, Later
from schemas.record import Incoming, Outgoing
from schemas.registry import Registered, latest, registered
from schemas.topics import SCHEMAS
from streams.codec.registry_client import NoSuchSchema, open_registry
from streams.codec.schema_wait import SEARCH_S, Grace
from streams.kafka.clients import ANSWER_LIMIT_S, topic_name
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.consumers.snapshot import past
from streams.kafka.producers.writing import RecordProducer
from streams.kafka.topics import own_topics
from streams.settings import Settings

log = logging.getLogger(__name__)

START_S = 60  # for reading the topic, which holds some tens of records
ASK_S = 0.5  # from one question to the next for an id that the registry does not have yet
PAUSE_S = 0.05  # between two rounds of questions, however many ids are wanted anew


class SchemaById(Protocol):
    """The part of `RegistryClient` that is used here: schemas by id."""

    def schema(self, schema_id: int) -> dict[str, Any]:
        """The Avro schema with this id. Raises PochadeError where there is none."""

    def close(self) -> None:
        """Release the connection."""


def announcements(kinds: Iterable[type[Message]] = ()) -> list[Outgoing]:
    """Return the records that announce the schemas of this release: those of `kinds`, or all."""
    subjects = [subject_of(kind) for kind in kinds] or list(latest())
    return [_record(latest()[subject]) for subject in subjects]


def announce(settings: Settings, producer: RecordProducer, kinds: Iterable[type[Message]]) -> None:
    """Announce the schemas that a command writes with, if the topic exists: roles of an older release may read them.

    Best effort: a user may write prompts without the right to write here. Raises Unreachable without a cluster.
    """
    if topic_name(settings, SCHEMAS) in own_topics(settings):  # writing to one that is not there takes half a minute
        for record in announcements(kinds):
            producer.send(record)


def _record(entry: Registered) -> Outgoing:
    return Outgoing(topic=SCHEMAS, key=str(entry.id).encode(), value=json.dumps(asdict(entry)).encode())


def entry_in(record: Incoming) -> Registered:
    """The version in a record of the topic. Raises InvalidRecord."""
    try:
        values = json.loads(record.value or b"")
        entry = Registered(int(values["id"]), values["subject"], int(values["version"]), values["schema"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidRecord(f"no schema version: {error!r:.200}; starts {(record.value or b'')[:40]!r}") from error
    if record.key != str(entry.id).encode():
        raise InvalidRecord(f"the schema with id {entry.id} has the key {record.key!r:.80}, not its id")
    return entry


class KnownSchemas:
    """Keeps what this process knows of newer releases' schemas up to date."""

    def __init__(
        self,
        settings: Settings,
        later: Later = LATER,
        registry: SchemaById | None = None,
        read: Callable[[], Sequence[Incoming]] | None = None,
    ) -> None:
        """`registry`: None: the configured or embedded one. `read`: the topic to its end; None: on the cluster.

        Raises PochadeError: settings of a registry that cannot work.
        """
        self._later = later
        self._read = read or partial(past, settings, [SCHEMAS], timeout_s=ANSWER_LIMIT_S)
        self._grace = Grace()
        self._looked_for, self._looked_s = frozenset[int](), 0.0  # the ids of the last look, and when it was
        self._registry = registry or open_registry(settings)
        self._failures: dict[int, str] = {}  # id -> what was logged of it
        self._stopping = threading.Event()
        self._asking = threading.Thread(target=self._ask, name="schema-registry", daemon=True)
        self._follower = TopicTailer(settings, [SCHEMAS], self.on_record)

    def on_record(self, record: Incoming) -> None:
        """Take in a record of the topic. Raises InvalidRecord."""
        entry = entry_in(record)
        if self._later.learn(entry):
            log.info("a newer release writes %s under schema id %d", entry.subject, entry.id)

    def start(self) -> "KnownSchemas":
        """Follow the topic, and return when all announced schemas are known. Raises PochadeError without a broker."""
        log.info("knows schema ids up to %d; newer releases announce theirs", registered()[-1].id)
        self._follower.start().wait_caught_up(START_S)
        self._asking.start()
        return self

    def close(self) -> None:
        """Stop following the topic."""
        self._stopping.set()
        self._follower.close()
        if self._asking.is_alive():
            self._asking.join(START_S)
        if self._registry is not None:
            self._registry.close()

    def _ask(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            self._later.more_wanted.wait(ASK_S)
            self._later.more_wanted.clear()
            self.ask_registry()
            self.search(time.monotonic())

    def ask_registry(self) -> None:
        """Ask the registry once for each id that a reader wants."""
        if self._registry is not None:
            for schema_id in self._later.wanted():
                self._is_denied(self._registry, schema_id)

    def _is_denied(self, registry: SchemaById, schema_id: int) -> bool:
        """Ask for an id and learn its schema; return whether the answer was that there is none."""
        try:
            schema = registry.schema(schema_id)
        except PochadeError as error:
            self._log_failure(schema_id, str(error))
            if isinstance(error, NoSuchSchema):
                self._later.deny(schema_id)
            return isinstance(error, NoSuchSchema)
        subject = f"{schema.get('namespace', '')}.{schema.get('name', '')}"
        self._later.learn(Registered(schema_id, subject, 0, schema))
        return False

    def search(self, now_s: float) -> None:
        """Look for the ids that records wait for: at once for new ones, else every SEARCH_S.

        What neither the topic nor a registry has is given up after the grace; without a registry the topic decides.
        """
        held = self._later.waiting()
        if not held or (held <= self._looked_for and now_s - self._looked_s < SEARCH_S):
            return
        self._looked_for, self._looked_s = held, now_s
        over = self._grace.over(self._found_nowhere(), now_s)
        for schema_id in sorted(over):
            log.error(
                "schema id %d is on no record of %s and in no registry: its records are set aside as unread; "
                "`pochade dlq redrive` brings them back once the schema is there", schema_id, SCHEMAS,
            )  # fmt: skip
        self._later.give_up(over)

    def _found_nowhere(self) -> frozenset[int]:
        """Read the topic to its end, and return the held ids that the registry answers not to have either."""
        try:
            for record in self._read():
                with contextlib.suppress(InvalidRecord):  # the follower has reported it
                    self.on_record(record)
        except PochadeError as error:
            log.warning("cannot read %s to its end, so that records wait on: %s", SCHEMAS, error)
            return frozenset()
        held, registry = self._later.waiting(), self._registry
        return held if registry is None else frozenset(each for each in held if self._is_denied(registry, each))

    def _log_failure(self, schema_id: int, why: str) -> None:
        """Log each reason once, as the registry is asked again and again."""
        if self._failures.get(schema_id) != why:
            self._failures = {each: text for each, text in self._failures.items() if each in self._later.wanted()}
            self._failures[schema_id] = why
            log.warning("schema id %d is not known: %s", schema_id, why)
