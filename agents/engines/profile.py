"""The `profile` engine: takes the time a profile says and draws a labelled card. For load tests and chaos."""

import colorsys
import textwrap
import time
from collections.abc import Sequence

from PIL import Image, ImageDraw

from agents.engines import GenerationTask, ShouldStop
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions, resolved_ms
from schemas.ids import draw

TICK_S = 0.02  # how often a sleeping job asks whether it is still wanted


class ProfileEngine:
    """Sleeps for the variant's measured time of the batch."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop
    ) -> list[Image.Image] | None:
        took_ms = resolved_ms(self._variant, how._replace(n=len(tasks)))
        end = time.monotonic() + took_ms / 1000
        while (left := end - time.monotonic()) > 0:
            if should_stop():
                return None
            time.sleep(min(left, TICK_S))
        return [_card(task, self._variant, how) for task in tasks]


def load(variant: Variant, threads: int) -> ProfileEngine:  # noqa: ARG001  every engine's loader takes both
    """Loading takes what the profile says."""
    time.sleep(variant.load_ms / 1000)
    return ProfileEngine(variant)


def _card(task: GenerationTask, variant: Variant, how: ResolvedOptions) -> Image.Image:
    hue = draw(task.request_id, "card")
    paper = tuple(int(255 * c) for c in colorsys.hsv_to_rgb(hue, 0.25, 0.95))
    card = Image.new("RGB", (how.width, how.height), paper)
    over = [f"over its draft from step {how.refine_from_step}"] if task.over else []
    text = "\n".join([f"{variant.name} · seed {task.seed}", *over, *textwrap.wrap(task.prompt[:120], 28)])
    ImageDraw.Draw(card).multiline_text((8, 8), text, fill=(40, 40, 40))
    return card
