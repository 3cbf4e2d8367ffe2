"""The worker's device in its heartbeats: readings with their age, and no heartbeat that waits for a driver."""

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from agents.worker import device
from agents.worker.device import DeviceWatch
from schemas.messages import WorkerDevice
from streams import metrics
from streams.observing.cards import Cards
from tests.nvml import StandInNvml
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "PERIOD_S", 0.001)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")


@pytest.fixture
def watches() -> Iterator[list[DeviceWatch]]:
    opened: list[DeviceWatch] = []
    yield opened
    for each in opened:
        each.close()


def watch_of(nvml: StandInNvml | None, named: str, watches: list[DeviceWatch]) -> DeviceWatch:
    watches.append(DeviceWatch(named, lambda: Cards(nvml) if nvml is not None else None).start())
    return watches[-1]


def read_by(watch: DeviceWatch) -> WorkerDevice:
    """Its report, once it has readings."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        report = watch.report()
        if report is not None and report.model:
            return report
        time.sleep(0.001)
    raise AssertionError("no card was read")


def test_the_card_that_the_process_is_pinned_to_is_reported_with_the_machines_number(
    watches: list[DeviceWatch],
) -> None:
    read = read_by(watch_of(StandInNvml(2), "cuda:0", watches))
    assert (read.device, read.index, read.uuid, read.model) == ("cuda:0", 1, "GPU-1", "H1")
    assert (read.used_bytes, read.free_bytes, read.temperature_c, read.utilisation) == (11, 89, 61, 0.97)
    assert metrics.GPU_MEMORY_BYTES.labels("GPU-1", "used")._value.get() == 11
    assert metrics.GPU_TEMPERATURE.labels("GPU-1")._value.get() == 61


def test_without_a_driver_the_pin_is_reported_and_nothing_is_logged(
    watches: list[DeviceWatch], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        watch = watch_of(None, "cuda:0", watches)
        watch._thread.join(PATIENCE_S)
    assert not watch._thread.is_alive(), "there is nothing to sample"
    assert watch.report() == WorkerDevice(device="cuda:0", index=1)
    assert caplog.records == []


def test_a_driver_that_hangs_holds_up_no_report_and_its_readings_grow_old(watches: list[DeviceWatch]) -> None:
    gate, nvml = threading.Event(), StandInNvml(2)
    watch = watch_of(nvml, "cuda:0", watches)
    first = read_by(watch)
    nvml.gate, before = gate, nvml.reads
    try:
        deadline = time.monotonic() + PATIENCE_S
        while nvml.reads <= before or (report := watch.report()) is None or report.age_ms <= first.age_ms + 20:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        assert report.model == "H1"
    finally:
        gate.set()


def test_a_card_that_is_lost_is_logged_once_and_keeps_its_last_readings(
    watches: list[DeviceWatch], caplog: pytest.LogCaptureFixture
) -> None:
    nvml = StandInNvml(2)
    watch = watch_of(nvml, "cuda:0", watches)
    read_by(watch)
    nvml.lost.add(1)
    before, deadline = nvml.reads, time.monotonic() + PATIENCE_S
    while nvml.reads < before + 5:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert read_by(watch).temperature_c == 61
    assert [record.getMessage() for record in caplog.records] == ["device cuda:0 cannot be read: GPU is lost"]


def test_a_worker_that_uses_no_card_reports_its_processor_or_nothing(watches: list[DeviceWatch]) -> None:
    nvml = StandInNvml(2)
    assert watch_of(nvml, "cpu", watches).report() == WorkerDevice(device="cpu")
    watch = watch_of(nvml, "", watches)
    watch.use("")  # an engine without a device, or one that chose the processor
    assert watch.report() is None
    watch.use("cuda:0")
    assert read_by(watch).index == 1
