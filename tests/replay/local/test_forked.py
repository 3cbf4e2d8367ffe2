"""Roles are forked from a process with the libraries imported; what is no program of Python's `-c` starts anew."""

import pathlib
import sys
from collections.abc import Iterator

import pytest

from replay.local.forked import RoleForks, modules_of
from replay.local.processes import RoleProcess, role_process
from replay.local.supervisor import Supervisor
from streams.processes.forkserver import ForkedChild
from streams.settings import load
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd is Linux's")


@pytest.fixture
def forks(tmp_path: pathlib.Path) -> Iterator[RoleForks]:
    started = RoleForks(lambda: ["streams.cli"], tmp_path / "server.log")
    yield started
    started.close()


def test_roles_are_forked_and_others_are_started_anew(tmp_path: pathlib.Path, forks: RoleForks) -> None:
    wrong = ["--set", "no.such=setting"]  # ends the role at once, after its settings were read
    roles = [
        role_process("one", ["worker"], wrong, {"worker.id": "one"}),
        role_process("two", ["worker", "ledger"], wrong, {}),
        RoleProcess(name="three", command=(sys.executable, "-m", "this")),
    ]
    with Supervisor(roles, tmp_path, spawn=forks) as supervisor:
        children = [supervisor.add(role) for role in roles]
        assert [isinstance(child, ForkedChild) for child in children] == [True, True, False]
        assert [child.wait(PATIENCE_S) for child in children] == [1, 1, 0]
    for name in ("one", "two"):
        assert "unknown setting 'no'" in (tmp_path / f"{name}.log").read_text()


def test_a_program_meets_the_arguments_and_the_name_that_python_would_give_it(
    tmp_path: pathlib.Path, forks: RoleForks
) -> None:
    program = "import sys; print(__name__, sys.argv); sys.exit(3)"
    assert forks((sys.executable, "-c", program, "a", "b"), tmp_path / "log").wait(PATIENCE_S) == 3
    assert (tmp_path / "log").read_text() == "__main__ ['-c', 'a', 'b']\n"


def test_what_generates_and_judges_images_is_imported_for_an_engine_that_needs_it_alone() -> None:
    assert "agents.engines.diffusers_engine" in modules_of(load({"catalog": "tiny"}))
    without = modules_of(load({"catalog": "profile"}))
    assert not [name for name in without if name.startswith(("agents.engines", "agents.models", "diffusers"))]
    assert "agents.ledger.role" in without
