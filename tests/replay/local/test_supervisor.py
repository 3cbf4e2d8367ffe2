import contextlib
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from replay.local.processes import RoleProcess, role_process
from replay.local.supervisor import MAX_RESTARTS, RestartLimit, RoleFailed, Supervisor
from streams.processes.children import STOP_S


class FakeChild:
    """A process that lives until it is told otherwise; a stubborn one ignores SIGTERM."""

    def __init__(self, command: Sequence[str], is_stubborn: bool = False) -> None:
        self.command, self.pid = command, 1
        self.signals: list[str] = []
        self.waits: list[float | None] = []
        self._is_stubborn = is_stubborn
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def wait(self, timeout: float | None = None) -> int:
        self.waits.append(timeout)
        if self.status is None:
            raise subprocess.TimeoutExpired(list(self.command), timeout or 0)
        return self.status

    def terminate(self) -> None:
        self.signals.append("TERM")
        if not self._is_stubborn:
            self.status = -signal.SIGTERM

    def kill(self) -> None:
        self.signals.append("KILL")
        self.status = -signal.SIGKILL


class Stage:
    """Children made instead of processes, and a clock."""

    def __init__(self, tmp_path: pathlib.Path, *names: str, is_stubborn: bool = False) -> None:
        self.now_s = 0.0
        self.children: list[FakeChild] = []
        self._is_stubborn = is_stubborn
        roles = [RoleProcess(name=name, command=(name,)) for name in names]
        self.roles = Supervisor(roles, tmp_path, spawn=self._spawn, clock_s=lambda: self.now_s)

    def _spawn(self, command: Sequence[str], _log: pathlib.Path) -> FakeChild:
        self.children.append(FakeChild(command, self._is_stubborn))
        return self.children[-1]


def test_a_role_that_dies_is_restarted_after_a_pause_and_counted(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "worker-1", "ledger")
    stage.roles.start()
    stage.children[0].status = -signal.SIGKILL
    assert stage.roles.check() == ["worker-1 ended with signal SIGKILL; restart 1 of 5 in 0.5 s"]
    assert stage.roles.check() == []
    assert len(stage.children) == 2, "it is not started before its pause is over"
    stage.now_s = 0.5
    assert stage.roles.check() == []
    assert [child.command for child in stage.children] == [("worker-1",), ("ledger",), ("worker-1",)]
    assert stage.roles.restarts == {"worker-1": 1, "ledger": 0}
    assert stage.roles.endings == {"worker-1: signal SIGKILL": 1}


def test_each_restart_of_a_role_waits_twice_as_long_and_the_sixth_death_is_an_error(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "worker-1")
    stage.roles.start()
    pauses = []
    for _ in range(MAX_RESTARTS):
        stage.children[-1].status = 1
        pauses += [note.split(" in ")[1] for note in stage.roles.check()]
        stage.now_s += 60
        stage.roles.check()
    assert pauses == ["0.5 s", "1 s", "2 s", "4 s", "8 s"]
    (tmp_path / "worker-1.log").write_text("out of memory\n")
    stage.children[-1].status = 1
    with pytest.raises(RoleFailed, match=r"worker-1 ended with exit status 1 after 5 restarts.*\n.*out of memory"):
        stage.roles.check()


def test_a_role_that_gives_up_while_starting_is_an_error_at_once(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "planner")
    stage.roles.start()
    (tmp_path / "planner.log").write_text("error: unknown policy\n")
    stage.children[0].status = 1
    with pytest.raises(RoleFailed, match="unknown policy"):
        stage.roles.check(is_starting=True)


def test_a_role_that_is_killed_while_starting_is_restarted(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "planner")
    stage.roles.start()
    stage.children[0].status = -signal.SIGKILL
    assert len(stage.roles.check(is_starting=True)) == 1


def test_all_are_stopped_whatever_ends_the_run(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "worker-1", "ledger")
    stage.roles.start()
    with contextlib.suppress(KeyboardInterrupt), stage.roles:
        raise KeyboardInterrupt
    assert [child.signals for child in stage.children] == [["TERM"], ["TERM"]]


def test_what_ignores_sigterm_is_killed(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "worker-1", is_stubborn=True)
    stage.roles.start()
    stage.roles.stop()
    assert stage.children[0].signals == ["TERM", "KILL"]
    assert stage.children[0].waits == [STOP_S, None]


def test_a_dead_role_is_not_signalled(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "worker-1")
    stage.roles.start()
    stage.children[0].status = 0
    stage.roles.stop()
    stage.roles.stop()
    assert stage.children[0].signals == []


def test_some_are_ended_for_good_and_may_be_added_again(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "worker-1", "ledger", "planner")
    stage.roles.start()
    stage.roles.end(stage.children[0])
    stage.roles.end(stage.children[1], is_killed=True)
    assert [child.signals for child in stage.children] == [["TERM"], ["KILL"], []]
    assert stage.roles.check() == [], "nobody starts them again"
    assert stage.roles.add(RoleProcess(name="ledger", command=("ledger", "again"))) is stage.children[-1]
    stage.children[-1].status = 1
    assert len(stage.roles.check()) == 1


def test_names_that_repeat_would_share_a_log_and_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError, match="worker-1"):
        Stage(tmp_path, "worker-1", "worker-1")


def test_a_role_that_is_held_stays_dead_until_it_is_added_again(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "worker-1")
    stage.roles.start()
    child = stage.roles.hold("worker-1")
    child.kill()
    stage.now_s = 60
    assert (stage.roles.check(), len(stage.children), stage.roles.child("worker-1")) == ([], 1, None)
    stage.roles.add(RoleProcess(name="worker-1", command=("worker-1",)))
    assert stage.roles.child("worker-1") is stage.children[1]


def test_a_patient_supervisor_waits_no_longer_than_it_is_told(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path, "ledger")
    stage.roles._patience, roles = RestartLimit(restarts=1000, first_s=0.5, most_s=1), stage.roles
    roles.start()
    for _ in range(20):
        stage.children[-1].status = -9
        (note,) = roles.check()
        stage.now_s += 1
        assert roles.check() == []
    assert note.endswith("restart 20 of 1000 in 1 s")


def test_a_role_is_the_command_line_with_the_deployments_options_before_it() -> None:
    role = role_process("w", ["worker"], ["--home", "/h"], {"worker.id": "w"})
    assert role.command[0] == sys.executable
    assert role.command[-6:] == ("--home", "/h", "--set", "worker.id=w", "serve", "worker")
