"""Distil the small UNet to one step: the student jumps from pure noise to where the teacher's five steps end."""

from pathlib import Path

import click
import numpy as np
import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.models.training import networks
from agents.models.training.loop import Averaged, Loop, device, rate, set_rate
from agents.models.training.unet import prompt_and_scene

_RATE = 5e-4
_LAST_TIME = 999


@torch.no_grad()
def teach(
    teacher: UNet2DConditionModel, noise: torch.Tensor, states: torch.Tensor, empty: torch.Tensor, steps: int
) -> torch.Tensor:
    """Latents [n, 8, 8, 8] the teacher reaches from `noise` in `steps` DDIM steps with guidance 2."""
    scheduler = networks.build_scheduler()
    scheduler.set_timesteps(steps)
    both = torch.cat([empty.expand_as(states), states])
    sample = noise
    for t in scheduler.timesteps:
        with torch.autocast(noise.device.type, torch.bfloat16):
            blind, seeing = teacher(torch.cat([sample, sample]), t, both).sample.float().chunk(2)
        sample = scheduler.step(blind + 2 * (seeing - blind), t, sample).prev_sample
    return sample


@click.command(epilog="Example: python -m agents.models.training.distil --steps 500 --work build/models")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/models"), show_default=True)
@click.option("--steps", default=500, show_default=True, help="Batches to train on.")
@click.option("--batch", default=64, show_default=True)
@click.option("--seed", default=5, show_default=True)
def main(work: Path, steps: int, batch: int, seed: int) -> None:
    """Distil UNet S into S1, same size, one step, no guidance; goes on from its checkpoint if there is one."""
    torch.manual_seed(seed)
    where = device()
    frozen = networks.load_frozen(work, where)
    teacher = UNet2DConditionModel.from_pretrained(work / "unet_S").to(where).eval().requires_grad_(False)
    student = UNet2DConditionModel.from_pretrained(work / "unet_S").to(where)
    student.set_attn_processor(networks.ExactAttention())
    average = Averaged(student)
    optimizer = torch.optim.AdamW(student.parameters(), lr=_RATE, weight_decay=0.01)
    empty = networks.embed(frozen, [""], where)
    loop = Loop(
        name="unet_S1",
        folder=work,
        steps=steps,
        batch=batch,
        parts={"student": student, "average": average, "optimizer": optimizer},
    )

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        states = networks.embed(frozen, [prompt_and_scene(rng)[0] for _ in range(batch)], where)
        generator = torch.Generator(where).manual_seed(seed * 1_000_003 + index)
        noise = torch.randn((batch, *networks.LATENT), generator=generator, device=where)
        goal = teach(teacher, noise, states, empty, steps=5)
        set_rate(optimizer, _RATE, rate(index, steps, warm_up=30))
        with torch.autocast(where.type, torch.bfloat16):
            jump = -student(noise, _LAST_TIME, states).sample  # at zero SNR, v is minus the clean latent
        loss: torch.Tensor = (jump.float() - goal).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        average.update(index)
        return loss

    loop.run(step)
    average.copy_to(student)
    loop.note(seed=seed, parameters=loop.size(student))
    student.half().save_pretrained(work / "unet_S1")


if __name__ == "__main__":
    main()
