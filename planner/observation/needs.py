"""Requests that only some variants serve: what names a level, or states what only a few honour.

A plan that gives none of these variants a worker leaves them waiting, whatever else it serves. The live planner and the
simulator feed the same class.
"""

from typing import Final, NamedTuple

from planner.catalog.model import Catalog
from planner.catalog.options import job_ms
from planner.serving.requests import RequestValues

WINDOW_MS: Final = 30_000  # over which arrivals count as the demand of now, as all arrivals do
MAX_KNOWN: Final = 200_000  # requests remembered

Variants = tuple[str, ...]
"""Variants of which any one serves a request, in order of preference."""


class Need(NamedTuple):
    """The recent requests that need one of the same variants."""

    variants: Variants
    rps: float  # arrivals a second
    work: dict[str, float]  # tenant -> seconds of run time that arrive a second: the workers that it keeps busy
    waiting: int  # without a result now
    oldest_ms: int  # arrival of the oldest waiting one (epoch ms); 0 if none waits
    last_ms: int  # when the last one came (epoch ms)


class _Request(NamedTuple):
    variants: Variants
    tenant: str
    at_ms: float
    work_ms: float


class Needs:
    """Remembers such requests until their results, and for a window. One owner, no thread."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.clear()

    def clear(self) -> None:
        """Forget all: a reader begins again with recent requests."""
        self._open: dict[str | int, _Request] = {}
        self._came: dict[str | int, _Request] = {}  # within the window, the oldest first

    def begin(self, id_: str | int, request: RequestValues, variants: Variants, at_ms: float) -> None:
        """A request was classified that needs one of these variants. No-op if any level serves it, or it is known."""
        if not variants or id_ in self._open:
            return
        work_ms = job_ms(self._catalog.level(variants[0]), request.options)
        self._open[id_] = self._came[id_] = _Request(variants, request.tenant, at_ms, work_ms)
        for known in (self._open, self._came):
            if len(known) > MAX_KNOWN:
                del known[next(iter(known))]

    def end(self, id_: str | int, *, is_demand: bool = True) -> None:
        """A request has its result; `is_demand`: False if its tenant's quota refused it."""
        self._open.pop(id_, None)
        if not is_demand:
            self._came.pop(id_, None)

    def asked(self) -> frozenset[Variants]:
        """Return what requests without a result need."""
        return frozenset(request.variants for request in self._open.values())

    def observed(self, now_ms: int) -> tuple[Need, ...]:
        """Return the needs of the window before now, and of all that waits, by their variants."""
        for id_ in [id_ for id_, request in self._came.items() if request.at_ms <= now_ms - WINDOW_MS]:
            del self._came[id_]
        found: dict[Variants, Need] = {}
        for request in self._came.values():
            need = found.get(request.variants) or Need(request.variants, 0.0, {}, 0, 0, 0)
            busy = need.work.get(request.tenant, 0.0) + request.work_ms / WINDOW_MS
            found[request.variants] = need._replace(
                rps=need.rps + 1000 / WINDOW_MS,
                work=need.work | {request.tenant: busy},
                last_ms=max(need.last_ms, int(request.at_ms)),
            )
        for request in self._open.values():
            need = found.get(request.variants) or Need(request.variants, 0.0, {request.tenant: 0.0}, 0, 0, 0)
            since_ms = int(request.at_ms)
            found[request.variants] = need._replace(
                waiting=need.waiting + 1,
                oldest_ms=min(need.oldest_ms or since_ms, since_ms),
                last_ms=max(need.last_ms, since_ms),
            )
        return tuple(found[variants] for variants in sorted(found))
