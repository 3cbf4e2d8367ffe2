"""Roles of the tests' pipelines are forked from one process that has imported them, as `pochade up` starts its workers.

Their imports were two processor seconds a process, and a session starts more than a hundred.
"""

import pathlib
import sys
from collections.abc import Sequence
from typing import Final

from replay.local.processes import START
from streams.processes.forkserver import POCHADE, ForkedChild, ForkServer

MODULES: Final = (
    "agents.commands.serve", "agents.runtime.assembly", "streams.faust.host", "agents.classifier.role",
    "agents.router.role", "agents.discriminator.role", "agents.discriminator.scorers", "agents.worker.role",
    "agents.worker.reuse", "agents.ledger.role", "agents.planner.loop", "planner.policies",
    "streams.kafka.transactions.lease",
)  # fmt: skip


class RoleServer:
    """The fork server of a session of tests; `server` starts it when it is first asked for."""

    def __init__(self) -> None:
        self._folder: pathlib.Path | None = None
        self._server: ForkServer | None = None

    def begin(self, folder: pathlib.Path) -> None:
        """Name the folder of the server's log."""
        self._folder = folder

    def server(self) -> ForkServer:
        """Return the server, running."""
        assert self._folder is not None, "the session's fixture has not begun"
        if self._server is None:
            self._server = ForkServer(MODULES, self._folder / "forkserver.log").start()
        return self._server

    def fork(self, command: Sequence[str], log: pathlib.Path, target: str = POCHADE) -> ForkedChild:
        """Fork a process that would be started anew by the command of a `role_process`.

        `target`: MODULE:FUNCTION that takes the arguments, in place of the command line of `pochade`.
        """
        assert tuple(command[:3]) == (sys.executable, "-c", START), command
        return self.server().spawn(command[3:], log, target=target)

    def close(self) -> None:
        """End the server, if there is one."""
        if self._server is not None:
            self._server.close()
            self._server = None


ROLE_SERVER: Final = RoleServer()
