"""What a gateway remembers of requests, in whatever order the topics tell it, and who is told of results."""

import asyncio
import threading

from agents.gateway.jobs import JobView
from agents.gateway.streaming.notes import MAX_NOTES
from schemas.messages import Event, Status
from schemas.record import Incoming
from schemas.topics import PROMPTS
from streams.settings import load
from tests.agents.gateway.deployment import ended, event, tell
from tests.builders import NOW_MS, a_request


def test_a_result_that_is_read_before_its_prompt_is_joined_with_it() -> None:
    jobs = JobView("default".__eq__, 10)
    tell(jobs, ended("r-1", status=Status.CANCELLED, tenant="", prompt=""))
    assert jobs.get("r-1", "default") is None  # whose it is is not known yet
    assert jobs.page("default", 10) == []
    tell(jobs, a_request(request_id="r-1"))
    job = jobs.get("r-1", "default")
    assert job is not None
    assert job.result is not None
    assert (job.result.status, job.created_ms) == (Status.CANCELLED, NOW_MS)


def test_requests_of_other_tenants_and_what_is_no_request_are_not_remembered() -> None:
    jobs = JobView("default".__eq__, 10)
    tell(jobs, a_request(request_id="r-1", tenant="others"))
    tell(jobs, ended("r-2", tenant="others"))
    for value in (b"{", b'{"prompt": 7}', None):
        jobs.on_record(Incoming(topic=PROMPTS, partition=0, offset=0, timestamp_ms=1, key=b"r-3", value=value))
    names = ("r-1", "r-2", "r-3")
    assert [jobs.get(name, tenant) for name in names for tenant in ("default", "others")] == [None] * 6


def test_a_tenant_that_floods_the_topics_makes_nobody_else_forgotten() -> None:
    jobs = JobView(lambda _: True, 10)
    tell(jobs, a_request(request_id="mine", tenant="quiet"))
    for n in range(50):
        tell(jobs, a_request(request_id=f"r-{n}", tenant="loud"))
    assert [job.request_id for job in jobs.page("quiet", 10)] == ["mine"]
    assert len(jobs.page("loud", 50)) == 9


def test_an_id_that_a_tenant_uses_already_brings_another_neither_its_request_nor_its_result() -> None:
    jobs = JobView(lambda _: True, 10)
    tell(jobs, a_request(request_id="r-1", tenant="first", prompt="of the first"))
    tell(jobs, a_request(request_id="r-1", tenant="second", prompt="of the second"))
    tell(jobs, ended("r-1", tenant="second"))
    job = jobs.get("r-1", "first")
    assert job is not None
    assert (job.request and job.request.prompt, job.result) == ("of the first", None)
    assert jobs.get("r-1", "second") is None


def test_the_first_result_and_the_first_start_count() -> None:
    jobs = JobView("default".__eq__, 10)
    tell(jobs, a_request())
    for at_ms in (5, 9):
        tell(jobs, Event(request_id="r-1", kind="started", at_ms=at_ms, by="worker"))
    for reason in ("first", "second"):
        tell(jobs, ended("r-1", reason=reason))
    job = jobs.get("r-1", "default")
    assert job is not None
    assert job.result is not None
    assert (job.started_ms, job.result.reason) == (5, "first")


def test_notes_are_told_in_the_order_of_their_log_each_once_and_also_where_they_are_read_before_their_request() -> None:
    jobs = JobView("default".__eq__, 10)
    tell(jobs, event("r-1", "started", level="light", stage=0, worker="w-1", steps=4))
    tell(jobs, a_request(request_id="r-1"))
    tell(jobs, event("r-1", "escalated", to="heavy", preview="store/draft", tenant="default", **{"from": "light"}))
    job = jobs.get("r-1", "default")
    assert job is not None
    for note in job.notes:
        job = job.noted(note)  # as where a follower begins anew
    assert [(note.kind, note.words) for note in job.notes] == [
        ("started", "level=light stage=0 steps=4"), ("escalated", "from=light to=heavy"),
    ]  # fmt: skip
    assert [(note.draft_for("default"), note.draft_for("others")) for note in job.notes] == [
        ("", ""), ("store/draft", ""),
    ]  # fmt: skip
    for _ in range(99):
        tell(jobs, event("r-1", "rerouted"))
    job = jobs.get("r-1", "default")
    assert job is not None
    assert (len(job.notes), job.started_ms) == (MAX_NOTES, NOW_MS)


def test_notes_that_nobody_asks_for_are_bounded() -> None:
    jobs = JobView("default".__eq__, 10)
    for n in range(50):
        tell(jobs, event(f"r-{n}", "started"))
    tell(jobs, event("others", "started"))
    tell(jobs, a_request(request_id="others", tenant="others"))
    assert len(jobs._early) == 9


def test_the_oldest_requests_leave_and_who_waits_for_them_is_told_all_the_same() -> None:
    jobs = JobView("default".__eq__, 2)
    tell(jobs, a_request(request_id="old"))

    async def wait() -> object:
        waiting = asyncio.create_task(jobs.wait("old", 60))
        await asyncio.sleep(0)
        for n in range(3):
            tell(jobs, a_request(request_id=f"r-{n}"))
        assert jobs.get("old", "default") is None
        threading.Thread(target=tell, args=(jobs, ended("old", reason="it ended"))).start()
        result = await waiting
        return result.reason if result else None

    assert asyncio.run(wait()) == "it ended"


def test_who_waits_too_long_or_until_the_gateway_stops_is_told_so_and_forgotten() -> None:
    jobs = JobView("default".__eq__, 10)

    async def wait() -> None:
        assert await jobs.wait("r-1", 0.001) is None
        waiting = asyncio.create_task(jobs.wait("r-1", 60))
        await asyncio.sleep(0)
        jobs.stop()
        assert await waiting is None
        assert await jobs.wait("r-2", 60) is None

    asyncio.run(wait())
    assert jobs._feeds == {}


def test_what_the_pipeline_rejects_for_its_size_or_its_time_is_not_kept() -> None:
    jobs = JobView("default".__eq__, 10, limits=load({"requests": {"max_prompt_bytes": 100}}).requests)
    tell(jobs, a_request(request_id="large", prompt="a" * 101))
    tell(jobs, a_request(request_id="microseconds", created_ms=1_790_000_000_000_000))
    tell(jobs, a_request(request_id="fits", prompt="a" * 100))
    assert [jobs.get(name, "default") is not None for name in ("large", "microseconds", "fits")] == [False, False, True]
