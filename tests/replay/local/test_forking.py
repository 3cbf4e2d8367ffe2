"""A supervisor may fork some of its processes from a server with the libraries imported, and start the others anew."""

import pathlib
import sys

import pytest

from replay.local.processes import RoleProcess, forking, role_process
from replay.local.supervisor import Supervisor
from streams.processes.forkserver import ForkedChild, ForkServer
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd is Linux's")


def test_workers_are_forked_and_others_are_started_anew(tmp_path: pathlib.Path) -> None:
    wrong = ["--set", "no.such=setting"]  # ends the role at once, after its settings were read
    roles = [
        role_process("one", ["worker"], wrong, {"worker.id": "one"}),
        role_process("two", ["worker", "ledger"], wrong, {}),
        RoleProcess(name="three", command=(sys.executable, "-c", "pass")),
    ]
    with ForkServer(["streams.cli"], tmp_path / "server.log") as server:
        start = forking(server, ["worker"])
        supervisor = Supervisor(roles, tmp_path, spawn=start)
        with supervisor:
            children = [supervisor.add(role) for role in roles]
            assert [isinstance(child, ForkedChild) for child in children] == [True, False, False]
            assert [child.wait(PATIENCE_S) for child in children] == [1, 1, 0]
    for name in ("one", "two"):
        assert "unknown setting 'no'" in (tmp_path / f"{name}.log").read_text()
