"""A supervisor of workers: as many as the plan asks for, none twice, none ended that serves, the dead started again."""

import os
import pathlib
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import click
import pytest

from planner.observation.workers import WorkerView
from replay.local import owned_worker, scale_command, scaling
from replay.local.owned_worker import RUNS_ALREADY
from replay.local.scaling import WorkerSupply
from schemas.errors import PochadeError
from schemas.messages import Plan, ScalePlan
from streams.commands.options import indices_of
from streams.observing.cards import Cards
from streams.settings import load
from tests.builders import a_plan, a_worker
from tests.nvml import StandInNvml


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

    def __init__(self, folder: pathlib.Path, *places: str) -> None:
        self.children: dict[str, list[StubChild]] = {}
        self.now_ms = 0.0
        self.supply = WorkerSupply(folder, "s", self._start, lambda: self.now_ms, places)
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
    assert house.supply.state(plan_of(1)).words() == "1 worker wanted, 1 running, 1 draining"


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


def test_each_place_has_one_worker_before_any_plan_and_a_dead_one_returns_to_its_own(tmp_path: pathlib.Path) -> None:
    house = House(tmp_path, "s-gpu0", "s-gpu3")
    assert house.step(None) == ["worker s-gpu0 started", "worker s-gpu3 started"]
    assert house.step(a_plan()) == [], "a plan that scales nothing changes nothing"
    assert house.supply.state(None).words() == "2 workers wanted, 2 running"
    house.children["s-gpu3"][0].status = 1
    house.step(None)
    house.now_ms += 500
    assert house.step(None) == ["worker s-gpu3 started again after 1 deaths in a row"]


def test_a_plan_that_scales_uses_as_many_places_as_it_asks_for_and_there_are(tmp_path: pathlib.Path) -> None:
    house = House(tmp_path, "s-gpu0", "s-gpu1")
    assert house.step(plan_of(1)) == ["worker s-gpu0 started"]
    assert house.step(plan_of(5)) == ["worker s-gpu1 started"]
    assert house.step(plan_of(5)) == []
    assert house.step(plan_of(0))[0] == "worker s-gpu1 is drained and ended: the plan wants fewer"


def test_a_place_whose_id_another_process_reports_stays_free_until_that_one_is_silent(tmp_path: pathlib.Path) -> None:
    house = House(tmp_path, "s-gpu0", "s-gpu1")
    house.live = {"s-gpu1": a_worker("s-gpu1")}
    assert house.step(None) == ["worker s-gpu0 started"]
    house.live = {}
    assert house.step(None) == ["worker s-gpu1 started"]


def test_a_worker_of_a_card_sees_that_card_alone_and_calls_it_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    orders: list[tuple[list[str], Any]] = []

    class Server:
        def __init__(self, *_given: Any) -> None:
            pass

        def spawn(self, arguments: list[str], _log: pathlib.Path, environment: Any, **_more: Any) -> None:
            orders.append((arguments, environment))

        def close(self) -> None:
            pass

    monkeypatch.setattr(scale_command, "LastingForkServer", Server)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with ExitStack() as stack:
        start = scale_command.Starter(load({"home": tmp_path}), stack, {"s-gpu5": 5})
        start("s-gpu5", tmp_path / "s-gpu5.lock")
        start("s-1", tmp_path / "s-1.lock")
    (pinned, environment), (free, inherited) = orders
    assert "worker.device=cuda:0" in pinned
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["CUDA_DEVICE_ORDER"]) == ("5", "PCI_BUS_ID")
    assert (environment["PATH"], inherited) == (os.environ["PATH"], None)
    assert not any("worker.device" in each for each in free)


@pytest.mark.parametrize(
    ("text", "indices"), [("", []), ("0-7", [*range(8)]), ("0,2,5", [0, 2, 5]), ("3,1-2, 3", [1, 2, 3])]
)
def test_cards_are_listed_by_number_and_range(text: str, indices: list[int]) -> None:
    assert indices_of(text) == indices


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1..3", "0-"])
def test_a_list_of_cards_that_is_none_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"such as 0-7 or 0,2,5"):
        indices_of(text)


def test_a_card_that_is_not_there_ends_the_command_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_command, "open_cards", lambda: Cards(StandInNvml(2)))
    with pytest.raises(PochadeError, match=r"got 2, there are 0 \(H0\), 1 \(H1\)"):
        scale_command.run(load({}), "s", [0, 2], is_kept=False)


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
