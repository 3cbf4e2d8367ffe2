"""The `chaos` engine: as `profile`, but some prompts end or block the process. For tests of failing jobs."""

import os
import threading
from collections.abc import Sequence

from agents.components.opening import Keeping
from agents.engines import Generated, GenerationTask, Previews, ShouldStop, profile
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions

EXIT, HANG, RAISE = "!exit", "!hang", "!raise"  # a prompt that begins so ends the process, never ends, or raises


class ChaosEngine(profile.ProfileEngine):
    """Generates as the engine `profile` does, unless a prompt begins with EXIT, HANG or RAISE."""

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool = False, previews: Previews | None = None,
    ) -> Generated | None:  # fmt: skip
        if any(task.prompt.startswith(EXIT) for task in tasks):
            os._exit(66)
        if any(task.prompt.startswith(HANG) for task in tasks):
            threading.Event().wait()
        if any(task.prompt.startswith(RAISE) for task in tasks):
            raise RuntimeError("the prompt asked for it")
        return super().generate(tasks, how, should_stop, wants_latents=wants_latents, previews=previews)


def load(variant: Variant, threads: int, keeping: Keeping | None = None) -> profile.ProfileEngine:
    """Load a variant, as the engine `profile` does."""
    return profile.load(variant, threads, keeping, ChaosEngine)
