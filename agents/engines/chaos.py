"""The `chaos` engine: as `profile`, but some prompts, and a variable of the environment, break it. For tests."""

import os
import threading
from collections.abc import Sequence
from typing import Final

from PIL import Image

from agents.components.opening import Keeping
from agents.engines import Generated, GenerationTask, Previews, ShouldStop, profile
from agents.engines.finite import check_made
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions

EXIT, HANG, RAISE = "!exit", "!hang", "!raise"  # a prompt that begins so ends the process, never ends, or raises
DEVICE_DEAD = "!device-dead"  # every call of the process fails from this one on, as after an illegal access of CUDA
OUT_OF_MEMORY, NAN = "!out-of-memory", "!nan"  # the call has too little memory; its images are black
BROKEN: Final = "CHAOS_ENGINE"
"""Environment variable of a broken worker: KIND:N.

    device-dead:N    its device is lost after N calls of the process
    driver-hangs:N   call N + 1 never ends
    nan:N            images are black after N calls
    out-of-memory:N  N images of the variant's own size fit
"""


class _Device:
    """The device of this process."""

    def __init__(self) -> None:
        self.calls, self.is_dead = 0, False
        self.kind, _, number = os.environ.get(BROKEN, "").partition(":")
        self.number = int(number or 0)

    def is_broken(self, kind: str) -> bool:
        """Whether it is broken so by now."""
        return self.kind == kind and self.calls > self.number


device = _Device()


class ChaosEngine(profile.ProfileEngine):
    """Generates as the engine `profile` does, unless a prompt begins with one of these words, or BROKEN is set."""

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool = False, previews: Previews | None = None,
    ) -> Generated | None:  # fmt: skip
        device.calls += 1
        asked = {task.prompt.partition(" ")[0] for task in tasks}
        if EXIT in asked:
            os._exit(66)
        if HANG in asked or device.is_broken("driver-hangs"):
            threading.Event().wait()
        if RAISE in asked:
            raise RuntimeError("the prompt asked for it")
        device.is_dead |= DEVICE_DEAD in asked or device.is_broken("device-dead")
        if device.is_dead:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if OUT_OF_MEMORY in asked or self._is_too_large(len(tasks) * how.width * how.height):
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        made = super().generate(tasks, how, should_stop, wants_latents=wants_latents, previews=previews)
        if NAN in asked or device.is_broken("nan"):
            check_made([Image.new("RGB", (how.width, how.height))])
        return made

    def _is_too_large(self, pixels: int) -> bool:
        own = self._variant.width * self._variant.height
        return device.kind == "out-of-memory" and pixels > device.number * own


def load(variant: Variant, threads: int, keeping: Keeping | None = None) -> profile.ProfileEngine:
    """Load a variant, as the engine `profile` does."""
    return profile.load(variant, threads, keeping, ChaosEngine)
