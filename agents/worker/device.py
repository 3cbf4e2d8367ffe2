"""Samples the worker's device in a thread of its own, so that a driver that hangs holds up no heartbeat."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from schemas.messages import WorkerDevice
from streams import metrics
from streams.observing.cards import UUIDS, Cards, open_cards, place_of

log = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
CUDA: Final = "cuda"


class DeviceWatch:
    """The device of this worker, and the newest readings of its card; `report` never waits for the driver."""

    def __init__(self, device: str, open_cards: Callable[[], Cards | None] = open_cards) -> None:
        """`device`: the name that the worker's engine gets; "": the engine chooses."""
        self._device = device
        self._open_cards = open_cards
        self._newest: tuple[WorkerDevice, float] | None = None  # readings, and when: seconds of the monotonic clock
        self._has_failed = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)

    def start(self) -> "DeviceWatch":
        """Begin to sample, once a second."""
        self._thread.start()
        return self

    def use(self, device: str) -> None:
        """Note the device of an engine that has been loaded; "": the one that it chose, of which only CUDA is known."""
        torch = sys.modules.get("torch")
        self._device = device or (CUDA if torch is not None and torch.cuda.is_initialized() else "")

    def close(self) -> None:
        """Sample no more. Does not wait for the driver."""
        self._stopping.set()

    def report(self) -> WorkerDevice | None:
        """Return the device with its newest readings and their age; None while this process uses none that is known."""
        device = self._device
        if not device.startswith(CUDA):
            return WorkerDevice(device=device) if device else None
        if self._newest is None or self._newest[0].device != device:
            place = place_of(device)
            uuid = place if place.startswith(UUIDS) else ""
            return WorkerDevice(device=device, index=int(place) if place.isdecimal() else -1, uuid=uuid)
        readings, at_s = self._newest
        return replace(readings, age_ms=round(1000 * (time.monotonic() - at_s)))

    def _run(self) -> None:
        cards = self._open_cards()
        while cards is not None and not self._stopping.is_set():
            self._sample(cards)
            self._stopping.wait(PERIOD_S)

    def _sample(self, cards: Cards) -> None:
        device = self._device
        place = place_of(device) if device.startswith(CUDA) else ""
        if not place:
            return
        began_s = time.monotonic()
        try:
            readings = cards.read(device, place)
        except Exception as error:  # the driver's, of many kinds: the last readings grow old
            if not self._has_failed:
                log.warning("device %s cannot be read: %s", device, error)
            self._has_failed = True
            return
        self._newest, self._has_failed = (readings, began_s), False
        _show(readings)


def _show(readings: WorkerDevice) -> None:
    for state, count in (("used", readings.used_bytes), ("free", readings.free_bytes)):
        if count is not None:
            metrics.GPU_MEMORY_BYTES.labels(readings.uuid, state).set(count)
    if readings.temperature_c is not None:
        metrics.GPU_TEMPERATURE.labels(readings.uuid).set(readings.temperature_c)
    if readings.utilisation is not None:
        metrics.GPU_UTILISATION.labels(readings.uuid).set(readings.utilisation)
