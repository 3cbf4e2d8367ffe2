"""Schemas of newer releases, which a process learns while it runs, since its own `registry.json` cannot hold them.

Two releases run side by side while a deployment is upgraded. A record of the newer one names a schema id above those
of `registry.json`; its bytes are read by the schema that it was written with, into this release's own message.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection

import fastavro

from schemas.registry import Registered, by_id, latest

MAX_KNOWN = 10_000  # ids kept; a release adds some tens
MAX_WANTED = 100  # ids that were looked up in vain, kept for a reader that can ask a registry
MAX_AHEAD = 1000  # an id further above our own is no release's: such a record is broken and need not wait


class Later:
    """The learnt schemas, and ids that were looked up in vain. Thread-safe.

    An id is held while a record of it holds up its partition, until its schema is learnt or the id is given up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, Registered] = {}
        self._wanted: OrderedDict[int, None] = OrderedDict()
        self._denied: OrderedDict[int, None] = OrderedDict()
        self._held = set[int]()  # both of ids that `may_come`, so at most MAX_AHEAD
        self._given_up = set[int]()
        self.more_wanted = threading.Event()  # set by a new id in vain; cleared by the reader that asks a registry
        self.count = 0  # schemas learnt so far; a reader that waits for one looks again when this has changed

    def learn(self, entry: Registered) -> bool:
        """Add a version, and return whether it was new: known ids never change, and only messages' schemas count."""
        is_ours = entry.id not in by_id() and entry.subject in latest() and _is_schema_of(entry)
        with self._lock:
            if is_ours and entry.id not in self._known and len(self._known) < MAX_KNOWN:
                self._known[entry.id] = entry
                self._wanted.pop(entry.id, None)
                self._denied.pop(entry.id, None)
                self._held.discard(entry.id)
                self._given_up.discard(entry.id)
                self.count += 1
                return True
        return False

    def find(self, schema_id: int) -> Registered | None:
        """Return the version with this id; an unknown id is `wanted` from now on."""
        found = self._known.get(schema_id)
        if found is None:
            with self._lock:
                if schema_id not in self._wanted:
                    self.more_wanted.set()
                _add(self._wanted, schema_id)
        return found

    def deny(self, schema_id: int) -> None:
        """Note that a registry has no schema with this id so far."""
        with self._lock:
            _add(self._denied, schema_id)

    def is_denied(self, schema_id: int) -> bool:
        """Whether a registry was asked for this id and had no such schema so far."""
        with self._lock:
            return schema_id in self._denied

    def hold(self, schema_id: int) -> None:
        """Note that a record waits for this id."""
        with self._lock:
            if schema_id not in self._known and schema_id not in self._given_up and may_come(schema_id):
                self._held.add(schema_id)

    def waiting(self) -> frozenset[int]:
        """Return the ids that records wait for."""
        with self._lock:
            return frozenset(self._held)

    def give_up(self, ids: Collection[int]) -> None:
        """Let no record wait for these ids any more; a schema that comes later is learnt all the same."""
        with self._lock:
            self._held.difference_update(ids)
            self._given_up.update(ids)

    def is_given_up(self, schema_id: int) -> bool:
        """Whether no record waits for this id any more."""
        return schema_id in self._given_up

    def wanted(self) -> list[int]:
        """Return the ids that were looked up in vain, the oldest first."""
        with self._lock:
            return list(self._wanted)

    def forget(self) -> None:
        """Drop all learnt schemas, as in a process that has just started."""
        with self._lock:
            self._known.clear()
            self._wanted.clear()
            self._denied.clear()
            self._held.clear()
            self._given_up.clear()
            self.more_wanted.clear()


def _add(ids: OrderedDict[int, None], schema_id: int) -> None:
    ids[schema_id] = None
    if len(ids) > MAX_WANTED:
        ids.popitem(last=False)


def _is_schema_of(entry: Registered) -> bool:
    schema: object = entry.schema  # unchecked
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
