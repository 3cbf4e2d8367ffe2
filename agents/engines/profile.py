"""The `profile` engine: takes the time a profile says and draws a labelled card. For load tests and chaos."""

import colorsys
import textwrap
import time
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from agents.engines import EncodedPrompts, Generated, GenerationTask, ShouldStop
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions, resolved_ms
from schemas.ids import draw
from schemas.messages import CallTimes
from streams.store import marks
from streams.store.latents import Latent, LatentSpace

TICK_S = 0.02  # how often a sleeping job asks whether it is still wanted
LATENTS = LatentSpace("profile", channels=1, factor=8)  # small ones, so that their way can be tested without a model


class ProfileEngine:
    """Sleeps for the variant's measured time of the batch."""

    latent_space = LATENTS

    def __init__(self, variant: Variant) -> None:
        self._variant = variant

    def encode(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> EncodedPrompts | None:  # noqa: ARG002
        """Return None: the time of text encoding is a part of the variant's measured time, and nobody knows which."""
        return None

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool = False, encoded: EncodedPrompts | None = None,  # noqa: ARG002  there are none
    ) -> Generated | None:  # fmt: skip
        for task in tasks:
            if how.refine_from_step and isinstance(task.over, Latent):
                LATENTS.check(task.over, how.width, how.height)
        took_ms = resolved_ms(self._variant, how._replace(n=len(tasks)))
        end = time.monotonic() + took_ms / 1000
        while (left := end - time.monotonic()) > 0:
            if should_stop():
                return None
            time.sleep(min(left, TICK_S))
        latents = [_latent(task, how) if wants_latents else None for task in tasks]
        times = CallTimes(denoise_ms=took_ms)  # nobody knows which part of a profile is what
        return Generated([_card(task, self._variant, how) for task in tasks], latents, times)


def load(variant: Variant, threads: int) -> ProfileEngine:  # noqa: ARG001  every engine's loader takes both
    """Loading takes what the profile says."""
    time.sleep(variant.load_ms / 1000)
    return ProfileEngine(variant)


def _latent(task: GenerationTask, how: ResolvedOptions) -> Latent:
    values = np.full(LATENTS.shape(how.width, how.height), _hue(task), np.float16)
    marks.sign(values, task.request_id)
    return Latent(values=values, autoencoder=LATENTS.autoencoder)


def _hue(task: GenerationTask) -> float:
    return draw(task.request_id, "card")


def _card(task: GenerationTask, variant: Variant, how: ResolvedOptions) -> Image.Image:
    paper = tuple(int(255 * c) for c in colorsys.hsv_to_rgb(_hue(task), 0.25, 0.95))
    card = Image.new("RGB", (how.width, how.height), paper)
    begun = "a stored latent" if isinstance(task.over, Latent) else "its draft"
    parts = [f"with {', '.join(how.components.ids)}"] if how.components.ids else []
    over = [f"over {begun} from step {how.refine_from_step}"] if task.over else []
    text = "\n".join([f"{variant.name} · seed {task.seed}", *over, *parts, *textwrap.wrap(task.prompt[:120], 28)])
    ImageDraw.Draw(card).multiline_text((8, 8), text, fill=(40, 40, 40))
    if isinstance(task.over, Latent):
        marks.show(card, marks.signature(task.over.values))
    return card
