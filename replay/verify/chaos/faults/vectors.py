"""Faults of the vector store: killed, stopped for a while, its collection dropped, and rows that lie."""

import contextlib
import math
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import POLL_S, NotThere, Steps, World
from streams.broker.process import Process
from streams.settings import Settings
from streams.vectors import lite, lite_server
from streams.vectors.open import open_milvus
from streams.vectors.port import UnusableRow, VectorRow
from streams.vectors.row_text import as_row, as_text

Left = Callable[[], float]  # seconds that a question still has

CALL_S: Final = 10.0  # for one question
MAX_ROWS: Final = 1000  # of which some are changed
LIES: Final = 0.5  # share of the rows that lie from then on
PREFIX: Final = "reuse_"  # of the names of collections


def kill(world: World, fault: Fault) -> Steps:
    """kill -9 of the server; started again on its rows after a while."""
    process = _running(world.settings)
    os.kill(process.pid, signal.SIGKILL)
    while process.is_alive():
        yield POLL_S
    yield fault.lasts_ms / 1000
    yield from world.beside(lambda: lite_server.ensure(world.settings))
    return f"SIGKILL of the vector store, started after {fault.lasts_ms / 1000:.1f} s"


def freeze(world: World, fault: Fault) -> Steps:
    """SIGSTOP, then SIGCONT: connections stay, and no call is answered."""
    process = _running(world.settings)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield fault.lasts_ms / 1000
    finally:
        with contextlib.suppress(ProcessLookupError):  # another fault killed it meanwhile
            os.kill(process.pid, signal.SIGCONT)
    return f"SIGSTOP of the vector store, SIGCONT after {fault.lasts_ms / 1000:.1f} s"


def empty(world: World, _fault: Fault) -> Steps:
    """Drop every collection: the index writer makes it again with its next row."""
    _running(world.settings)
    dropped = yield from world.beside(lambda: _ask(world.settings, _drop_all))
    if not dropped:
        raise NotThere("the vector store had no collection")
    return f"{len(dropped)} collections dropped, of {sum(dropped.values())} rows"


def lie(world: World, fault: Fault) -> Steps:
    """Change half of the rows: other tenants' or missing objects, wrong hashes, sizes, times, tenants, and no JSON."""
    _running(world.settings)
    lies = yield from world.beside(lambda: _ask(world.settings, lambda client, left: _lie(client, left, fault.draw())))
    if not lies:
        raise NotThere("the vector store had no rows")
    return "rows that lie: " + ", ".join(f"{count} {what}" for what, count in sorted(lies.items()))


def _running(settings: Settings) -> Process:
    known = lite.running(settings)
    if known is None or known.process is None:
        raise NotThere("the vector store was not running as a process of ours")
    return known.process


def _ask(settings: Settings, question: Callable[[Any, Left], Mapping[str, int]]) -> Mapping[str, int]:
    """Ask Milvus itself what no port offers. Raises VectorsUnavailable, WrongCollection."""
    store = open_milvus(settings, "")
    try:
        return store.ask(CALL_S, question)
    finally:
        store.close()


def _collections(client: Any, left: Left) -> Iterator[tuple[str, int]]:
    """The name of each collection of ours, and its number of rows."""
    for name in client.list_collections(timeout=left()):
        if name.startswith(PREFIX):
            (counted,) = client.query(name, output_fields=["count(*)"], timeout=left())
            yield name, int(counted["count(*)"])


def _drop_all(client: Any, left: Left) -> Mapping[str, int]:
    there = dict(_collections(client, left))
    for name in there:
        client.drop_collection(name, timeout=left())
    return there


def _lie(client: Any, left: Left, dice: random.Random) -> Mapping[str, int]:
    counts = Counter[str]()
    for name, count in _collections(client, left):
        if not count:
            continue
        entities = _entities(client, name, left)
        rows = {each["id"]: row for each in entities if (row := _row(each)) is not None}
        chosen = dice.sample(sorted(rows), k=math.ceil(LIES * len(rows)))
        stored = {each["id"]: each for each in entities}
        lies = [lied(stored[each], rows[each], list(rows.values()), dice) for each in chosen]
        if lies:
            client.upsert(name, [entity for _, entity in lies], timeout=left())
        counts.update(what for what, _ in lies)
    return counts


def _entities(client: Any, name: str, left: Left) -> list[dict[str, Any]]:
    """Return rows by a search: in answers to queries, Lite sometimes lacks the vectors of rows written recently."""
    fields = {each["name"]: each for each in client.describe_collection(name, timeout=left())["fields"]}
    anywhere = [1.0] + [0.0] * (int(fields["vector"]["params"]["dim"]) - 1)
    (hits,) = client.search(
        name, data=[anywhere], anns_field="vector", limit=MAX_ROWS, output_fields=[*fields], timeout=left()
    )
    return [dict(hit["entity"]) for hit in hits]


def _row(entity: Mapping[str, Any]) -> VectorRow | None:
    with contextlib.suppress(UnusableRow):
        return as_row(entity["row"], entity["vector"])
    return None  # a lie of before


def lied(
    entity: Mapping[str, Any], row: VectorRow, others: Sequence[VectorRow], dice: random.Random
) -> tuple[str, dict[str, Any]]:
    """Return a description of a wrong value, and the entity that has it, which is found where the row is found.

    `others`: all rows, those of other tenants among them.
    """
    foreign = [other for other in others if other.tenant != row.tenant]
    what = dice.choice([each for each in LIES_ABOUT if foreign or each not in OF_OTHERS])
    text = LIES_ABOUT[what](row, dice.choice(foreign) if foreign else row)
    return what, {**entity, "vector": list(row.vector), "row": text}


def _foreign_object(row: VectorRow, other: VectorRow) -> str:
    return as_text(replace(row, latent=other.latent))


def _foreign_row(row: VectorRow, other: VectorRow) -> str:
    """Return a row that one tenant's filter finds, but that is another's."""
    return as_text(replace(other, id=row.id))


def _foreign_disguised(row: VectorRow, other: VectorRow) -> str:
    """Return another tenant's row that names the finding tenant as its own."""
    return as_text(replace(other, id=row.id, tenant=row.tenant))


def _missing_object(row: VectorRow, _other: VectorRow) -> str:
    before, _, name = row.latent.uri.rpartition("-")
    digest, _, extension = name.partition(".")
    return as_text(replace(row, latent=replace(row.latent, uri=f"{before}-{digest[::-1]}.{extension}")))


def _wrong_hash(row: VectorRow, _other: VectorRow) -> str:
    return as_text(replace(row, latent=replace(row.latent, sha256=row.latent.sha256[::-1])))


def _wrong_size(row: VectorRow, _other: VectorRow) -> str:
    return as_text(replace(row, width=2 * row.width))


def _wrong_model(row: VectorRow, _other: VectorRow) -> str:
    return as_text(replace(row, model=f"not-{row.model}"))


def _expired(row: VectorRow, _other: VectorRow) -> str:
    return as_text(replace(row, created_ms=1, expires_ms=2))


def _no_text(row: VectorRow, _other: VectorRow) -> str:
    return as_text(row)[:-7]


LIES_ABOUT: Final[Mapping[str, Callable[[VectorRow, VectorRow], str]]] = {
    "name another tenant's object": _foreign_object,
    "are another tenant's": _foreign_row,
    "are another tenant's in disguise": _foreign_disguised,
    "name a missing object": _missing_object,
    "have a wrong hash": _wrong_hash,
    "have a wrong size": _wrong_size,
    "have another model": _wrong_model,
    "have expired": _expired,
    "are cut off": _no_text,
}
OF_OTHERS: Final = frozenset(list(LIES_ABOUT)[:3])
