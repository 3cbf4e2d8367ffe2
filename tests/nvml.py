"""A stand-in for NVIDIA's driver: an object with the functions of the module pynvml that are called here."""

import threading
from typing import Any


class NVMLError(Exception):
    """As pynvml raises it."""


class StandInNvml:
    """Cards H0, H1, ... with UUIDs GPU-0, GPU-1, ...; lost ones raise, and a gate may hold every call back."""

    NVMLError = NVMLError

    def __init__(self, cards: int = 2, *, lacks: tuple[str, ...] = (), gate: threading.Event | None = None) -> None:
        self.cards, self.lacks, self.gate = cards, lacks, gate
        self.lost, self.reads = set[int](), 0

    def nvmlInit(self) -> None:  # noqa: N802  as all of these
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.cards

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        self.reads += 1
        if self.gate is not None:
            self.gate.wait()
        if index in self.lost or index >= self.cards:
            raise NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        return self.nvmlDeviceGetHandleByIndex(int(uuid.removeprefix("GPU-")))

    def nvmlDeviceGetIndex(self, card: int) -> int:  # noqa: N802
        return card

    def nvmlDeviceGetUUID(self, card: int) -> str:  # noqa: N802
        return f"GPU-{card}"

    def nvmlDeviceGetName(self, card: int) -> str:  # noqa: N802
        return f"H{card}"

    def nvmlDeviceGetMemoryInfo(self, card: int) -> Any:  # noqa: N802
        return self._told("memory", used=10 + card, free=90 - card)

    def nvmlDeviceGetUtilizationRates(self, _card: int) -> Any:  # noqa: N802
        return self._told("utilisation", gpu=97, memory=50)

    def nvmlDeviceGetTemperature(self, card: int, sensor: int) -> Any:  # noqa: N802
        assert sensor == 0
        return self._told("temperature", of=60 + card).of

    def _told(self, what: str, **values: int) -> Any:
        if what in self.lacks:
            raise NVMLError("not supported")
        return type("Struct", (), values)()
