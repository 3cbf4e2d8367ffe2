"""Runs the roles of one process until a signal, and bounds the time from the signal to the end of the process.

Faust agents run on the event loop, the other roles each in a thread.
"""

import asyncio
import gc
import logging
import os
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from schemas.errors import EndsProcess, PochadeError, Unknown
from streams import metrics
from streams.processes import freed_memory, signals
from streams.processes.watchdog import log_last, report_stacks

if TYPE_CHECKING:
    from streams.faust.host import AgentHost

log = logging.getLogger(__name__)

Run = Callable[[threading.Event], None]

BACKOFF_S = 1.0
CRASHED = 70  # exit status: the software failed (sysexits.h)
CUT_SHORT = 1  # exit status of a process that did not finish in time


def keep_running(role: str, run: Run, stopping: threading.Event, end_process: Callable[[int], None] = os._exit) -> None:
    """Run a role until `stopping`; an exception is logged and counted, and the role begins again.

    An unknown name stays unknown however often the role begins: it ends the process, as does what asks for that.
    """
    while not stopping.is_set():
        try:
            run(stopping)
        except (Unknown, EndsProcess) as error:
            log.critical("%s cannot run: %s; ending the process", role, error)
            logging.shutdown()
            end_process(error.status if isinstance(error, EndsProcess) else CRASHED)
            return
        except Exception as error:  # the outermost loop of a role
            is_fault = not isinstance(error, KafkaException | PochadeError)  # of the code: these say all there is
            log.error("%s failed: %s; beginning again in %g s", role, error, BACKOFF_S, exc_info=is_fault)
            metrics.RESTARTS.labels(role).inc()
            stopping.wait(BACKOFF_S)


def not_alive(role: str) -> str:
    """Why only a new process helps a role that `run_process` runs in a thread."""
    return "" if any(thread.name == role for thread in threading.enumerate()) else "its thread has ended"


def run_process(threaded: dict[str, Run], hosts: "Sequence[AgentHost]", on_stop: Callable[[], None]) -> None:
    """Block until SIGTERM, SIGINT or SIGHUP, then stop all: work in hand is finished, the rest is left to others.

    `on_stop` is called when the signal comes; how long the rest may take is its caller's. A Faust app that has crashed
    ends the process at once: stopping it would wait for work that no thread does any more.
    """
    gc.freeze()  # what is loaded stays: looking through it again and again took 6 % of the ledger's time (measured)
    stopping = threading.Event()
    threads = [
        threading.Thread(target=keep_running, args=(role, run, stopping), name=role) for role, run in threaded.items()
    ]
    threads.append(threading.Thread(target=freed_memory.give_back_until, args=(stopping,), name="freed-memory"))
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
    for number in signals.ending():
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


class Drain:
    """The time a process has between the signal to stop and its end.

    From `begin` to the end of the block at most `limit_s` may pass, or the process is ended.

    Whatever it had in hand is not committed, so others read it again: cut short, work is done twice but never lost.
    A thread watches, since what hangs may be the event loop, a client's call, or a client's close.
    """

    def __init__(self, limit_s: float, end: Callable[[int], None] = os._exit) -> None:
        self._limit_s = limit_s
        self._end = end
        self._timer = threading.Timer(limit_s, self._cut_short)
        self._timer.daemon = True

    def begin(self) -> None:
        """The signal has come; further ones do not extend the time."""
        if self._timer.ident is None:
            self._timer.start()  # first: whatever keeps the line from being logged must not keep the process
            log.info("stopping: %g s for the work in hand", self._limit_s)

    def __enter__(self) -> "Drain":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()

    def _cut_short(self) -> None:
        busy = [t.name for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
        who = ", ".join(busy) or "the stream roles or a client"
        log_last(log, "%s did not finish within shutdown_timeout_s = %g; ending the process", who, self._limit_s)
        report_stacks()
        self._end(CUT_SHORT)
