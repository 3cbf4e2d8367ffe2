"""Runs the roles of one process until a signal: faust agents on the event loop, the others each in a thread."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Sequence

from streams import metrics
from streams.faust_host import AgentHost

log = logging.getLogger(__name__)

Run = Callable[[threading.Event], None]

BACKOFF_S = 1.0
STOP_S = 30.0


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
        for thread in threads:
            thread.join(STOP_S)


async def _serve(hosts: Sequence[AgentHost], stopping: threading.Event) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    for host in hosts:
        await host.app.start()
        log.info("%s is ready", host.app.conf.id)
    watch = [asyncio.create_task(_crash_of(host), name=host.app.conf.id) for host in hosts]
    ended = asyncio.create_task(stopped.wait())
    done, _ = await asyncio.wait([ended, *watch], return_when=asyncio.FIRST_COMPLETED)
    stopping.set()
    for host in hosts:
        await host.app.stop()
    for task in done - {ended}:
        task.result()  # raises what ended the app


async def _crash_of(host: AgentHost) -> None:
    """Wait until a Faust app ends by itself, which it should not."""
    await host.app.wait_until_stopped()
    raise RuntimeError(f"the Faust app {host.app.conf.id} stopped unasked: {host.app.crash_reason!r}")
