"""The `profile` engine: takes the time a profile says and draws a labelled card. For load tests and chaos."""

import colorsys
import textwrap
import time
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from agents.components.opening import Keeping
from agents.components.profiled import open_profiled
from agents.components.weight_files import ComponentFailed
from agents.engines import EngineFailed, Generated, GenerationTask, Previews, ShouldStop, preview_steps
from planner.catalog.components import NOTHING
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions, resolved_ms
from planner.components.component import Kind, Tier, component_id
from planner.components.from_catalog import requested
from schemas.ids import draw
from schemas.messages import CallTimes
from streams.store import marks
from streams.store.latents import Latent, LatentSpace

TICK_S = 0.02  # how often a sleeping job asks whether it is still wanted
FONT = ImageFont.load_default_imagefont()  # Pillow's other takes 2 ms, which the profile's time has no room for
LATENTS = LatentSpace("profile", channels=1, factor=8)  # small ones, so that their way can be tested without a model


class ProfileEngine:
    """Sleeps for the variant's measured time of the batch."""

    latent_space = LATENTS
    shows_previews = True

    def __init__(self, variant: Variant, keeping: Keeping | None = None) -> None:
        self._variant = variant
        self.store = open_profiled(variant, keeping or Keeping())
        if self.store is not None:
            self.store.load_ahead(component_id(Kind.BASE, variant.bases[0]), Tier.DEVICE)

    def close(self) -> None:
        """Let go of its components."""
        if self.store is not None:
            self.store.close()

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool = False, previews: Previews | None = None,
    ) -> Generated | None:  # fmt: skip
        for task in tasks:
            if how.refine_from_step and isinstance(task.over, Latent):
                LATENTS.check(task.over, how.width, how.height)
        took_ms, load_ms = resolved_ms(self._variant, how._replace(n=len(tasks))), 0.0
        if self.store is not None and how.components != NOTHING:
            began = time.monotonic()
            try:
                self.store.bring(requested(how.components).ids)
            except ComponentFailed as error:
                raise EngineFailed(str(error)) from error
            load_ms = 1000 * (time.monotonic() - began)
        steps = how.steps - how.refine_from_step
        end, seen = time.monotonic() + took_ms / 1000, 0
        while (left := end - time.monotonic()) > 0:
            if should_stop():
                return None
            if previews is not None:
                before, seen = seen, int(steps * (1 - 1000 * left / took_ms))
                self._show(tasks, how, previews, range(before + 1, seen + 1))
            time.sleep(min(left, TICK_S))
        if previews is not None:  # of steps that were done in a sleep that took longer than asked for
            self._show(tasks, how, previews, range(seen + 1, steps + 1))
        latents = [_latent(task, how) if wants_latents else None for task in tasks]
        times = CallTimes(load_ms=load_ms, denoise_ms=took_ms)  # a profile does not divide its time
        return Generated([_card(task, self._variant, how) for task in tasks], latents, times)

    def _show(self, tasks: Sequence[GenerationTask], how: ResolvedOptions, previews: Previews, done: range) -> None:
        """Show the cards of the tasks that are to be seen after one of the steps that are done since."""
        steps = how.steps - how.refine_from_step
        for task, wanted in previews.wanted.items():
            for step in sorted(preview_steps(wanted, steps).intersection(done)):
                previews.show(task, step, steps, _card(tasks[task], self._variant, how))


def load(
    variant: Variant,
    threads: int,  # noqa: ARG001  as every engine's
    keeping: Keeping | None = None,
    kind: type[ProfileEngine] = ProfileEngine,
) -> ProfileEngine:
    """Loading takes what the profile says: of the variant, or of its default base where that is known."""
    began = time.monotonic()
    engine = kind(variant, keeping)
    time.sleep(max(0.0, variant.load_ms / 1000 - (time.monotonic() - began)))
    return engine


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
    drawn = text.encode("latin-1", errors="replace")  # that the font has
    ImageDraw.Draw(card).multiline_text((8, 8), drawn, fill=(40, 40, 40), font=FONT)
    if isinstance(task.over, Latent):
        marks.show(card, marks.signature(task.over.values))
    return card
