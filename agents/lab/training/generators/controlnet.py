"""A ControlNet for the base poster: outlines say where, and how large, the things of a prompt are generated."""

import re
from pathlib import Path
from typing import Final

import numpy as np
import torch
from diffusers.models.controlnets.controlnet import ControlNetModel
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.lab.training.generators.assemble import tidy
from agents.lab.training.generators.networks import architectures, sampling, scene_batches
from agents.lab.training.generators.networks.diffusion import (
    BASE,
    Course,
    Denoiser,
    Prompted,
    encoded,
    fit,
    prompt_and_scene,
    usual,
    v_loss,
)
from agents.lab.training.loop import device, scaled
from agents.lab.world import facts, renderer
from agents.lab.world.reading import read
from agents.lab.world.scene import Scene

STEPS: Final = 1000
_RATE: Final = 1e-3
_EMBEDDING: Final = (16, 32, 64)  # channels; the outlines lose half their side between two, so 48 px come to 12
_PLACELESS: Final = 0.6  # share of training prompts that do not say where things stand
_PLACES: Final = re.compile(
    r" (?:at the (?:top|bottom)|on the (?:left|right)|in the (?:top|bottom) (?:left|right) corner"
    r"|(?:top|bottom) (?:left|right))\b"
)
_RELATIONS: Final = re.compile(r" (?:above|below|over|under|left of|right of) ")


def without_places(caption: str) -> str:
    """The caption without what it says of places: "a red heart above a blue star" -> "a red heart, a blue star"."""
    return _RELATIONS.sub(", ", _PLACES.sub("", caption))


def build(unet: UNet2DConditionModel) -> ControlNetModel:
    """A ControlNet that begins as a copy of the UNet's first half and adds nothing yet."""
    return ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=_EMBEDDING)


def guided(unet: UNet2DConditionModel, net: ControlNetModel, outlines: torch.Tensor) -> Denoiser:
    """The UNet under the control of outlines, float [n, 3, 48, 48] in 0..1; with guidance they serve both halves."""

    def denoise(mixed: torch.Tensor, t: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        seen = outlines.repeat(len(mixed) // len(outlines), 1, 1, 1)
        down, middle = net(mixed, t, states, seen, return_dict=False)
        said: torch.Tensor = unet(
            mixed, t, states, down_block_additional_residuals=down, mid_block_additional_residual=middle
        ).sample
        return said

    return denoise


def outlines_of(scenes: tuple[Scene, ...]) -> torch.Tensor:
    """float [n, 3, 48, 48] in 0..1, as the pipeline prepares an image of silhouettes."""
    drawn = np.stack([renderer.silhouettes(scene) for scene in scenes])
    return (scene_batches.to_tensor(drawn) + 1).to(device()) / 2


def _prompted(rng: np.random.Generator) -> Prompted:
    prompt, scene = prompt_and_scene(rng, usual)
    return (without_places(prompt) if rng.random() < _PLACELESS else prompt), scene


def train(work: Path, models: Path, seed: int) -> None:
    """Train the ControlNet on the frozen `BASE` into <models>/controlnet."""
    torch.manual_seed(seed)
    where = device()
    frozen = architectures.load_frozen(work, where)
    unet = UNet2DConditionModel.from_pretrained(work / BASE).to(where).requires_grad_(False)
    net = build(unet).to(where)
    for network in (unet, net):
        network.set_attn_processor(architectures.ExactAttention())
    course = Course(name="controlnet", work=work, seed=seed, steps=STEPS, rate=_RATE, warm_up=50)

    def loss(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        batch = encoded(rng, frozen, [_prompted(rng) for _ in range(course.batch)])
        return v_loss(guided(unet, net, outlines_of(batch.scenes)), batch, index, seed)

    loop = fit(course, net, loss)
    blind, led = (placed(unet, net, frozen, seed, is_led=is_led) for is_led in (False, True))
    loop.note(base=BASE, placed_without=blind, placed_with=led)
    loop.console.print(f"controlnet: facts of shape and place {blind:.3f} without, {led:.3f} with it")
    net.half().save_pretrained(models / "controlnet")
    tidy(models / "controlnet")


def placed(
    unet: UNet2DConditionModel, net: ControlNetModel, frozen: architectures.Frozen, seed: int, *, is_led: bool
) -> float:
    """Share of facts of shape and place that hold, for fresh prompts that do not state the place their scene has."""
    rng = np.random.default_rng([seed, sampling.FRESH])
    held: list[bool] = []
    count = scaled(sampling.COUNT)
    for at in range(0, count, sampling.BATCH):
        scenes = tuple(_with_a_place(rng) for _ in range(min(sampling.BATCH, count - at)))
        denoise = guided(unet, net, outlines_of(scenes)) if is_led else sampling.plain(unet)
        generated = sampling.generate_images(
            denoise, frozen, [without_places(scene.caption) for scene in scenes], seed + at
        )
        for scene, image in zip(scenes, generated, strict=True):
            report = facts.compare(scene, read(image))
            held += [fact.holds for fact in report.facts if re.search(r" is an? | stands at ", fact.name)]
    return float(np.mean(held))


def _with_a_place(rng: np.random.Generator) -> Scene:
    while True:
        scene = scene_batches.sample_scenes(rng, 1)[0]
        if without_places(scene.caption) != scene.caption:
            return scene
