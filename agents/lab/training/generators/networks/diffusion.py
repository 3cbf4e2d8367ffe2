"""What every diffusion training here shares: batches of prompts and latents, the v-prediction loss, the descent."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import torch
from diffusers.training_utils import EMAModel

from agents.lab.training.generators.networks import architectures, scene_batches
from agents.lab.training.loop import Loop, descend, device, mixed_precision, rate, set_rate
from agents.lab.world import free_form, renderer
from agents.lab.world.scene import Scene
from agents.lab.world.styles import POSTER, Style

Prompted: TypeAlias = tuple[str, Scene]  # what is asked for, and the scene whose image answers it
Draw: TypeAlias = Callable[[np.random.Generator], Scene]
# (mixed latents [n, 8, 12, 12], times int64 [n] or [], token states [n, 48, 128]) -> predicted v [n, 8, 12, 12]
Denoiser: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

BASE: Final = "unet_XS"  # in the work folder: what other styles, adapters and the ControlNet start from
LAST_TIME: Final = 999  # pure noise
_LEAN: Final = 1.4  # how much the drawn times lean to high noise, where few-step sampling is decided


class Batch(NamedTuple):
    """A batch to learn from."""

    latents: torch.Tensor  # float [n, 8, 12, 12], of the scenes' images
    states: torch.Tensor  # float [n, 48, 128], token states of the prompts
    scenes: tuple[Scene, ...]


def prompt_and_scene(rng: np.random.Generator, draw: Draw) -> Prompted:
    """Mostly a caption and its scene; some amid junk, some free-form, some with no prompt (for guidance)."""
    scene = draw(rng)
    kind = rng.random()
    if kind < 0.10:
        return "", scene
    if kind < 0.13:
        return free_form.sentence(rng), scene
    if kind < 0.20:
        prompt, hinted, _ = free_form.hinted(rng)
        return prompt, hinted
    return (free_form.mixed(rng, scene.caption) if kind < 0.28 else scene.caption), scene


def encoded(
    rng: np.random.Generator, frozen: architectures.Frozen, prompted: Sequence[Prompted], style: Style = POSTER
) -> Batch:
    """Prompts with the latents of fresh images of their scenes, drawn in a style."""
    prompts, drawn = zip(*prompted, strict=True)
    rendered = np.stack([renderer.render(scene, rng, style) for scene in drawn])
    where = device()
    with torch.no_grad(), mixed_precision():
        latents = frozen.vae.encode(scene_batches.to_tensor(rendered).to(where)).latents
        states = architectures.embed(frozen, list(prompts), where)
    return Batch(latents.float(), states.float(), drawn)


def usual(rng: np.random.Generator) -> Scene:
    """A scene with the words of the easy stream and more things than it has."""
    return scene_batches.sample_scenes(rng, 1)[0]


def batch_of(
    index: int, course: "Course", frozen: architectures.Frozen, style: Style = POSTER, draw: Draw = usual
) -> Batch:
    """The batch of training step `index`, of scenes by `draw`: a function of (seed, index) alone."""
    rng = np.random.default_rng([course.seed, index])
    return encoded(rng, frozen, [prompt_and_scene(rng, draw) for _ in range(course.batch)], style)


def times(index: int, batch: int, seed: int) -> torch.Tensor:
    """int64 [n] in 0..999, stratified, leaning to high noise."""
    drawn = np.random.default_rng([seed, index, 7])
    u = (np.arange(batch) + drawn.random(batch)) / batch
    return torch.from_numpy((1000 * (1 - u**_LEAN)).astype(np.int64).clip(0, LAST_TIME))


def noise(index: int, batch: int, seed: int) -> torch.Tensor:
    """float [n, 8, 12, 12], standard normal: the noise of training step `index`."""
    where = device()
    generator = torch.Generator(where).manual_seed(seed * 1_000_003 + index)
    return torch.randn((batch, *architectures.LATENT), generator=generator, device=where)


@cache
def _signal() -> torch.Tensor:
    """float [1000]: share of the variance that is still signal at each time."""
    return torch.as_tensor(architectures.build_scheduler().alphas_cumprod).to(device())


def v_loss(denoise: Denoiser, batch: Batch, index: int, seed: int, at: int | None = None) -> torch.Tensor:
    """Mean squared error of v = a * noise - b * clean, predicted from a * clean + b * noise.

    Times are drawn, unless all are `at` one.

    Source: Salimans & Ho, Progressive distillation, 2022, 4 (v-prediction).
    """
    clean, count = batch.latents, len(batch.latents)
    t = (times(index, count, seed) if at is None else torch.full((count,), at)).to(clean.device)
    added = noise(index, count, seed)
    a = _signal()[t].sqrt()[:, None, None, None]
    b = (1 - _signal()[t]).sqrt()[:, None, None, None]
    with mixed_precision():
        said = denoise(a * clean + b * added, t, batch.states)
    return (said.float() - (a * added - b * clean)).square().mean()


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The steps and rates of a training."""

    name: str  # of the checkpoint and of the JSON of what was measured
    work: Path
    seed: int
    steps: int  # batches
    rate: float
    batch: int = 64
    warm_up: int = 150  # steps


def fit(course: Course, learned: torch.nn.Module, loss: Callable[[int], torch.Tensor]) -> Loop:
    """Descend `loss(index)` and leave the averaged parameters in `learned`; goes on from a checkpoint if there is one.

    `loss` must draw its data from (seed, index) alone. Returns the loop, for noting what is measured afterwards.
    """
    average = EMAModel(learned.parameters(), decay=0.998, foreach=True)
    optimizer = torch.optim.AdamW(
        learned.parameters(), lr=course.rate, weight_decay=0.01, betas=(0.9, 0.98), fused=True
    )
    loop = Loop(
        name=course.name,
        folder=course.work,
        steps=course.steps,
        batch=course.batch,
        parts={"unet": learned, "average": average, "optimizer": optimizer},
    )

    def step(index: int) -> torch.Tensor:
        set_rate(optimizer, course.rate, rate(index, course.steps, warm_up=course.warm_up))
        value = descend(loss(index), optimizer, learned.parameters())
        average.step(learned.parameters())
        return value

    loop.run(step)
    average.copy_to(learned.parameters())
    loop.note(seed=course.seed, parameters=loop.size(learned))
    return loop


def only(parameters: Iterable[torch.nn.Parameter]) -> torch.nn.ParameterList:
    """The parameters that require gradients, as one module: what is trained where the rest is frozen."""
    return torch.nn.ParameterList([p for p in parameters if p.requires_grad])
