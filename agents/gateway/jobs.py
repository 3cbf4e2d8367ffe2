"""What a gateway knows of its tenant's requests, from the topics alone: those of every gateway and of the command line.

The view is bounded: the oldest requests leave it. Whoever waits for a result is told it whether or not it is in view.
"""

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from schemas.errors import InvalidRecord, InvalidRequest, UnknownSchema
from schemas.messages import Event, GenerateRequest, Result
from schemas.record import Incoming
from schemas.topics import EVENTS, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.codec.avro import decode, decode_result
from streams.codec.requests import decode_request

TOPICS: Final = (PROMPTS, PROMPTS_BATCH, EVENTS, RESULTS)
STARTED: Final = "started"  # kind of the event that a worker writes
NEVER_MS: Final = 2**62
UNTOLD: Final = ""  # tenant of results that do not carry their request, as of those that were cancelled: the id decides

Waiter = asyncio.Future[Result | None]


@dataclass(frozen=True, slots=True)
class Job:
    """A request as the topics tell it so far."""

    request_id: str
    created_ms: int
    request: GenerateRequest | None = None  # None: its prompt was not read, as where its result alone was
    started_ms: int | None = None  # when a worker began with it, if that was told
    result: Result | None = None  # None: it has not ended; without its path


class JobView:
    """The newest requests of a tenant. One thread hands over records; any event loop waits."""

    def __init__(self, tenant: str, max_jobs: int) -> None:
        self._tenant = tenant
        self._max_jobs = max_jobs
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._waiters: dict[str, list[Waiter]] = {}
        self._is_stopped = False

    def on_record(self, record: Incoming) -> None:
        """Take in a record of TOPICS. A prompt that is no request is passed over: its result says so."""
        if record.topic == RESULTS:
            self._on_result(decode_result(record.value))
        elif record.topic == EVENTS:
            event = decode(record.value, Event)
            if event.kind == STARTED:
                self._on_started(event)
        else:
            try:
                request = decode_request(record)
            except UnknownSchema:
                raise
            except (InvalidRecord, InvalidRequest):
                return
            self.on_request(request)

    def on_request(self, request: GenerateRequest) -> None:
        """Take in a request, as it was sent or read."""
        if request.tenant != self._tenant:
            return
        with self._lock:
            known = self._jobs.get(request.request_id)
            if known is None:
                self._add(Job(request.request_id, request.created_ms, request))
            elif known.request is None:
                self._jobs[request.request_id] = replace(known, request=request, created_ms=request.created_ms)

    def _on_started(self, event: Event) -> None:
        with self._lock:
            known = self._jobs.get(event.request_id)
            if known is not None and known.started_ms is None:
                self._jobs[event.request_id] = replace(known, started_ms=event.at_ms)

    def _on_result(self, result: Result) -> None:
        if result.tenant not in (self._tenant, UNTOLD):
            return
        slim = replace(result, path="[]")
        with self._lock:
            known = self._jobs.get(result.request_id)
            if known is None:
                self._add(Job(result.request_id, result.created_ms or result.ended_ms, result=slim))
            elif known.result is None:
                self._jobs[result.request_id] = replace(known, result=slim)
            waiters = self._waiters.pop(result.request_id, [])
        for waiter in waiters:
            _tell(waiter, slim)

    def _add(self, job: Job) -> None:
        self._jobs[job.request_id] = job
        if len(self._jobs) > self._max_jobs:
            self._jobs.popitem(last=False)

    def _is_shown(self, job: Job) -> bool:
        return job.request is not None or (job.result is not None and job.result.tenant == self._tenant)

    def get(self, request_id: str) -> Job | None:
        """Return what is known of a request; None: it is of another tenant, too old, or none at all."""
        with self._lock:
            job = self._jobs.get(request_id)
        return job if job is not None and self._is_shown(job) else None

    def page(self, size: int, before: tuple[int, str] = (NEVER_MS, "")) -> list[Job]:
        """Return up to `size` requests created before a (created_ms, id), the newest first."""
        with self._lock:
            jobs = list(self._jobs.values())
        older = (job for job in jobs if (job.created_ms, job.request_id) < before and self._is_shown(job))
        return sorted(older, key=lambda job: (job.created_ms, job.request_id), reverse=True)[:size]

    async def wait(self, request_id: str, timeout_s: float) -> Result | None:
        """Wait for the result of a request; None: it has none within this time, or the gateway stops."""
        with self._waiting(request_id) as waiter:
            done, _ = await asyncio.wait([waiter], timeout=timeout_s)
            return waiter.result() if done else None

    @contextlib.contextmanager
    def _waiting(self, request_id: str) -> Iterator[Waiter]:
        waiter: Waiter = asyncio.get_running_loop().create_future()
        with self._lock:
            job = self._jobs.get(request_id)
            if self._is_stopped or (job is not None and job.result is not None):
                waiter.set_result(job.result if job else None)
            else:
                self._waiters.setdefault(request_id, []).append(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                others = [each for each in self._waiters.pop(request_id, []) if each is not waiter]
                if others:
                    self._waiters[request_id] = others

    @property
    def is_stopped(self) -> bool:
        """Whether nobody waits any more, as the gateway stops."""
        return self._is_stopped

    def stop(self) -> None:
        """End all waiting, now and from now on: the requests stay in the pipeline."""
        with self._lock:
            self._is_stopped = True
            waiters = [waiter for each in self._waiters.values() for waiter in each]
            self._waiters.clear()
        for waiter in waiters:
            _tell(waiter, None)


def _tell(waiter: Waiter, result: Result | None) -> None:
    """Resolve a waiter from another thread; one whose loop has closed needs no answer."""
    with contextlib.suppress(RuntimeError):
        waiter.get_loop().call_soon_threadsafe(_resolve, waiter, result)


def _resolve(waiter: Waiter, result: Result | None) -> None:
    if not waiter.done():
        waiter.set_result(result)
