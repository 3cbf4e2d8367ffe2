"""Runs the roles of one process until a signal: faust agents on the event loop, the others each in a thread."""

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from streams import metrics

if TYPE_CHECKING:
    from streams.faust.host import AgentHost

log = logging.getLogger(__name__)

Run = Callable[[threading.Event], None]

BACKOFF_S = 1.0
CRASHED = 70  # exit status: the software failed (sysexits.h)


def keep_running(role: str, run: Run, stopping: threading.Event) -> None:
    """Run a role until `stopping`; an exception is logged and counted, and the role begins again."""
    while not stopping.is_set():
        try:
            run(stopping)
        except Exception:  # the outermost loop of a role
            log.exception("%s failed; beginning again in %g s", role, BACKOFF_S)
            metrics.RESTARTS.labels(role).inc()
            stopping.wait(BACKOFF_S)


def not_alive(role: str) -> str:
    """Why only a new process helps a role that `run_process` runs in a thread."""
    return "" if any(thread.name == role for thread in threading.enumerate()) else "its thread has ended"


def run_process(threaded: dict[str, Run], hosts: "Sequence[AgentHost]", on_stop: Callable[[], None]) -> None:
    """Block until SIGTERM or SIGINT, then stop everything: work in hand is finished, the rest is left to others.

    `on_stop` is called when the signal comes; how long the rest may take is its caller's. A Faust app that has crashed
    ends the process at once: stopping it waits for work that nobody does any more.
    """
    gc.freeze()  # what is loaded stays: looking through it again and again took 6 % of the ledger's time (measured)
    stopping = threading.Event()
    threads = [
        threading.Thread(target=keep_running, args=(role, run, stopping), name=role) for role, run in threaded.items()
    ]
    for thread in threads:
        thread.start()
    try:
        asyncio.run(_serve(hosts, stopping, on_stop))
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


async def _serve(hosts: "Sequence[AgentHost]", stopping: threading.Event, on_stop: Callable[[], None]) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    ended = asyncio.create_task(stopped.wait())
    watch = [asyncio.create_task(_host_all(hosts, stopping))] if hosts else []
    done, _ = await asyncio.wait([ended, *watch], return_when=asyncio.FIRST_COMPLETED)
    on_stop()
    stopping.set()
    await asyncio.gather(*(host.app.stop() for host in hosts))
    for task in done - {ended}:
        task.result()  # raises what ended the app


async def _host_all(hosts: "Sequence[AgentHost]", stopping: threading.Event) -> None:
    for host in hosts:
        await host.app.start()
        log.info("%s is ready", host.app.conf.id)
    await asyncio.gather(*(_crash_of(host, stopping) for host in hosts))


async def _crash_of(host: "AgentHost", stopping: threading.Event) -> None:
    """Wait until a Faust app ends by itself, which it should not."""
    await host.app.wait_until_stopped()
    if not stopping.is_set():
        log.critical(
            "the Faust app %s stopped unasked: %r; ending the process", host.app.conf.id, host.app.crash_reason
        )
        os._exit(CRASHED)
