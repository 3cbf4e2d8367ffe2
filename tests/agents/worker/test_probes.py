"""What workers, planners and stream roles answer when they are asked whether they can serve, and whether they live."""

import asyncio
import logging
import pathlib
import threading
import time
import types
from collections.abc import Iterator
from typing import Any, cast

import pytest

from agents.runtime.process import not_alive
from agents.worker import role as worker_module
from agents.worker.role import NO_BEAT_S, Worker
from schemas.errors import PochadeError
from streams.codec.schema_wait import SchemaWait
from streams.faust import host as faust_host
from streams.faust.host import AgentHost
from streams.observing import logs
from tests.agents.stubs import StubFleet
from tests.builders import a_catalog, a_variant


@pytest.fixture
def worker() -> Iterator[Worker]:
    """One that has not begun to run: what the probes read is set by the tests."""
    settings = types.SimpleNamespace(
        worker=types.SimpleNamespace(device="", id="", job_timeout_s=60, price_per_hour=0.0),
        home=pathlib.Path("nowhere"),
    )
    made = Worker(cast(Any, settings), a_catalog(), *cast(Any, [None] * 4), cast(Any, StubFleet()), "w-1")
    yield made
    made._me.watchdog.end()  # else it ends this process in a minute


def test_a_worker_without_a_plan_says_whom_the_plan_must_name(worker: Worker) -> None:
    assert worker.not_ready() == "waits for a plan that names w-1"


@pytest.mark.parametrize("state", ["ready", "painting", "draining"])
def test_a_worker_that_serves_its_variant_is_ready(worker: Worker, state: str) -> None:
    worker._me.variant, worker._me.state = a_variant(), state
    assert worker.not_ready() == ""


def test_a_worker_that_loads_or_failed_to_says_what_and_why(worker: Worker) -> None:
    worker._me.variant, worker._me.state = a_variant(), "loading"
    assert worker.not_ready() == "light is loading"
    worker._me.state, worker._me.detail = "failed", "no such folder"
    assert worker.not_ready() == "light is failed: no such folder"


def test_a_worker_that_begins_again_and_again_tells_what_ended_its_last_run(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        worker._me.variant, worker._me.state = a_variant(), "loading"
        raise PochadeError("no ALTER_CONFIGS")

    monkeypatch.setattr(worker_module, "Heart", lambda *_: types.SimpleNamespace(start=lambda: worker_heart))
    worker_heart = types.SimpleNamespace(close=lambda: None)
    worker._settings.worker.heartbeat_ms = 1
    monkeypatch.setattr(worker, "_plans", types.SimpleNamespace(plan=None))
    monkeypatch.setattr(worker, "_wanted", lambda _: a_variant())
    monkeypatch.setattr(worker, "_serve", refuse)
    with pytest.raises(PochadeError):
        worker.run(threading.Event())
    assert worker.not_ready() == "light is loading; its last run ended: PochadeError: no ALTER_CONFIGS"


def test_a_worker_whose_heartbeat_has_stopped_needs_a_new_process(worker: Worker) -> None:
    assert worker.not_alive() == ""
    worker._me.beaten_s = time.monotonic()
    assert worker.not_alive() == ""
    worker._me.beaten_s = time.monotonic() - NO_BEAT_S - 1
    assert worker.not_alive() == f"no heartbeat for {NO_BEAT_S} s"


def test_a_worker_whose_job_is_overdue_needs_a_new_process(worker: Worker) -> None:
    worker._me.watchdog.begin()
    worker._me.watchdog._counts_s -= 59
    assert worker.not_alive() == ""
    worker._me.watchdog._counts_s -= 2
    assert worker.not_alive() == "a job takes longer than worker.job_timeout_s = 60"


def test_a_role_whose_thread_has_ended_needs_a_new_process() -> None:
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, args=(10,), name="some-role")
    thread.start()
    assert not_alive("some-role") == ""
    go_on.set()
    thread.join()
    assert not_alive("some-role") == "its thread has ended"


@pytest.fixture
def host() -> AgentHost:
    """One whose app has not started."""
    host = AgentHost.__new__(AgentHost)
    host._schemas = SchemaWait("test")
    host._loop, host.app = None, types.SimpleNamespace(crashed=False)
    host._words, host._schemas = logs.LastError("test.broker"), SchemaWait("test")
    return host


def test_a_stream_role_that_has_not_joined_is_alive_but_not_ready(host: AgentHost) -> None:
    assert (host.not_ready(), host.not_alive()) == ("joins its group", "")


def test_a_stream_role_that_cannot_join_tells_the_last_error(host: AgentHost) -> None:
    logging.getLogger("test.broker.client").warning("soon")
    logging.getLogger("test.broker.client").error("no node\nat %s", "host:9092")
    assert host.not_ready() == "joins its group; last error: no node at host:9092"


def test_a_stream_role_lives_while_its_event_loop_answers(host: AgentHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faust_host, "LOOP_ANSWER_S", 0.2)
    go_on = threading.Event()

    async def serve() -> tuple[str, str, str]:
        host._loop = asyncio.get_running_loop()
        free = await asyncio.to_thread(host.not_alive)
        asked = asyncio.create_task(asyncio.to_thread(host.not_alive))
        await asyncio.sleep(0)
        go_on.wait(1)  # blocks the loop, as no role may
        host.app.crashed = True
        return free, await asked, await asyncio.to_thread(host.not_alive)

    free, blocked, crashed = asyncio.run(serve())
    assert (free, blocked) == ("", "the event loop did not answer within 0.2 s")
    assert crashed == "the Faust app has crashed"
    assert (host.not_ready(), host.not_alive()) == ("", ""), "a closed loop is that of a process about to end"
