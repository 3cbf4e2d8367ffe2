"""A worker's device is broken for a while, as the engine chaos understands it."""

import pathlib
import types
from typing import Any

import pytest

from agents.engines import chaos
from replay.local.processes import role_process
from replay.verify.chaos import launching, schedule
from replay.verify.chaos.faults.devices import HOW, break_device
from replay.verify.chaos.schedule import Fault

RIGHT = role_process("worker-1", ["worker"], [], {})


class World:
    """A world of one worker."""

    def __init__(self, home: pathlib.Path) -> None:
        self.processes, self.settings = {"worker-1": RIGHT}, types.SimpleNamespace(home=home)
        self.ran = list[Any]()

    def child(self, name: str) -> None:
        assert name == "worker-1"

    def leave(self, _name: str, *_how: Any) -> Any:
        return iter(())

    def back(self, process: Any) -> None:
        self.ran.append(process)


def test_names_are_those_of_the_engine() -> None:
    assert launching.BROKEN == chaos.BROKEN
    assert (schedule.EXIT, schedule.HANG, schedule.KILLS_DEVICE) == (chaos.EXIT, chaos.HANG, chaos.DEVICE_DEAD)
    assert all(f"{kind}:N" in (pathlib.Path(chaos.__file__)).read_text() for kind in HOW)


@pytest.mark.parametrize("kind", HOW)
def test_a_worker_runs_with_a_broken_device_then_with_another_one_and_no_history(
    kind: str, tmp_path: pathlib.Path
) -> None:
    world: Any = World(tmp_path)
    history = tmp_path / "workers" / "worker-1.faults"
    history.parent.mkdir()
    history.touch()
    assert list(break_device(world, Fault(number=1, at_ms=0, kind=kind, target="worker-1", lasts_ms=5000, dice=7))) == [
        5.0
    ]
    broken, right = world.ran
    assert f"launching.break_engine('{kind}:" in broken.command[2]
    assert right is RIGHT
    assert not history.exists()
