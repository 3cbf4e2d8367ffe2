"""Distil the small UNet to one step: the student jumps from pure noise to where the teacher's five steps end."""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.models.training import networks, sampling
from agents.models.training.diffusion import LAST_TIME, Course, fit, noise, prompt_and_scene
from agents.models.training.loop import device

STEPS: Final = 500
_RATE: Final = 5e-4
_TEACHER_STEPS: Final = 5


def train(work: Path, models: Path, seed: int) -> None:  # noqa: ARG001 - it ships no folder
    """Distil `unet_S` into <work>/unet_S1: same size, one step, no guidance."""
    where = device()
    frozen = networks.load_frozen(work, where)
    teacher = UNet2DConditionModel.from_pretrained(work / "unet_S").to(where).eval().requires_grad_(False)
    student = UNet2DConditionModel.from_pretrained(work / "unet_S").to(where)
    student.set_attn_processor(networks.ExactAttention())
    empty = networks.embed(frozen, [""], where)
    course = Course(name="unet_S1", work=work, seed=seed, steps=STEPS, rate=_RATE, warm_up=30)

    def loss(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        states = networks.embed(frozen, [prompt_and_scene(rng)[0] for _ in range(course.batch)], where)
        start = noise(index, course.batch, seed)
        goal = sampling.sample(sampling.plain(teacher), start, states, empty, _TEACHER_STEPS)
        with torch.autocast(where.type, torch.bfloat16):
            jump = -student(start, LAST_TIME, states).sample  # at zero SNR, v is minus the clean latent
        error: torch.Tensor = jump.float() - goal
        return error.square().mean()

    loop = fit(course, student, loss)
    before, after = (
        sampling.quality(sampling.plain(unet), frozen, seed, steps=1, guidance=1.0) for unet in (teacher, student)
    )
    loop.note(teacher="unet_S", facts_before=before.facts, **after._asdict())
    loop.console.print(f"S1: facts in one step {before.facts:.3f} before, {after.facts:.3f} after")
    student.half().save_pretrained(work / "unet_S1")
