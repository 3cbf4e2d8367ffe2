"""The index writer's decisions in their order, and its account of what it wrote: what enters the index, what leaves.

examine   COMPLETED, nothing reused on its path, not refused, its latent stored, not expired, good enough
          -> NotWritten | ScoreFirst | Write
admit     within its tenant's cap      -> None | NotWritten
enter     into the account
leaving   what is expired, and what is beyond the byte budget
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from planner.reuse.eviction import Entry, evicted, is_expired, order_named
from planner.reuse.indexing.writing import Ended, NotWritten, ScoreFirst, Unwritten, Write, examine, within_cap
from planner.reuse.terms import Terms
from planner.serving.admission.quotas import Bucket
from schemas.messages import Status

MAX_TENANTS: Final = 10_000  # whose writes are counted; of more, those that wrote longest ago begin anew
SLACK: Final = 0.05  # of the byte budget, made free beyond what must be: each eviction sorts all entries
TIDY_MS: Final = 60_000.0  # between two looks for expired entries


class IndexLogic:
    """Decides for one index writer. Its account is kept by partition of `results`, as others write the other ones'.

    Times are epoch ms. One owner.
    """

    def __init__(self, partitions: int = 1) -> None:
        """`partitions`: of `results`; each has its share of the byte budget."""
        self.divide_among(partitions)
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()  # tenant -> its tokens
        self._entries: dict[int, dict[str, Entry]] = {}  # partition -> key -> entry
        self._bytes: dict[int, int] = {}
        self._tidied_ms: float | None = None

    def divide_among(self, partitions: int) -> None:
        """Divide the byte budget among this number of partitions of `results` from now on."""
        assert partitions >= 1, f"{partitions} partitions have no shares"
        self._partitions = partitions

    def examine(self, ended: Ended, terms: Terms, now_ms: float) -> NotWritten | ScoreFirst | Write:
        """Decide on an image before it is scored here."""
        if ended.status is Status.COMPLETED and not any(ended.reuse_steps):
            if not ended.has_latent:
                return NotWritten(Unwritten.UNSTORED)
            if now_ms - ended.ended_ms >= terms.ttl_ms:
                return NotWritten(Unwritten.STALE)
        return examine(ended, terms.write)

    def admit(self, tenant: str, terms: Terms, now_ms: int) -> NotWritten | None:
        """Count one more write of a tenant; return why it must not happen, None where it may."""
        bucket, refusal = within_cap(self._buckets.pop(tenant, None), terms.write, now_ms)
        self._buckets[tenant] = bucket
        if len(self._buckets) > MAX_TENANTS:
            self._buckets.popitem(last=False)
        return refusal

    def enter(self, partition: int, entry: Entry) -> None:
        """Count a row that was written; one that is there already is replaced."""
        entries = self._entries.setdefault(partition, {})
        before = entries.pop(entry.key, None)
        entries[entry.key] = entry
        self._bytes[partition] = self._bytes.get(partition, 0) + entry.bytes - (before.bytes if before else 0)

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget the account of partitions that another writer has now."""
        for partition in partitions:
            self._entries.pop(partition, None)
            self._bytes.pop(partition, None)

    def leaving(self, terms: Terms, now_ms: float) -> list[tuple[int, Entry]]:
        """Return what must leave the index now, with its partition, and take it out of the account."""
        budget = terms.max_bytes // self._partitions
        is_due = self._tidied_ms is None or not 0.0 <= now_ms - self._tidied_ms < TIDY_MS
        if is_due:
            self._tidied_ms = now_ms
        left = list[tuple[int, Entry]]()
        for partition, entries in self._entries.items():
            is_full = self._bytes[partition] > budget
            has_expired = is_due and any(is_expired(each, now_ms, terms.ttl_ms) for each in entries.values())
            if not is_full and not has_expired:
                continue
            limit = int((1 - SLACK) * budget) if is_full else budget
            out = evicted(entries.values(), now_ms, terms.ttl_ms, limit, order_named(terms.eviction))
            for entry in out:
                del entries[entry.key]
                self._bytes[partition] -= entry.bytes
            left += [(partition, entry) for entry in out]
        return left

    @property
    def bytes(self) -> int:
        """Bytes of the entries in the account."""
        return sum(self._bytes.values())

    @property
    def rows(self) -> int:
        """Number of entries in the account."""
        return sum(map(len, self._entries.values()))
