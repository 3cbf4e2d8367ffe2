"""A deployment without a broker serves as one on Kafka does, and on virtual time it repeats exactly."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from agents.in_process.bus import Faults
from agents.in_process.deployment import InProcess
from schemas.messages import GenerateRequest, Result, Status
from schemas.record import Incoming, Outgoing
from schemas.topics import DLQ, IMAGES, OUTCOMES, RESULTS
from streams.clock import now_ms
from tests.agents.in_process import virtual_time
from tests.builders import a_plan

Tells = Callable[..., Any]


def a_request(name: str, trust: float = 0.9, **asked: Any) -> GenerateRequest:
    return GenerateRequest(request_id=name, prompt=f"{name} {trust}", created_ms=now_ms(), **asked)


def levels(result: Result) -> list[str]:
    return [stage["level"] for stage in json.loads(result.path)]


def test_a_draft_that_is_trusted_is_the_answer_and_another_is_generated_again_by_heavy(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> list[Result]:
        return [await deployment.generate(a_request(name, trust)) for name, trust in (("a", 0.9), ("b", 0.1))]

    kept, escalated = in_process(story)
    assert (kept.status, levels(kept)) == (Status.COMPLETED, ["light"])
    assert (escalated.status, levels(escalated)) == (Status.COMPLETED, ["light", "heavy"])


def test_a_deployment_is_ready_once_its_workers_serve_what_the_plan_gives_them(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> dict[str, str]:
        assert not deployment.heartbeats, "nothing is loaded yet"
        await deployment.until_ready()
        return {name: seen.heartbeat.variant for name, seen in deployment.heartbeats.items()}

    assert sorted(in_process(story).values()) == ["heavy", "light"]


def test_calls_take_the_time_that_the_catalog_says_and_none_of_ours(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> Result:
        await asyncio.sleep(60)  # all is loaded, and a minute has passed
        return await deployment.generate(a_request("a", 0.1))

    result = in_process(story)
    assert result.latency_ms is not None
    assert 220 <= result.latency_ms <= 220 + 200  # 20 ms light and 200 ms heavy; each worker looks every 100 ms


def test_a_run_with_faults_repeats_exactly_and_another_seed_gives_another_one(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> list[tuple[Any, ...]]:
        for number in range(30):
            await deployment.submit(a_request(f"r-{number}", number % 10 / 10))
            await asyncio.sleep(0.02)
        results = [await deployment.result(f"r-{number}") for number in range(30)]
        assert {result.status for result in results} == {Status.COMPLETED}
        return [(result.ended_ms, result.path) for result in results]

    def told(seed: int) -> Any:
        return in_process(story, faults=Faults(seed=seed, max_delay_ms=80, repeated=0.2, lost_heartbeats=0.2))

    first = told(1)
    assert told(1) == first
    assert told(2) != first


def test_records_that_come_twice_end_a_request_once(in_process: Tells) -> None:
    written: dict[str, list[Any]] = {RESULTS: [], OUTCOMES: [], IMAGES: []}

    async def story(deployment: InProcess) -> None:
        for topic, records in written.items():
            deployment.bus.follow(topic, records.append)
        for number in range(20):
            await deployment.submit(a_request(f"r-{number}"))
        for number in range(20):
            await deployment.result(f"r-{number}")
        await asyncio.sleep(60)

    in_process(story, faults=Faults(repeated=1.0))
    assert len(written[RESULTS]) == 20
    assert len(written[OUTCOMES]) >= 20


def test_a_worker_that_dies_hands_its_job_to_another_one_as_a_second_attempt(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> Result:
        await asyncio.sleep(5)
        await deployment.submit(a_request("a", 0.1))
        await asyncio.sleep(0.3)  # heavy has it in hand
        deployment.kill("worker-2")
        return await deployment.result("a")

    plan = a_plan(allocation={"worker-1": "light", "worker-2": "heavy", "worker-3": "heavy"})
    result = in_process(story, workers=3, plan=plan)
    heavy = json.loads(result.path)[1]
    assert (heavy["level"], heavy["worker_id"], heavy["attempt"]) == ("heavy", "worker-3", 2)


def test_a_request_that_nobody_serves_expires_at_its_deadline(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> Result:
        return await deployment.generate(a_request("a", deadline_ms=now_ms() + 5000))

    result = in_process(story, workers=0)
    assert (result.status, result.ended_ms - virtual_time.BEGIN_MS >= 5000) == (Status.EXPIRED, True)


def test_a_request_is_cancelled_and_its_images_change_nothing(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> Result:
        await deployment.submit(a_request("a"))
        deployment.cancel("a")
        await asyncio.sleep(60)
        return await deployment.result("a")

    assert in_process(story).status is Status.CANCELLED


def test_workers_follow_a_new_plan_and_what_they_leave_is_served(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> Result:
        await asyncio.sleep(5)
        deployment.obey(a_plan(version=2, created_ms=now_ms(), allocation={"worker-1": "heavy", "worker-2": "light"}))
        await asyncio.sleep(30)
        return await deployment.generate(a_request("a", 0.1))

    result = in_process(story)
    assert [(stage["level"], stage["worker_id"]) for stage in json.loads(result.path)] == [
        ("light", "worker-2"), ("heavy", "worker-1"),
    ]  # fmt: skip


def test_the_planner_of_the_settings_makes_the_plans_where_none_is_given(in_process: Tells) -> None:
    async def story(deployment: InProcess) -> Result:
        return await deployment.generate(a_request("a"))

    result = in_process(story, plan=None)
    assert result.status is Status.COMPLETED
    assert result.plan_version is not None


def test_what_waits_for_ever_in_virtual_time_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(virtual_time.Stalled):
        virtual_time.run(wait())


def test_what_is_no_outcome_is_kept_aside_and_ends_nothing(in_process: Tells) -> None:
    letters = list[Incoming]()

    async def story(deployment: InProcess) -> Result:
        deployment.bus.follow(DLQ, letters.append)
        deployment.bus.write(Outgoing(topic=OUTCOMES, key=b"a", value=b"no outcome"))
        return await deployment.generate(a_request("a"))

    assert in_process(story).status is Status.COMPLETED
    assert [letter.value for letter in letters] == [b"no outcome"]
