"""Processes that keep torch busy end with who began them."""

import os
import pathlib
import threading

import pytest

from agents.components.opening import Keeping
from agents.lab.reuse_bench import busy
from tests.builders import a_variant

KEEPING = Keeping(home=pathlib.Path("home"))


class Generating:
    """Stands for an engine; after a few images it lets go of what holds the loop."""

    def __init__(self, ends: threading.Event) -> None:
        self.images, self._ends = 0, ends

    def __call__(self, *_of: object) -> None:
        self.images += 1
        if self.images == 3:
            self._ends.set()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    def opened(_variant: object, _threads: int, keeping: Keeping) -> None:
        assert keeping is KEEPING, "compiled code lies where the bench's worker has it"

    monkeypatch.setattr(busy, "opened", opened)
    return threading.Event()


def test_a_process_generates_until_it_is_told_to_end(ends: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    generating, begun = Generating(ends), threading.Event()
    monkeypatch.setattr(busy, "generate_images", generating)
    busy.generate_until(a_variant(), begun, ends, os.getppid(), KEEPING)  # type: ignore[arg-type]
    assert begun.is_set()
    assert generating.images == 3


def test_a_process_whose_parent_is_gone_ends_by_itself(ends: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    generating = Generating(ends)
    monkeypatch.setattr(busy, "generate_images", generating)
    busy.generate_until(a_variant(), threading.Event(), ends, parent=-1, keeping=KEEPING)  # type: ignore[arg-type]
    assert generating.images == 0


def test_one_process_at_least_keeps_torch_busy() -> None:
    assert busy.others() >= 1
