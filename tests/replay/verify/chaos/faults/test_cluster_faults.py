"""Faults of one broker of three, on a cluster that only notes what is done to it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replay.verify.chaos.faults import cluster
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, Steps, World
from streams.settings import load


class Noted:
    """Three brokers, of which 2 leads every partition and has the active controller."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.nodes = [1, 2, 3]
        self.dead: set[int] = set()
        self.out_of_sync = 0  # answers that some copy lags
        self.moved = 0

    @property
    def serving(self) -> list[int]:
        return [node for node in self.nodes if node not in self.dead]

    def leaders(self) -> dict[tuple[str, int], int]:
        return {("outcomes.v1", 0): 2 if 2 in self.serving else -1}

    def controller(self) -> int:
        return 2 if 2 in self.serving else 3

    def is_alive(self, node: int) -> bool:
        return node not in self.dead

    def is_in_sync(self) -> bool:
        self.out_of_sync -= 1
        return self.out_of_sync < 0

    def can_lose(self, node: int) -> bool:
        return node in self.serving and self.is_in_sync()

    def elect_preferred(self) -> int:
        return self.moved

    def kill(self, node: int) -> None:
        self.done.append(("kill", node))
        self.dead.add(node)

    def stop(self, node: int) -> None:
        self.done.append(("stop", node))
        self.dead.add(node)

    def start(self, node: int) -> None:
        self.done.append(("start", node))
        self.dead.discard(node)

    def lose(self, node: int) -> None:
        self.done.append(("lose", node))
        self.nodes.remove(node)

    def freeze(self, node: int) -> None:
        self.done.append(("freeze", node))

    def thaw(self, node: int) -> None:
        self.done.append(("thaw", node))


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
def world(noted: Noted) -> World:
    hosted: Any = SimpleNamespace(settings=load({}), processes=[])
    return World(hosted, cast(Any, None), cast(Any, None), cast(Any, noted))


def done(steps: Steps) -> str:
    """What a fault says in the end, its waits left out."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            return str(over.value)


def fault(lasts_ms: float = 10) -> Fault:
    return Fault(number=0, at_ms=0, kind="any", target="", lasts_ms=lasts_ms, dice=1)


@pytest.mark.parametrize(
    ("do", "how"), [(cluster.kill, "kill"), (cluster.restart, "stop"), (cluster.controller, "kill")]
)
def test_a_broker_that_leads_ends_and_is_started_again(
    noted: Noted, world: World, do: Callable[[World, Fault], Steps], how: str
) -> None:
    assert "broker 2" in done(do(world, fault()))
    assert noted.done == [(how, 2), ("start", 2)]


def test_a_broker_freezes_and_goes_on_even_where_the_run_ends_meanwhile(noted: Noted, world: World) -> None:
    steps = cluster.freeze(world, fault(4000))
    while next(steps) != 4.0:
        pass
    assert noted.done == [("freeze", 2)]
    steps.close()
    assert noted.done == [("freeze", 2), ("thaw", 2)]


def test_a_broker_is_lost_for_good_when_the_others_hold_what_it_holds(noted: Noted, world: World) -> None:
    noted.out_of_sync = 2
    assert "lost for good" in done(cluster.lose(world, fault()))
    assert noted.done == [("lose", 2)]
    assert noted.out_of_sync < 0


def test_a_broker_with_the_last_copy_of_a_record_is_not_lost_however_long_it_takes(
    noted: Noted, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "LOSABLE_S", 0.0)
    noted.out_of_sync = 1_000_000
    with pytest.raises(NotThere, match="did not hold everything"):
        done(cluster.lose(world, fault()))
    assert noted.done == []


def test_brokers_restart_one_after_the_other_and_those_that_are_down_are_left_alone(noted: Noted, world: World) -> None:
    noted.dead.add(1)
    assert done(cluster.rolling(world, fault())).startswith("brokers 2, 3 one after the other")
    assert noted.done == [("stop", 2), ("start", 2), ("stop", 3), ("start", 3)]


def test_a_broker_that_was_lost_meanwhile_is_not_started_again(noted: Noted, world: World) -> None:
    steps = cluster.kill(world, fault())
    while not noted.done:
        next(steps)
    noted.lose(2)
    done(steps)
    assert ("start", 2) not in noted.done


def test_an_election_that_moves_nothing_met_nothing(noted: Noted, world: World) -> None:
    with pytest.raises(NotThere):
        done(cluster.leaders(world, fault()))
    noted.moved = 7
    assert done(cluster.leaders(world, fault())) == "7 leaders moved by an election"


def test_no_broker_that_leads_is_no_fault(noted: Noted, world: World) -> None:
    noted.dead |= {1, 2, 3}
    with pytest.raises(NotThere):
        done(cluster.kill(world, fault()))
