"""Runs the roles of one process until a signal: faust agents on the event loop, the others each in a thread."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence

from streams import metrics
from streams.faust_host import AgentHost

log = logging.getLogger(__name__)

Run = Callable[[threading.Event], None]

BACKOFF_S = 1.0
STOP_S = 30.0  # for the work in hand
HOST_STOP_S = 10.0  # for records of a stream role: they take milliseconds, or wait for what may never come
STUCK = 70  # exit status of a process that had to be cut short


def keep_running(role: str, run: Run, stopping: threading.Event) -> None:
    """Run a role until `stopping`; an exception is logged and counted, and the role begins again."""
    while not stopping.is_set():
        try:
            run(stopping)
        except Exception:  # the outermost loop of a role
            log.exception("%s failed; beginning again in %g s", role, BACKOFF_S)
            metrics.RESTARTS.labels(role).inc()
            stopping.wait(BACKOFF_S)


def run_process(threaded: dict[str, Run], hosts: Sequence[AgentHost]) -> None:
    """Block until SIGTERM or SIGINT, then stop everything: work in hand is finished, the rest is left to others."""
    stopping = threading.Event()
    threads = [
        threading.Thread(target=keep_running, args=(role, run, stopping), name=role) for role, run in threaded.items()
    ]
    for thread in threads:
        thread.start()
    try:
        asyncio.run(_serve(hosts, stopping))
    finally:
        stopping.set()
        _join(threads)


def _join(threads: Sequence[threading.Thread]) -> None:
    end = time.monotonic() + STOP_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if stuck := [thread.name for thread in threads if thread.is_alive()]:
        _cut_short(f"{', '.join(stuck)} did not stop within {STOP_S:g} s")


def _cut_short(why: str) -> None:
    """End now: nothing in hand is committed, so others read it again. Waiting would last until somebody kills us."""
    log.critical("%s; ending the process", why)
    logging.shutdown()
    os._exit(STUCK)


async def _serve(hosts: Sequence[AgentHost], stopping: threading.Event) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    ended = asyncio.create_task(stopped.wait())
    watch = [asyncio.create_task(_host_all(hosts))] if hosts else []
    done, _ = await asyncio.wait([ended, *watch], return_when=asyncio.FIRST_COMPLETED)
    stopping.set()
    try:
        await asyncio.wait_for(asyncio.gather(*(host.app.stop() for host in hosts)), HOST_STOP_S)
    except TimeoutError:  # such as a router that holds a request and waits for the first plan
        _cut_short(f"the stream roles did not stop within {HOST_STOP_S:g} s")
    for task in done - {ended}:
        task.result()  # raises what ended the app


async def _host_all(hosts: Sequence[AgentHost]) -> None:
    for host in hosts:
        await host.app.start()
        log.info("%s is ready", host.app.conf.id)
    await asyncio.gather(*(_crash_of(host) for host in hosts))


async def _crash_of(host: AgentHost) -> None:
    """Wait until a Faust app ends by itself, which it should not."""
    await host.app.wait_until_stopped()
    raise RuntimeError(f"the Faust app {host.app.conf.id} stopped unasked: {host.app.crash_reason!r}")
