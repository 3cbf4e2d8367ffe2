"""What a gateway remembers of requests, in whatever order the topics tell it, and who is told of results."""

import asyncio
import threading

from agents.gateway.jobs import JobView
from schemas.messages import Event, Status
from schemas.record import Incoming
from schemas.topics import PROMPTS
from tests.agents.gateway.deployment import ended, tell
from tests.builders import NOW_MS, a_request


def test_a_result_that_is_read_before_its_prompt_is_joined_with_it() -> None:
    jobs = JobView("default", 10)
    tell(jobs, ended("r-1", status=Status.CANCELLED, tenant="", prompt=""))
    assert jobs.get("r-1") is None  # whose it is is not known yet
    assert jobs.page(10) == []
    tell(jobs, a_request(request_id="r-1"))
    job = jobs.get("r-1")
    assert job is not None
    assert job.result is not None
    assert (job.result.status, job.created_ms) == (Status.CANCELLED, NOW_MS)


def test_requests_of_other_tenants_and_what_is_no_request_are_not_remembered() -> None:
    jobs = JobView("default", 10)
    tell(jobs, a_request(request_id="r-1", tenant="others"))
    tell(jobs, ended("r-2", tenant="others"))
    for value in (b"{", b'{"prompt": 7}', None):
        jobs.on_record(Incoming(topic=PROMPTS, partition=0, offset=0, timestamp_ms=1, key=b"r-3", value=value))
    assert [jobs.get(name) for name in ("r-1", "r-2", "r-3")] == [None] * 3


def test_the_first_result_and_the_first_start_count() -> None:
    jobs = JobView("default", 10)
    tell(jobs, a_request())
    for at_ms in (5, 9):
        tell(jobs, Event(request_id="r-1", kind="started", at_ms=at_ms, by="worker"))
    for reason in ("first", "second"):
        tell(jobs, ended("r-1", reason=reason))
    job = jobs.get("r-1")
    assert job is not None
    assert job.result is not None
    assert (job.started_ms, job.result.reason) == (5, "first")


def test_the_oldest_requests_leave_and_who_waits_for_them_is_told_all_the_same() -> None:
    jobs = JobView("default", 2)
    tell(jobs, a_request(request_id="old"))

    async def wait() -> object:
        waiting = asyncio.create_task(jobs.wait("old", 60))
        await asyncio.sleep(0)
        for n in range(3):
            tell(jobs, a_request(request_id=f"r-{n}"))
        assert jobs.get("old") is None
        threading.Thread(target=tell, args=(jobs, ended("old", reason="it ended"))).start()
        result = await waiting
        return result.reason if result else None

    assert asyncio.run(wait()) == "it ended"


def test_who_waits_too_long_or_until_the_gateway_stops_is_told_so_and_forgotten() -> None:
    jobs = JobView("default", 10)

    async def wait() -> None:
        assert await jobs.wait("r-1", 0.001) is None
        waiting = asyncio.create_task(jobs.wait("r-1", 60))
        await asyncio.sleep(0)
        jobs.stop()
        assert await waiting is None
        assert await jobs.wait("r-2", 60) is None

    asyncio.run(wait())
    assert jobs._waiters == {}
