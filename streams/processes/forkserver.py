"""Starts processes by fork from one that has the libraries loaded: a role is ready without the seconds of its imports.

    this process  --socket-->  the server: imports, opens nothing  --fork-->  a role: `pochade serve ...`, its own
    process group

The server imports the listed modules, and opens no device and no client: it refuses to fork once a second Python thread
runs, as locks that threads hold stay locked in a child. A child opens everything itself, as any process of
`pochade serve` does. The server ends with this process, and its children, unless detached, with the server.
"""

import contextlib
import gc
import importlib
import json
import os
import pathlib
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from schemas.errors import PochadeError
from streams.processes.children import die_with, end_all, spawn
from streams.security.private_folder import create_private
from streams.weights.classes import import_named

START_TIMEOUT_S: Final = 120.0  # imports on a busy machine
POCHADE: Final = "streams.cli:main"
REPLY_TIMEOUT_S: Final = 30.0
_MAX_ORDER: Final = 1 << 20  # bytes


class ForkFailed(PochadeError):
    """A process that could not be forked: the server has ended, or refuses."""


class ForkedChild:
    """A process that the server forked; satisfies `streams.processes.Child`."""

    def __init__(self, pid: int, handle: int, connection: socket.socket) -> None:
        self.pid = pid
        self._handle, self._connection = handle, connection  # a pidfd: a pid may be reused later
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while the process runs."""
        return self._awaited(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Block until the process has ended. Raises subprocess.TimeoutExpired."""
        status = self._awaited(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"forked process {self.pid}", timeout or 0.0)
        return status

    def _awaited(self, timeout_s: float | None) -> int | None:
        if self._status is None:
            self._connection.settimeout(timeout_s)
            try:
                line = self._connection.recv(64)
            except (BlockingIOError, TimeoutError):
                return None
            except OSError:
                line = b""
            if not line and not self._has_ended(timeout_s):  # the server died: its children are ending
                return None
            self._status = int(line) if line else -signal.SIGTERM
            self._connection.close()
            os.close(self._handle)
        return self._status

    def _has_ended(self, timeout_s: float | None) -> bool:
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else round(timeout_s * 1000)))

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)


class ForkServer:
    """A server of this process's own, from `start` to `close`."""

    def __init__(self, modules: Sequence[str], log: pathlib.Path) -> None:
        """`modules`: imported by the server, MODULE or MODULE:ATTRIBUTE; `log`: of its own output."""
        self._modules, self._log = modules, log
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self) -> "ForkServer":
        """Start the server and wait until it has imported. Raises ForkFailed with the end of its log."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = "import sys; from streams.processes.forkserver import serve; serve(int(sys.argv[1]), sys.argv[2:])"
        with theirs:
            command = [sys.executable, "-c", program, str(theirs.fileno()), *self._modules]
            self._child = spawn(command, self._log, pass_fds=[theirs.fileno()])
        self._socket = ours
        ours.settimeout(START_TIMEOUT_S)
        what = "ended before it was ready"
        try:
            ready = ours.recv(_MAX_ORDER)
        except TimeoutError:
            ready, what = b"", f"was not ready within {START_TIMEOUT_S:g} s: the machine may be too busy"
        except OSError:
            ready = b""
        if ready != b"ready":
            self.close()
            raise ForkFailed(f"the fork server {what}; the end of {self._log}:\n{_tail(self._log)}")
        return self

    def spawn(
        self, arguments: Sequence[str], log: pathlib.Path, environment: Mapping[str, str] | None = None, *,
        target: str = POCHADE, is_detached: bool = False,
    ) -> ForkedChild:  # fmt: skip
        """Fork a process that runs `pochade` with these arguments; both its outputs are appended to `log`.

        `environment`: of the process; None for this one's. `target`: MODULE:FUNCTION that takes the arguments.
        `is_detached`: it goes on when the server ends, in a session of its own. Raises ForkFailed.
        """
        create_private(log.parent)
        log.touch(0o644)  # it is read as soon as the process has started
        order = {
            "target": target,
            "arguments": list(arguments),
            "log": str(log.resolve()),
            "folder": os.getcwd(),
            "environment": dict(os.environ if environment is None else environment),
            "is_detached": is_detached,
        }
        assert self._socket is not None, "the fork server was not started"
        mine, childs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with childs:
                socket.send_fds(self._socket, [json.dumps(order).encode()], [childs.fileno()])
            mine.settimeout(REPLY_TIMEOUT_S)
            reply, handles, _, _ = socket.recv_fds(mine, 1 << 16, 1)
        except OSError as error:
            mine.close()
            raise ForkFailed(f"the fork server does not answer: {error}; see {self._log}") from error
        if not handles:
            mine.close()
            raise ForkFailed(f"the fork server forked no process: {reply.decode() or 'it ended'}; see {self._log}")
        return ForkedChild(int(reply), handles[0], mine)

    def close(self) -> None:
        """End the server; its children get SIGTERM."""
        if self._socket is not None:
            self._socket.close()
        if self._child is not None:
            end_all([self._child])

    def __enter__(self) -> "ForkServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class LastingForkServer:
    """A server that is started when it is first asked, and anew should it have died. Closed by `close`."""

    def __init__(self, modules: Callable[[], Sequence[str]], log: pathlib.Path) -> None:
        """`modules`: returns what the server imports, as of `ForkServer`; `log`: of its own output."""
        self._modules, self._log = modules, log
        self._server: ForkServer | None = None

    def spawn(
        self, arguments: Sequence[str], log: pathlib.Path, environment: Mapping[str, str] | None = None, *,
        target: str = POCHADE, is_detached: bool = False,
    ) -> ForkedChild:  # fmt: skip
        """Fork a process, as `ForkServer.spawn` does. Raises ForkFailed: also by a server that was started anew."""
        try:
            return self._running().spawn(arguments, log, environment, target=target, is_detached=is_detached)
        except ForkFailed:
            self.close()
            return self._running().spawn(arguments, log, environment, target=target, is_detached=is_detached)

    def _running(self) -> ForkServer:
        if self._server is None:
            self._server = ForkServer(self._modules(), self._log).start()
        return self._server

    def close(self) -> None:
        """End the server, if one runs; its children get SIGTERM, but for those that are detached."""
        if self._server is not None:
            self._server.close()
            self._server = None


def serve(handle: int, modules: Sequence[str]) -> None:
    """Be the server: import, then fork a process for each order until the other end closes."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `pochade serve` does
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # so that libraries which look for CUDA do not begin it here
    for name in modules:
        import_named(name)
    gc.collect()
    gc.freeze()  # a collection in a child would write to every page that it shares
    orders = socket.socket(fileno=handle)
    orders.send(b"ready")
    running: dict[int, tuple[int, socket.socket]] = {}  # pidfd -> pid, who waits for its end
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == orders.fileno():
                order, handles, _, _ = socket.recv_fds(orders, _MAX_ORDER, 1)
                if not order:
                    return
                asker = socket.socket(fileno=handles[0])
                others = [orders, *(each for _, each in running.values())]
                if (child := _forked(json.loads(order), asker, others)) is not None:
                    running[child[0]] = (child[1], asker)
                    poll.register(child[0], select.POLLIN)
            else:
                poll.unregister(ready)
                pid, asker = running.pop(ready)
                _, status = os.waitpid(pid, 0)
                with contextlib.suppress(OSError), asker:
                    asker.send(str(os.waitstatus_to_exitcode(status)).encode())
                os.close(ready)


def _forked(
    order: Mapping[str, Any], asker: socket.socket, inherited: Sequence[socket.socket]
) -> tuple[int, int] | None:
    """Fork; pidfd and pid, or None where that is refused. In the child this does not return."""
    if threading.active_count() > 1:
        names = ", ".join(thread.name for thread in threading.enumerate())
        asker.send(f"its imports started threads ({names}), whose locks would stay locked in a child".encode())
        asker.close()
        return None
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_child(order, server, [asker, *inherited])
    child = os.pidfd_open(pid)
    with contextlib.suppress(OSError):  # the caller is gone: the child runs until it is stopped
        socket.send_fds(asker, [str(pid).encode()], [child])
    return child, pid


def _be_child(order: Mapping[str, Any], server: int, inherited: Sequence[socket.socket]) -> None:
    """Run the target in the forked process and end it."""
    status = 70  # the software failed (sysexits.h)
    try:
        if order["is_detached"]:
            os.setsid()
        else:
            os.setpgid(0, 0)
            die_with(server)
        for each in inherited:
            each.close()
        output = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        _reseed()
        sys.argv = ["pochade", *order["arguments"]]
        module, _, function = order["target"].partition(":")
        getattr(importlib.import_module(module), function)(order["arguments"])
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # no handler at exit that the server has registered


def _reseed() -> None:
    """Give the global generators of libraries a seed of their own: children would draw the same."""
    random.seed()
    for name in ("numpy.random", "torch"):
        if (module := sys.modules.get(name)) is not None:
            module.seed()


def _tail(log: pathlib.Path, lines: int = 8) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(nothing)"
