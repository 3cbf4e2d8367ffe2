from collections.abc import Generator, Iterator
from typing import cast

from replay.verify.chaos.doing import Faults
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, World

NOBODY = cast(World, None)


def a_fault(number: int = 0, at_ms: float = 0, kind: str = "slow", target: str = "") -> Fault:
    return Fault(number=number, at_ms=at_ms, kind=kind, target=target, lasts_ms=1000, dice=1)


def slow(_world: World, fault: Fault) -> Generator[float, None, str]:
    yield fault.lasts_ms / 1000
    return "done"


def absent(_world: World, _fault: Fault) -> Generator[float, None, str]:
    yield from cast(Iterator[float], ())
    raise NotThere("nobody was there")


def test_a_fault_begins_when_it_is_due_and_waits_as_long_as_it_says() -> None:
    faults = Faults([a_fault(at_ms=500)], {"slow": slow}, NOBODY)
    assert faults.tick(0, 499) == []
    assert not faults.begun
    faults.tick(0, 500)
    assert [faults.tick(0, 1499), faults.are_over] == [[], False]
    assert faults.tick(0, 1500) == ["fault 0: slow: done"]
    assert faults.are_over
    assert faults.begun[0].report(0)["ended_s"] == 1.5


def test_faults_overlap() -> None:
    faults = Faults([a_fault(0, 0), a_fault(1, 100)], {"slow": slow}, NOBODY)
    for now_ms in (0, 100, 1000):
        faults.tick(0, now_ms)
    assert [doing.ended_ms for doing in faults.begun] == [1000, None]


def test_a_fault_that_meets_nobody_says_so_and_is_over() -> None:
    faults = Faults([a_fault(kind="kill", target="ledger")], {"kill": absent}, NOBODY)
    assert faults.tick(0, 0) == ["fault 0: kill ledger: not done: nobody was there"]
    assert faults.are_over


def test_what_is_under_way_when_a_run_is_broken_off_is_undone() -> None:
    undone = []

    def freeze(_world: World, _fault: Fault) -> Generator[float, None, str]:
        try:
            yield 60.0
        finally:
            undone.append("SIGCONT")
        return ""

    faults = Faults([a_fault(kind="freeze")], {"freeze": freeze}, NOBODY)
    faults.tick(0, 0)
    faults.close()
    assert undone == ["SIGCONT"]
