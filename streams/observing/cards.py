"""NVIDIA's cards of this machine, as its driver reports them by NVML: the numbers of nvidia-smi.

Not read: AMD's and Intel's cards, and Apple's.
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from schemas.errors import PochadeError
from schemas.messages import WorkerDevice

log = logging.getLogger(__name__)

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"  # by index or UUID: the cards of a process, in the order of its cuda:0, cuda:1
ORDER: Final = "CUDA_DEVICE_ORDER"
AS_NVML: Final = "PCI_BUS_ID"  # by which CUDA counts the cards as NVML does; by itself the fastest is the first
UUIDS: Final = ("GPU-", "MIG-")
CORE: Final = 0  # the sensor of temperature, NVML_TEMPERATURE_GPU


class Cards:
    """The cards of this machine. A call may take as long as the driver hangs."""

    def __init__(self, nvml: Any) -> None:
        """`nvml`: the module pynvml, after nvmlInit."""
        self._nvml = nvml

    def models(self) -> list[str]:
        """Return the model of each card, by index. Raises NVMLError."""
        count = self._nvml.nvmlDeviceGetCount()
        return [self._nvml.nvmlDeviceGetName(self._nvml.nvmlDeviceGetHandleByIndex(each)) for each in range(count)]

    def read(self, device: str, place: str) -> WorkerDevice:
        """Return the readings of a card. `device`: its name in the process; `place`: its index, or its UUID.

        What a card cannot tell (a part of one has no utilisation of its own) is None. Raises NVMLError where there is
        no such card, or the driver has lost it.
        """
        nvml = self._nvml
        by_uuid = place.startswith(UUIDS)
        card = nvml.nvmlDeviceGetHandleByUUID(place) if by_uuid else nvml.nvmlDeviceGetHandleByIndex(int(place))
        memory = self._known(lambda: nvml.nvmlDeviceGetMemoryInfo(card))
        rates = self._known(lambda: nvml.nvmlDeviceGetUtilizationRates(card))
        index = self._known(lambda: nvml.nvmlDeviceGetIndex(card))
        return WorkerDevice(
            device=device, index=-1 if index is None else int(index), uuid=nvml.nvmlDeviceGetUUID(card),
            model=nvml.nvmlDeviceGetName(card), used_bytes=memory and int(memory.used),
            free_bytes=memory and int(memory.free), utilisation=rates and rates.gpu / 100,
            temperature_c=self._known(lambda: int(nvml.nvmlDeviceGetTemperature(card, CORE))),
        )  # fmt: skip

    def _known(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._nvml.NVMLError:
            return None


def open_cards() -> Cards | None:
    """Return the cards of this machine; None without pynvml, NVIDIA's driver or a card that answers."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.debug("no card is read: %s", error)
        return None
    return Cards(pynvml)


def place_of(device: str, visible: str | None = None) -> str:
    """Return the index or UUID on the machine of a device that this process names cuda or cuda:N; "": none it may use.

    `visible`: CUDA_VISIBLE_DEVICES; None: as it is in the environment.
    """
    ordinal = int(device.partition(":")[2] or 0)
    seen = os.environ.get(VISIBLE) if visible is None else visible
    if seen is None:
        return str(ordinal)
    places = [each.strip() for each in seen.split(",")]
    place = places[ordinal] if ordinal < len(places) else ""
    return place if place.isdecimal() or place.startswith(UUIDS) else ""


def check_there(indices: Sequence[int], cards: Cards | None) -> None:
    """Raise PochadeError for a card that this machine lacks, where NVML says what it has."""
    if cards is None:
        return
    models = cards.models()
    missing = sorted(each for each in indices if each >= len(models))
    if missing:
        there = ", ".join(f"{index} ({model})" for index, model in enumerate(models)) or "none"
        raise PochadeError(f"--devices must name cards of this machine: got {missing[0]}, there are {there}")
