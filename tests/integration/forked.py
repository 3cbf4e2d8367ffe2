"""Roles of the tests' pipelines are forked from one process that has imported them, as those of `pochade demo` are.

Their imports were two processor seconds a process, and a session starts more than a hundred.
"""

import pathlib
from collections.abc import Sequence
from typing import Final

from replay.local.forked import PROGRAM, ROLE_MODULES, RUN_PROGRAM
from replay.local.processes import START
from streams.processes.forkserver import POCHADE, ForkedChild, LastingForkServer


class RoleServer:
    """The fork server of a session of tests."""

    def __init__(self) -> None:
        self._server: LastingForkServer | None = None

    def begin(self, folder: pathlib.Path) -> None:
        """Name the folder of the server's log."""
        self._server = LastingForkServer(lambda: ROLE_MODULES, folder / "forkserver.log")

    def fork(self, command: Sequence[str], log: pathlib.Path, target: str = POCHADE) -> ForkedChild:
        """Fork a process that would be started anew by the command of a `role_process`.

        `target`: MODULE:FUNCTION that takes the arguments, in place of the command line of `pochade`. A command with
        a program of its own, such as that of a worker with other limits of time, runs that.
        """
        python, option, program, *arguments = command
        assert (python, option) == PROGRAM, command
        assert self._server is not None, "the session's fixture has not begun"
        if program == START:
            return self._server.spawn(arguments, log, target=target)
        return self._server.spawn([program, *arguments], log, target=RUN_PROGRAM)

    def close(self) -> None:
        """End the server, if there is one."""
        if self._server is not None:
            self._server.close()
            self._server = None


ROLE_SERVER: Final = RoleServer()
