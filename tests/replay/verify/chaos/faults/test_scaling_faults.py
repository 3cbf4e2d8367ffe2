"""Faults of a fleet that grows and shrinks, on real processes that hold a worker's file as scaled workers do."""

import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from replay.verify.chaos.faults import scaling
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, Steps
from schemas.messages import Plan, ScalePlan
from streams.settings import load
from tests.builders import a_plan
from tests.paths import ROOT
from tests.patience import PATIENCE_S

HOLDING = """
import pathlib, signal, sys
from replay.local.owned_worker import take
assert take(pathlib.Path(sys.argv[1]))
print("on", flush=True)
signal.pause()
"""
FAULT = Fault(number=0, at_ms=0, kind="starting-kill", target="", lasts_ms=0, dice=1)


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a process that holds a worker's file."""
    started: list[subprocess.Popen[str]] = []

    def begin(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDING, str(tmp_path / "scale" / f"{name}.lock")]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
        assert started[-1].stdout is not None
        started[-1].stdout.readline()
        return started[-1]

    yield begin
    for each in started:
        each.kill()
        each.communicate()


def a_world(home: pathlib.Path, wanted: int, allocation: dict[str, str], **states: str) -> Any:
    """A run whose plan wants so many workers, with the states that `w1`, `w2` said last."""
    plan: Plan = a_plan(scale=ScalePlan(targets={"light": wanted}), allocation=allocation)
    said = {f"worker-{name[1:]}": state for name, state in states.items()}
    killed: list[str] = []
    supervisor = SimpleNamespace(kill=lambda: killed.append("supervisor"))
    ready = SimpleNamespace(plans=lambda: [plan], states=lambda: said)
    return SimpleNamespace(
        settings=load({"home": home}), hosted=SimpleNamespace(ready=ready), child=lambda _name: supervisor,
        beaten=killed, killed=set(),
    )  # fmt: skip


def over(steps: Steps) -> str:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)


def test_a_worker_that_starts_while_more_are_wanted_is_killed(
    tmp_path: pathlib.Path, start: Callable[[str], Any]
) -> None:
    serving, starting = start("worker-1"), start("worker-2")
    world = a_world(tmp_path, 2, {"worker-1": "light"}, w1="painting", w2="loading")
    assert over(scaling.starting_kill(world, FAULT)) == "SIGKILL of worker-2 as the fleet grew"
    assert starting.wait(PATIENCE_S) == -signal.SIGKILL
    assert serving.poll() is None
    assert list(scaling.workers_of(world.settings)) == ["worker-1"]


def test_a_worker_that_no_plan_names_while_fewer_are_wanted_is_killed(
    tmp_path: pathlib.Path, start: Callable[[str], Any]
) -> None:
    staying, leaving = start("worker-1"), start("worker-2")
    world = a_world(tmp_path, 1, {"worker-1": "light"}, w1="painting", w2="draining")
    assert over(scaling.draining_kill(world, FAULT)) == "SIGKILL of worker-2 as the fleet shrank"
    assert leaving.wait(PATIENCE_S) == -signal.SIGKILL
    assert staying.poll() is None


def test_a_worker_is_killed_once_however_many_faults_wait_for_it(
    tmp_path: pathlib.Path, start: Callable[[str], Any]
) -> None:
    start("worker-1")
    world = a_world(tmp_path, 2, {}, w1="starting")
    world.killed.update(scaling.workers_of(world.settings).values())
    with pytest.raises(NotThere, match="before it was killed"):
        over(scaling.starting_kill(world, FAULT))


def test_the_supervisor_is_killed_as_the_fleet_grows_and_as_it_shrinks(
    tmp_path: pathlib.Path, start: Callable[[str], Any]
) -> None:
    start("worker-1")
    growing = a_world(tmp_path, 2, {}, w1="starting")
    told = over(scaling.scale_up_kill(growing, FAULT))
    assert told == "SIGKILL of the supervisor of 1 workers as the fleet grew (worker-1)"
    shrinking = a_world(tmp_path, 0, {}, w1="ready")
    told = over(scaling.scale_down_kill(shrinking, FAULT))
    assert told == "SIGKILL of the supervisor of 1 workers as the fleet shrank (worker-1)"
    assert growing.beaten == shrinking.beaten == ["supervisor"]


@pytest.mark.parametrize("fault", [scaling.scale_up_kill, scaling.scale_down_kill, scaling.starting_kill])
def test_a_fleet_that_stays_as_it_is_is_not_met(
    tmp_path: pathlib.Path, start: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    monkeypatch.setattr(scaling, "AMBUSH_S", 0.1)
    start("worker-1")
    with pytest.raises(NotThere, match=r"no worker was met as the fleet (grew|shrank) within 0\.1 s"):
        over(fault(a_world(tmp_path, 1, {"worker-1": "light"}, w1="ready"), FAULT))


def test_workers_that_a_killed_supervisor_left_are_ended(tmp_path: pathlib.Path, start: Callable[[str], Any]) -> None:
    left = start("worker-1")
    settings = load({"home": tmp_path})
    assert scaling.end_workers(settings) == 1
    assert left.wait(PATIENCE_S) == -signal.SIGTERM
    assert scaling.end_workers(settings) == 0


def test_a_worker_that_serves_is_killed(tmp_path: pathlib.Path, start: Callable[[str], Any]) -> None:
    serving = start("worker-1")
    world = a_world(tmp_path, 1, {"worker-1": "light"}, w1="ready")
    assert over(scaling.serving_kill(world, FAULT)) == "SIGKILL of worker-1 as it served"
    assert serving.wait(PATIENCE_S) == -signal.SIGKILL
