"""Schemas that newer releases write with, as somebody told this process: its own file cannot hold them.

Two releases run side by side while a deployment is upgraded. A record of the newer one names a schema id above those
of `registry.json`; its bytes are read by the schema that it was written with, into this release's own message.
"""

import threading
from collections import OrderedDict

import fastavro

from schemas.registry import Registered, by_id, latest

MAX_KNOWN = 10_000  # ids kept; a release adds some tens
MAX_WANTED = 100  # ids that somebody asked for in vain, kept for who can ask elsewhere
MAX_AHEAD = 10_000  # an id further above our own is no release's: such a record is broken, and waits for nothing


class Later:
    """Any thread may tell, ask and look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[int, Registered] = {}
        self._wanted: OrderedDict[int, None] = OrderedDict()
        self._denied: OrderedDict[int, None] = OrderedDict()
        self.more_wanted = threading.Event()  # an id is wanted that was not before; cleared by who asks for it
        self.count = 0  # schemas told so far: who waits for one looks again when this has changed

    def learn(self, entry: Registered) -> bool:
        """Take in a version; False: it changes nothing, as ids that are known never change and only messages count."""
        is_ours = entry.id not in by_id() and entry.subject in latest() and _is_schema_of(entry)
        with self._lock:
            if is_ours and entry.id not in self._told and len(self._told) < MAX_KNOWN:
                self._told[entry.id] = entry
                self._wanted.pop(entry.id, None)
                self._denied.pop(entry.id, None)
                self.count += 1
                return True
        return False

    def find(self, schema_id: int) -> Registered | None:
        """The version with this id; an id that nobody has told is wanted from now on."""
        found = self._told.get(schema_id)
        if found is None:
            with self._lock:
                if schema_id not in self._wanted:
                    self.more_wanted.set()
                _add(self._wanted, schema_id)
        return found

    def deny(self, schema_id: int) -> None:
        """A registry was asked for this id and has no such schema; it may later."""
        with self._lock:
            _add(self._denied, schema_id)

    def is_denied(self, schema_id: int) -> bool:
        """Whether a registry was asked for this id and had no such schema so far."""
        with self._lock:
            return schema_id in self._denied

    def wanted(self) -> list[int]:
        """The ids that were asked for and that nobody has told, the oldest first."""
        with self._lock:
            return list(self._wanted)

    def forget(self) -> None:
        """Know nothing again, as a process that has just begun."""
        with self._lock:
            self._told.clear()
            self._wanted.clear()
            self._denied.clear()
            self.more_wanted.clear()


def _add(ids: OrderedDict[int, None], schema_id: int) -> None:
    ids[schema_id] = None
    if len(ids) > MAX_WANTED:
        ids.popitem(last=False)


def _is_schema_of(entry: Registered) -> bool:
    schema: object = entry.schema  # whatever somebody wrote there
    if not isinstance(schema, dict) or f"{schema.get('namespace')}.{schema.get('name')}" != entry.subject:
        return False
    try:
        fastavro.parse_schema(schema)
    except Exception:  # fastavro raises what its lookups raise, too
        return False
    return schema.get("type") == "record"


LATER = Later()  # of this process: every role in it reads by the same


def may_come(schema_id: int) -> bool:
    """Whether a newer release may have written this id: one a little above those that we know."""
    return len(by_id()) < schema_id <= len(by_id()) + MAX_AHEAD
