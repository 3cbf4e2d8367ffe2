"""The components of one worker in its tiers; `planner.components.tiers` decides, this module moves and counts.

    remote  ->  volume  ->  host memory  ->  device
       source.fetch   source.read       device.put

`bring` moves a call's components, `prefetch` a plan's. Decisions are taken under a lock; bytes move outside it, one
mover a component: a second user waits for the move. After a failed move the tiers are compared with what is there.
"""

import contextlib
import dataclasses
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from agents.components.host import HostWeights
from agents.components.sources import Source
from agents.components.weight_files import ComponentFailed
from planner.components.component import Component, InvalidComponent, Kind, Tier, base_of, kind_of
from planner.components.eviction import ReuseEstimate, Score, eviction_under
from planner.components.tiers import LOCAL, Budgets, Use, WorkerTiers
from schemas.messages import WorkerComponents
from streams import metrics
from streams.clock import now_ms
from streams.weights.errors import VolumeFull

log = logging.getLogger(__name__)

SPANS: Final = 64  # newest loads whose times are remembered
READERS: Final = 2  # components that are read beside a base


class Device(Protocol):
    """The resident parts of pipelines."""

    def resident_ids(self) -> frozenset[str]:
        """Return the ids of what is resident; any thread may ask."""

    def put(self, id_: str, host: HostWeights | None) -> None:
        """Make a component resident, from host memory, or by a library where that is None. Nothing points into `host`
        after. Raises ComponentFailed.
        """

    def drop(self, id_: str) -> None:
        """Let go of a component; no call uses it."""


class Span(NamedTuple):
    """When a component was brought to the device: seconds of the monotonic clock."""

    id: str
    began_s: float
    ended_s: float


class Prefetched(StrEnum):
    """The outcome of a prefetch."""

    LOADED = "loaded"
    BUSY = "busy"  # a call is in progress; nothing was moved
    NO_ROOM = "no-room"  # the components there are worth more
    FAILED = "failed"


class ComponentStore:
    """The components of one worker. One thread makes calls, another may prefetch, any may ask for a report."""

    def __init__(
        self,
        known: dict[str, Component],
        budgets: Budgets,
        source: Source,
        device: Device,
        *,
        before: WorkerComponents | None = None,
        clock_ms: Callable[[], float] = now_ms,
    ) -> None:
        """`known`: all components that may be brought; fused ones are added. `before`: counters of an earlier store."""
        self.spans: deque[Span] = deque(maxlen=SPANS)  # the newest last
        self._known, self._budgets, self._source, self._device = known, budgets, source, device
        self._before, self._now_ms = before or WorkerComponents(), clock_ms
        self._tiers = WorkerTiers(known, budgets, ReuseEstimate(), eviction_under(None))
        self._hosts: dict[str, HostWeights] = {}
        self._digests = {id_: each.digest for id_, each in known.items()}  # sha-256; of others once they are read
        self._lock = threading.RLock()  # of all above; held for no longer than deciding takes
        self._moving: dict[str, threading.Lock] = {}
        self._on_their_way: set[str] = set()
        self._fetched: set[str] = set()  # here, to the volume
        self._calls = 0
        self._readers = ThreadPoolExecutor(READERS, "components-read")
        with self._lock:
            self._adopt()

    @property
    def known(self) -> frozenset[str]:
        """Ids of all components that may be brought."""
        with self._lock:
            return frozenset(self._known)

    def digest_of(self, id_: str) -> str:
        """Return the sha-256 of a component's weight files; "": only a library has read them, or nothing has."""
        return self._digests.get(id_, "")

    def now_ms(self) -> float:
        """Return the time by which uses are counted, in epoch ms."""
        return self._now_ms()

    def tier_of(self, id_: str) -> Tier:
        """Return the nearest tier that holds a component; remote if none does."""
        with self._lock:
            return self._tiers.tier_of(id_)

    def admits(self, id_: str, tier: Tier, now_ms: float) -> bool:
        """Return whether a component that is loaded ahead would be let into a tier. Raises KeyError."""
        with self._lock:
            return self._tiers.admits(id_, tier, now_ms)

    def lacking_ms(self, ids: Iterable[str], fused: str = "") -> float:
        """Return the time in ms to load what the device lacks of a call's components; `fused` as in the tiers."""
        with self._lock:
            return self._tiers.lacking_ms([each for each in ids if each in self._known], fused)

    def resident_ids(self, tier: Tier) -> frozenset[str]:
        """Return the ids of the components in a tier."""
        with self._lock:
            return self._tiers.resident(tier)

    def resident_bytes(self, tier: Tier) -> int:
        """Return the bytes that components fill in a tier: at most its budget."""
        with self._lock:
            return self._tiers.resident_bytes(tier)

    def evict(self, id_: str, tier: Tier) -> None:
        """Let go of a component in a tier, and of what was fused from it there; no call uses it."""
        with self._lock:
            self._drop([(each, tier) for each in self._tiers.evict(id_, tier)])

    def resize_device(self, size: int) -> None:
        """Give the device another budget, in bytes of weight files. Raises ComponentFailed where it holds more."""
        with self._lock:
            budgets = dataclasses.replace(self._budgets, device=size)
            try:
                self._tiers.resize(budgets)
            except InvalidComponent as error:
                raise ComponentFailed(f"{error} (worker.components.device_bytes)") from error
            self._budgets = budgets

    def pin(self, pinned: frozenset[tuple[str, Tier]]) -> None:
        """Set the components that leave their tier only if no other can."""
        with self._lock:
            self._tiers.pinned = pinned

    def evict_by(self, score: Score) -> None:
        """Set the score by which a component leaves a full tier."""
        with self._lock:
            self._tiers.score = score

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Around a call: no prefetch begins, and nothing leaves the device but for what the call brings."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    def bring(self, ids: Sequence[str]) -> Use:
        """Bring all components of a call to the device: the base first, adapters and controls read meanwhile.

        Raises ComponentFailed: one is missing, damaged, or they do not fit the device together.
        """
        with self._lock:
            try:
                use = self._tiers.use(ids, self._now_ms())
            except (InvalidComponent, KeyError) as error:
                raise ComponentFailed(f"components {', '.join(ids)} cannot be held: {error}") from error
            self._drop(use.evicted)
            self._count(use)
            missing = [each for each in dict.fromkeys(ids) if each not in self._device.resident_ids()]
            self._on_their_way.update(missing)
        for tier in use.found.values():
            metrics.COMPONENT_HITS.labels(tier.label).inc()
        metrics.COMPONENT_LOADS.inc(len(use.load_ms))
        try:
            self._load(missing)
        finally:
            with self._lock:
                self._on_their_way.difference_update(missing)
                self._reconcile()
        return use

    def add_fused(self, fused: Component, keep: Sequence[str], prefer: Sequence[str] = ()) -> None:
        """Make room on the device for a combination that is about to be fused; `keep` may not leave for it, `prefer`
        only where nothing else makes room.

        Raises ComponentFailed: there is none.
        """
        with self._lock:
            self._known[fused.id] = fused
            self._on_their_way.add(fused.id)
            for kept in ([*keep, *prefer], keep):
                use = self._tiers.add_fused(fused.id, self._now_ms(), kept)
                self._drop(use.evicted)
                if fused.id in self._tiers.resident(Tier.DEVICE):
                    return
            self._on_their_way.discard(fused.id)
            raise ComponentFailed(
                f"{fused.id} has no room on the device: {fused.bytes} bytes beside {', '.join(keep)}, budget "
                f"{self._budgets.device}; raise worker.components.device_bytes"
            )

    def was_fused(self, id_: str, took_ms: float) -> None:
        """Note that a combination is on the device, and the time that fusing took."""
        with self._lock:
            known = self._known[id_]
            self._known[id_] = Component(id=id_, bytes=known.bytes, load_ms={Tier.HOST: took_ms})
            self._on_their_way.discard(id_)
            self._reconcile()
            on_device = self._tiers.resident(Tier.DEVICE)
            for gone in [each for each in self._known if base_of(each) and each not in on_device]:
                del self._known[gone]  # requests choose weights: there is no end of combinations

    def prefetch(self, id_: str, tier: Tier) -> Prefetched:
        """Bring a component to a tier ahead of its use, unless a call is under way.

        A call waits for no prefetch but that of a component which it needs itself.
        """
        try:
            return self.load_ahead(id_, tier)
        except ComponentFailed as error:
            log.warning("no prefetch of %s: %s", id_, error)
            return Prefetched.FAILED

    def load_ahead(self, id_: str, tier: Tier) -> Prefetched:
        """Do what `prefetch` does. Raises ComponentFailed where it fails."""
        with self._lock:
            if self._calls:
                return Prefetched.BUSY
            try:
                use = self._tiers.prefetch(id_, tier, self._now_ms())
            except (InvalidComponent, KeyError) as error:
                raise ComponentFailed(f"component {id_} cannot be held: {error}") from error
            self._on_their_way.add(id_)
            self._drop(use.evicted)
            self._count(use)
        try:
            self._climb(id_, self.tier_of(id_))
        finally:
            with self._lock:
                self._on_their_way.discard(id_)
                self._reconcile()
        return Prefetched.LOADED if self.tier_of(id_) >= tier else Prefetched.NO_ROOM

    def refresh(self) -> None:
        """Compare the tiers with what is there: other processes may share the volume."""
        with self._lock:
            self._reconcile()

    def report(self) -> WorkerComponents:
        """Return the heartbeat's report. Counters continue those of the store before."""
        with self._lock:
            now, before = self._tiers.report(), self._before
            return dataclasses.replace(
                now,
                hits=_added(before.hits, now.hits),
                moved_bytes=_added(before.moved_bytes, now.moved_bytes),
                loads=before.loads + now.loads,
            )

    def close(self) -> None:
        """Free host memory; what lies on the volume stays there."""
        self._readers.shutdown()
        with self._lock:
            for host in self._hosts.values():
                host.release()
            self._hosts.clear()

    def _load(self, missing: Sequence[str]) -> None:
        """Bring components to the device: the base in this thread, the others read beside it. Source: MLoRA 6.3.1."""
        ordered = sorted(missing, key=lambda each: kind_of(each) is not Kind.BASE)  # stable
        if not ordered:
            return
        with contextlib.ExitStack() as releases:
            began_s = time.monotonic()
            beside = {each: self._readers.submit(self._read_beside, each) for each in ordered[1:]}
            for reading in beside.values():
                releases.callback(_release, reading)
            self._to_device(ordered[0])
            self.spans.append(Span(ordered[0], began_s, time.monotonic()))
            for each, reading in beside.items():
                host, began_s = reading.result()
                with self._mover(each):
                    if each not in self._device.resident_ids():
                        self._put(each, host)
                self.spans.append(Span(each, began_s, time.monotonic()))

    def _put(self, id_: str, host: HostWeights | None) -> None:
        try:
            self._device.put(id_, host)
        except BaseException:
            if host is not None:
                host.on_failure()
            raise

    def _read_beside(self, id_: str) -> tuple[HostWeights | None, float]:
        began_s = time.monotonic()
        with self._mover(id_):
            return self._host(id_), began_s

    def _climb(self, id_: str, tier: Tier) -> None:
        """Bring a component to a tier, by way of those below."""
        if tier is Tier.DEVICE:
            self._to_device(id_)
            return
        with self._mover(id_):
            if tier is Tier.HOST:
                host = self._host(id_)
                if host is not None:
                    host.release()
            elif tier is Tier.VOLUME:
                self._to_volume(id_)

    def _to_device(self, id_: str) -> None:
        with self._mover(id_):
            if id_ in self._device.resident_ids():
                return
            host = self._host(id_)
            try:
                self._put(id_, host)
            finally:
                if host is not None:
                    host.release()

    def _host(self, id_: str) -> HostWeights | None:
        """Return a component in host memory, for the caller to release; None if only a library reads it."""
        with self._lock:
            if id_ in self._hosts:
                return self._hosts[id_].hold()
        self._to_volume(id_)
        host = self._source.read(id_)
        with self._lock:
            if host is not None:
                self._digests[id_] = host.digest
            if host is not None and id_ in self._tiers.resident(Tier.HOST):
                self._hosts[id_] = host.hold()
        return host

    def _to_volume(self, id_: str) -> None:
        while id_ not in self._source.on_volume():
            try:
                self._source.fetch(id_)
            except VolumeFull as error:
                self._make_room(id_, error)
                continue
            self._fetched.add(id_)
            return

    def _make_room(self, wanted: str, error: VolumeFull) -> None:
        """Remove the volume's component with the least value, as the disk has less room than the budget."""
        metrics.FALLBACKS.labels("worker", "volume-full").inc()
        with self._lock:
            keep = {wanted, *self._on_their_way}
            victim = self._tiers.next_victim(Tier.VOLUME, self._now_ms(), keep)
            if victim is None:
                raise ComponentFailed(f"{wanted} cannot be fetched: {error}") from error
            self._drop([(each, Tier.VOLUME) for each in self._tiers.evict(victim, Tier.VOLUME)])

    @contextlib.contextmanager
    def _mover(self, id_: str) -> Iterator[None]:
        """Allow one mover of a component at a time."""
        with self._lock:
            lock = self._moving.setdefault(id_, threading.Lock())
        with lock:
            yield

    def _drop(self, evicted: Iterable[tuple[str, Tier]]) -> None:
        """Let go of what the tiers evicted."""
        for id_, tier in evicted:
            if tier is Tier.DEVICE:
                self._device.drop(id_)
            elif tier is Tier.HOST and (host := self._hosts.pop(id_, None)) is not None:
                host.release()
            elif tier is Tier.VOLUME and id_ in self._source.on_volume():
                self._source.drop(id_)
                self._fetched.discard(id_)

    def _adopt(self) -> None:
        """Take note of what lies on the volume."""
        held = self._tiers.resident(Tier.VOLUME)
        for id_ in sorted(self._source.on_volume() - held - self._fetched):
            if id_ in self._known:
                self._tiers.adopt(id_, Tier.VOLUME)

    def _reconcile(self) -> None:
        """Make the tiers agree with what is there, but for what is on its way."""
        for tier, ids in self._there().items():
            for id_ in self._tiers.resident(tier) - ids - self._on_their_way:
                self._drop([(each, tier) for each in self._tiers.evict(id_, tier) if each in ids])
        for tier, ids in self._there().items():
            mine = ids & self._fetched if tier is Tier.VOLUME else ids  # others may have put there what is theirs
            self._drop([(id_, tier) for id_ in mine - self._tiers.resident(tier) - self._on_their_way])
        self._adopt()

    def _there(self) -> dict[Tier, frozenset[str]]:
        """Return the ids of the components that are really in each tier."""
        return {
            Tier.VOLUME: self._source.on_volume(),
            Tier.HOST: frozenset(self._hosts),
            Tier.DEVICE: self._device.resident_ids(),
        }

    def _count(self, use: Use) -> None:
        for tier, size in use.moved_bytes.items():
            metrics.COMPONENT_MOVED_BYTES.labels(tier.label).inc(size)
        for tier in LOCAL:
            metrics.COMPONENT_BYTES.labels(tier.label).set(self._tiers.resident_bytes(tier))


def _added(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    counts = Counter(before)
    counts.update(now)
    return dict(counts)


def _release(reading: "Future[tuple[HostWeights | None, float]]") -> None:
    """Release a component that was read beside a base, once it is read; its failure was raised, or another's."""
    if not reading.cancel() and reading.exception() is None and (host := reading.result()[0]) is not None:
        host.release()
