"""Roles of the tests' pipelines are forked from one process that has imported them, as those of `pochade demo` are.

Their imports were two processor seconds a process, and a session starts more than a hundred. Roles that load models
are forked from another process, which has imported the libraries of models as well: five seconds more a process.
"""

import pathlib
from collections.abc import Sequence
from typing import Final

from replay.local.forked import PROGRAM, ROLE_MODULES, RUN_PROGRAM, modules_of
from replay.local.processes import START
from streams.processes.forkserver import POCHADE, ForkedChild, LastingForkServer
from streams.settings import load


class RoleServer:
    """The fork servers of a session of tests; each begins with the first process that it forks."""

    def __init__(self) -> None:
        self._servers: dict[bool, LastingForkServer] = {}  # by whether it has imported the libraries of models

    def begin(self, folder: pathlib.Path) -> None:
        """Name the folder of the servers' logs."""
        self._servers = {
            False: LastingForkServer(lambda: ROLE_MODULES, folder / "forkserver.log"),
            True: LastingForkServer(lambda: modules_of(load({"catalog": "tiny"})), folder / "models.log"),
        }

    def fork(
        self, command: Sequence[str], log: pathlib.Path, target: str = POCHADE, *, has_models: bool = False
    ) -> ForkedChild:
        """Fork a process that would be started anew by the command of a `role_process`.

        `target`: MODULE:FUNCTION that takes the arguments, in place of the command line of `pochade`. A command with
        a program of its own, such as that of a worker with other limits of time, runs that. `has_models`: it loads
        some.
        """
        python, option, program, *arguments = command
        assert (python, option) == PROGRAM, command
        assert self._servers, "the session's fixture has not begun"
        server = self._servers[has_models]
        if program == START:
            return server.spawn(arguments, log, target=target)
        return server.spawn([program, *arguments], log, target=RUN_PROGRAM)

    def close(self) -> None:
        """End the servers that there are."""
        while self._servers:
            self._servers.popitem()[1].close()


ROLE_SERVER: Final = RoleServer()
