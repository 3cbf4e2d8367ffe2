"""A gateway's view of its tenants' requests, read from the topics: also those of other gateways and the command line.

The view is bounded: the oldest requests leave it. A feed of a request gets its news whether or not it is in view.
"""

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agents.gateway.streaming.notes import Note, note_in, noted
from agents.gateway.waiting.expected import ExpectedTimes
from planner.serving.admission.admission import Limits, check
from schemas.errors import InvalidRecord, InvalidRequest, UnknownSchema
from schemas.messages import EventKind, GenerateRequest, Result, Status
from schemas.record import Incoming
from schemas.topics import EVENTS, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.codec.avro import decode_result
from streams.codec.requests import decode_request

TOPICS: Final = (PROMPTS, PROMPTS_BATCH, EVENTS, RESULTS)
NEVER_MS: Final = 2**62
UNSTATED: Final = ""  # tenant of results without their request, such as cancelled ones: the id decides


@dataclass(frozen=True, slots=True)
class Job:
    """A request with its events and its result as far as the topics have been read."""

    request_id: str
    created_ms: int
    request: GenerateRequest | None = None  # None if only its result was read
    notes: tuple[Note, ...] = ()  # its events in the order of their log; best effort
    result: Result | None = None  # None: it has not ended

    @property
    def started_ms(self) -> int | None:
        """When a worker first began it (epoch ms); None if no event says so."""
        return next((note.at_ms for note in self.notes if note.kind == EventKind.STARTED), None)

    def noted(self, note: Note) -> "Job":
        """Return the job with one more note."""
        return replace(self, notes=noted(self.notes, note))


class Feed:
    """A request's job, and a wait for its next change. Read on the event loop that opened it."""

    def __init__(self, job: Job, *, is_of_any_tenant: bool = False) -> None:
        self.job, self.is_of_any_tenant = job, is_of_any_tenant
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()

    async def changed(self) -> None:
        """Return once `job` has changed since the last call."""
        await self._bell.wait()
        self._bell.clear()

    def take(self, job: Job) -> None:
        """Replace `job`, from any thread; does nothing if the loop has closed."""
        self.job = job
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._bell.set)


NO_JOBS: Final[Mapping[str, Job]] = {}


class JobView:
    """The newest requests of the tenants that a gateway serves. One thread hands over records; any event loop waits."""

    def __init__(
        self, is_served: Callable[[str], bool], max_jobs: int, expected: ExpectedTimes | None = None,
        limits: Limits | None = None,
    ) -> None:  # fmt: skip
        """`is_served`: whether a tenant is remembered. `max_jobs`: beyond it the largest tenant loses its oldest.

        `expected`: gets the requests of all tenants; None if no expected times are wanted. `limits`: of requests; who
        writes to Kafka is bound by none, and what is rejected for its size or its times is not kept.
        """
        self._expected = expected
        self._is_served = is_served
        self._max_jobs = max_jobs
        self._limits = limits
        self._lock = threading.Lock()
        self._tenants: dict[str, str] = {}  # request -> whose it is
        self._jobs: dict[str, OrderedDict[str, Job]] = {}  # tenant -> request -> what is known of it
        self._early: OrderedDict[str, Job] = OrderedDict()  # request -> its notes, as they were read before it
        self._feeds: dict[str, list[Feed]] = {}
        self._is_stopped = False

    def is_served(self, tenant: str) -> bool:
        """Whether a tenant's requests are remembered."""
        return self._is_served(tenant)

    def on_record(self, record: Incoming) -> None:
        """Take in a record of TOPICS. An invalid prompt is skipped: its result says why."""
        if record.topic == RESULTS:
            self._on_result(decode_result(record.value))
        elif record.topic == EVENTS:
            self._on_note(*note_in(record))
        else:
            try:
                request = decode_request(record)
                if self._limits is not None:
                    check(request, self._limits, record.timestamp_ms)
            except UnknownSchema:
                raise
            except (InvalidRecord, InvalidRequest):
                return
            self.on_request(request)

    def on_request(self, request: GenerateRequest) -> None:
        """Take in a request, as sent or read. One whose id belongs to another tenant is skipped."""
        request_id, tenant = request.request_id, request.tenant
        if self._expected is not None:
            self._expected.on_request(request)
        is_served = self._is_served(tenant)
        with self._lock:
            early = self._early.pop(request_id, Job(request_id, 0))
            known = self._known(request_id) or early
            is_theirs = self._tenants.get(request_id, UNSTATED) in (tenant, UNSTATED)
            if is_served and is_theirs and known.request is None:
                self._put(tenant, replace(known, request=request, created_ms=request.created_ms))

    def _on_note(self, request_id: str, note: Note) -> None:
        if self._expected is not None:
            self._expected.on_note(request_id, note)
        with self._lock:
            known = self._known(request_id)
            if known is not None:
                self._put(self._tenants[request_id], known.noted(note))
            else:
                self._early[request_id] = self._early.get(request_id, Job(request_id, note.at_ms)).noted(note)
                if len(self._early) > self._max_jobs:
                    self._early.popitem(last=False)
            for feed in self._feeds.get(request_id, ()):
                feed.take(feed.job.noted(note))

    def _on_result(self, result: Result) -> None:
        request_id = result.request_id
        if self._expected is not None:
            self._expected.on_ended(request_id, is_served=result.status is Status.COMPLETED)
        is_served = result.tenant == UNSTATED or self._is_served(result.tenant)
        with self._lock:
            known = self._known(request_id)
            tenant = self._tenants.get(request_id, result.tenant)
            early = self._early.pop(request_id, Job(request_id, 0))
            if result.tenant not in (tenant, UNSTATED):
                return
            if known is None and is_served:
                created_ms = result.created_ms or result.ended_ms
                self._put(tenant, replace(early, created_ms=created_ms, result=result))
            elif known is not None and known.result is None:
                self._put(tenant, replace(known, result=result))
            for feed in self._feeds.get(request_id, ()):
                if is_served or feed.is_of_any_tenant:
                    feed.take(replace(feed.job, result=feed.job.result or result))

    def _known(self, request_id: str) -> Job | None:
        tenant = self._tenants.get(request_id)
        return None if tenant is None else self._jobs[tenant][request_id]

    def _put(self, tenant: str, job: Job) -> None:
        former = self._tenants.get(job.request_id, tenant)
        if former != tenant:
            del self._jobs[former][job.request_id]
        self._tenants[job.request_id] = tenant
        self._jobs.setdefault(tenant, OrderedDict())[job.request_id] = job
        if len(self._tenants) > self._max_jobs:
            request_id, _ = max(self._jobs.values(), key=len).popitem(last=False)
            del self._tenants[request_id]

    def get(self, request_id: str, tenant: str) -> Job | None:
        """Return a tenant's job; None if it is another tenant's, too old, or unknown."""
        with self._lock:
            return self._jobs.get(tenant, NO_JOBS).get(request_id)

    def lacking(self, request: GenerateRequest) -> str:
        """Say what a request needs that no worker serves; "" if a worker serves it, or this is not known."""
        return self._expected.lacking(request) if self._expected is not None else ""

    def result_of(self, request_id: str) -> Result | None:
        """Return a request's result, of any tenant; None if it has none, or is not remembered."""
        with self._lock:
            job = self._known(request_id)
        return None if job is None else job.result

    def page(self, tenant: str, size: int, before: tuple[int, str] = (NEVER_MS, "")) -> list[Job]:
        """Return up to `size` of a tenant's requests created before a (created_ms, id), the newest first."""
        with self._lock:
            jobs = list(self._jobs.get(tenant, NO_JOBS).values())
        older = (job for job in jobs if (job.created_ms, job.request_id) < before)
        return sorted(older, key=lambda job: (job.created_ms, job.request_id), reverse=True)[:size]

    async def wait(self, request_id: str, timeout_s: float) -> Result | None:
        """Return a request's result; None if it has none within `timeout_s`, or the gateway stops."""
        with self.follow(request_id) as feed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    while feed.job.result is None and not self._is_stopped:
                        await feed.changed()
            return feed.job.result

    @contextlib.contextmanager
    def follow(self, request_id: str, *, is_of_any_tenant: bool = False) -> Iterator[Feed]:
        """Open a feed of a request; it also wakes its reader when the gateway stops.

        `is_of_any_tenant`: also for a request that is not remembered here, such as another gateway's.
        """
        with self._lock:
            known = self._known(request_id) or self._early.get(request_id) or Job(request_id, 0)
            feed = Feed(known, is_of_any_tenant=is_of_any_tenant)
            self._feeds.setdefault(request_id, []).append(feed)
        try:
            yield feed
        finally:
            with self._lock:
                self._feeds[request_id].remove(feed)
                if not self._feeds[request_id]:
                    del self._feeds[request_id]

    def is_awaited(self, request_id: str) -> bool:
        """Whether a client of this gateway waits for a request."""
        with self._lock:
            return request_id in self._feeds

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    def stop(self) -> None:
        """End all waiting, now and from now on: the requests stay in the pipeline."""
        with self._lock:
            self._is_stopped = True
            for feed in (feed for feeds in self._feeds.values() for feed in feeds):
                feed.take(feed.job)
