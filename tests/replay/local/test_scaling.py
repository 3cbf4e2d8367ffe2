"""A supervisor of workers: as many as the plan asks for, none twice, none ended that serves, the dead started again."""

import pathlib
import signal
import subprocess
import sys

import pytest

from planner.observation.workers import WorkerView
from replay.local import owned_worker, scaling
from replay.local.owned_worker import RUNS_ALREADY
from replay.local.scaling import WorkerSupply
from schemas.messages import Plan, ScalePlan
from tests.builders import a_plan, a_worker


class StubChild:
    """A process that ends when it is told to."""

    def __init__(self) -> None:
        self.pid, self.status, self.signals = 1, None, list[str]()  # type: ignore[var-annotated]

    def poll(self) -> int | None:
        return self.status  # type: ignore[no-any-return]

    def wait(self, timeout: float | None = None) -> int:
        if self.status is None:
            raise subprocess.TimeoutExpired("stub", timeout or 0.0)
        return self.status

    def terminate(self) -> None:
        self.signals.append("TERM")

    def kill(self) -> None:
        self.signals.append("KILL")
        self.status = -signal.SIGKILL


class House:
    """A supervisor, its processes by worker, and what they tell."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.children: dict[str, list[StubChild]] = {}
        self.now_ms = 0.0
        self.supply = WorkerSupply(folder, "s", self._start, lambda: self.now_ms)
        self.live: dict[str, WorkerView] = {}

    def _start(self, name: str, _lock: pathlib.Path) -> StubChild:
        child = StubChild()
        self.children.setdefault(name, []).append(child)
        return child

    def step(self, plan: Plan | None) -> list[str]:
        self.now_ms += 100
        return self.supply.step(plan, self.live)

    def serve(self, **variants: str) -> None:
        self.live = {f"s-{name[1:]}": a_worker(f"s-{name[1:]}", variant) for name, variant in variants.items()}


def plan_of(workers: int, warm: int = 0, **allocation: str) -> Plan:
    placed = {f"s-{name[1:]}": variant for name, variant in allocation.items()}
    return a_plan(allocation=placed, scale=ScalePlan(targets={"heavy": workers}, warm=warm))


@pytest.fixture
def house(tmp_path: pathlib.Path) -> House:
    return House(tmp_path)


def test_workers_are_started_and_drained_as_the_plan_says(house: House) -> None:
    assert house.step(None) == []
    assert house.step(plan_of(2, warm=1)) == ["worker s-1 started", "worker s-2 started", "worker s-3 started"]
    assert house.step(plan_of(2, warm=1)) == []
    house.serve(s1="heavy", s2="heavy", s3="")
    assert house.step(plan_of(1, s1="heavy")) == ["worker s-3 is drained and ended: the plan wants fewer"]
    assert house.step(plan_of(1, s1="heavy")) == [], "s-2 serves, and what is ended already is not counted"
    house.children["s-3"][0].status = 0
    assert house.step(plan_of(1, s1="heavy")) == ["worker s-3 has ended"]
    house.serve(s1="heavy", s2="", s3="")
    assert house.step(plan_of(1, s1="heavy")) == ["worker s-2 is drained and ended: the plan wants fewer"]
    assert [children[0].signals for children in house.children.values()] == [[], ["TERM"], ["TERM"]]
    assert house.supply.counts == {"started": 3, "drained": 1}
    assert house.supply.state(plan_of(1)).words() == "1 workers wanted, 1 running, 1 draining"


def test_a_worker_that_dies_is_started_again_later_and_later_and_counted(house: House) -> None:
    plan, backoffs = plan_of(1), []
    house.step(plan)
    for _ in range(3):
        house.children["s-1"][-1].status = -signal.SIGKILL
        (note,) = house.step(plan)
        assert note.startswith("worker s-1 died, signal SIGKILL; started again in")
        begun_ms = house.now_ms
        while not (notes := house.step(plan)):
            assert house.now_ms < begun_ms + 60_000
        assert "started again after" in notes[0]
        backoffs.append(house.now_ms - begun_ms)
    assert backoffs == [500, 1000, 2000]
    assert house.supply.counts == {"started": 1, "died": 3, "restarted": 3}
    house.now_ms += scaling.CALM_MS
    house.step(plan)
    house.children["s-1"][-1].status = 1
    assert house.step(plan) == ["worker s-1 died, exit status 1; started again in 0.5 s"]
    assert house.step(plan_of(0)) == ["worker s-1 is not started again: the plan wants fewer"]


def test_a_dead_workers_last_heartbeat_is_nobody_elses_worker(house: House) -> None:
    house.step(plan_of(2))
    house.serve(s1="heavy", s2="")
    house.step(plan_of(1, s1="heavy"))
    house.children["s-2"][0].status = 0
    house.step(plan_of(1, s1="heavy"))
    assert house.step(plan_of(2, s1="heavy")) == ["worker s-3 started"], "s-2 still seems to live"


def test_a_worker_whose_file_another_process_holds_is_taken_over(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        monkeypatch.setattr(scaling, "holder", lambda file: other.pid if file == tmp_path / "s-1.lock" else None)
        house.step(plan_of(1))
        house.children["s-1"][0].status = RUNS_ALREADY
        assert house.step(plan_of(1)) == [f"worker s-1 runs already, as process {other.pid}: taken over"]
        assert house.step(plan_of(1)) == []
        house.supply.close(5)
        assert other.wait(5) == -signal.SIGTERM
    assert len(house.children["s-1"]) == 1


def test_a_new_supervisor_takes_over_what_runs_and_starts_none_twice(tmp_path: pathlib.Path) -> None:
    program = "import sys, pathlib, time; from replay.local.owned_worker import take; "
    program += "assert take(pathlib.Path(sys.argv[1])); print('locked', flush=True); time.sleep(60)"
    lock = tmp_path / "s-1.lock"
    (tmp_path / "s-2.lock").touch()  # of a worker that has ended
    (tmp_path / "t-1.lock").touch()
    with subprocess.Popen([sys.executable, "-c", program, str(lock)], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert owned_worker.take(lock) is False
        house = House(tmp_path)
        assert house.supply.find() == [f"worker s-1 runs already, as process {worker.pid}: taken over"]
        assert house.step(plan_of(2)) == ["worker s-2 started"]
        worker.kill()
        worker.wait()
        assert house.step(plan_of(2))[0].startswith("worker s-1 died")
        assert owned_worker.holder(lock) is None
