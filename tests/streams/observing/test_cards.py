"""NVIDIA's cards of a machine: which one a process means, and what it reads of it."""

import sys

import pytest

from schemas.errors import PochadeError
from schemas.messages import WorkerDevice
from streams.observing.cards import Cards, check_there, open_cards, place_of
from tests.nvml import NVMLError, StandInNvml


@pytest.mark.parametrize(
    ("device", "visible", "place"),
    [
        ("cuda", None, "0"),
        ("cuda:2", None, "2"),
        ("cuda:0", "5", "5"),
        ("cuda:1", "4, 7", "7"),
        ("cuda:0", "GPU-8f6a,GPU-11", "GPU-8f6a"),
        ("cuda:0", "MIG-1a", "MIG-1a"),
        ("cuda:2", "4,7", ""),
        ("cuda:0", "", ""),
        ("cuda:0", "-1", ""),
    ],
)
def test_a_process_means_the_card_that_its_environment_lets_it_see(
    device: str, visible: str | None, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert place_of(device) == place


def test_a_card_is_read_by_index_and_by_uuid() -> None:
    cards = Cards(StandInNvml(8))
    read = WorkerDevice(
        device="cuda:0", index=3, uuid="GPU-3", model="H3", used_bytes=13, free_bytes=87, temperature_c=63,
        utilisation=0.97,
    )  # fmt: skip
    assert cards.read("cuda:0", "3") == cards.read("cuda:0", "GPU-3") == read


def test_what_a_card_cannot_tell_stays_open_and_a_lost_card_raises() -> None:
    nvml = StandInNvml(lacks=("utilisation", "temperature", "memory"))
    read = Cards(nvml).read("cuda:0", "1")
    assert read == WorkerDevice(device="cuda:0", index=1, uuid="GPU-1", model="H1")
    nvml.lost.add(1)
    with pytest.raises(NVMLError):
        Cards(nvml).read("cuda:0", "1")


def test_without_the_package_or_the_driver_there_are_no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoDriver(StandInNvml):
        def nvmlInit(self) -> None:  # noqa: N802
            raise NVMLError("Driver Not Loaded")

    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    assert open_cards() is None
    monkeypatch.setitem(sys.modules, "pynvml", NoDriver())  # type: ignore[arg-type]
    assert open_cards() is None
    monkeypatch.setitem(sys.modules, "pynvml", StandInNvml())  # type: ignore[arg-type]
    assert open_cards() is not None


def test_a_card_that_the_machine_lacks_is_refused_where_the_driver_says_so() -> None:
    check_there([0, 1], Cards(StandInNvml(2)))
    check_there([9], None)
    with pytest.raises(PochadeError, match=r"got 5, there are 0 \(H0\), 1 \(H1\)"):
        check_there([0, 5, 6], Cards(StandInNvml(2)))
