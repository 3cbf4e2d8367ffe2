"""The training loop against a plain one: the same losses and averages, whatever breaks it off in between."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.lab.training import loop
from agents.lab.training.generators.networks import architectures, sampling
from agents.lab.training.generators.networks.diffusion import Batch, Course, fit, v_loss

STEPS: Final = 20
BROKEN_AT: Final = 10
SEED: Final = 3
DECAY: Final = 0.998

Losses = dict[int, float]  # by step


class Killed(Exception):
    """Stands for the end of the process."""


def a_unet(seed: int) -> UNet2DConditionModel:
    torch.manual_seed(seed)
    unet = architectures.build_unet("XS").to(memory_format=torch.channels_last)
    unet.set_attn_processor(architectures.ExactAttention())
    return unet


def a_loss(unet: UNet2DConditionModel, index: int) -> torch.Tensor:
    """Of a batch drawn from (seed, index), blurred by noise that nobody has seeded for this step."""
    drawn = torch.Generator().manual_seed(SEED * 1000 + index)
    latents, states = torch.randn(2, *architectures.LATENT, generator=drawn), torch.randn(2, 48, 128, generator=drawn)
    return v_loss(sampling.plain(unet), Batch(latents + 0.1 * torch.randn_like(latents), states, ()), index, SEED)


def a_course(work: Path) -> Course:
    return Course(name="it", work=work, seed=SEED, steps=STEPS, rate=1e-3, warm_up=5)


def run(work: Path, *, seed: int = SEED, killed_at: int = STEPS) -> tuple[Losses, UNet2DConditionModel]:
    """Losses of the steps that ran, and the averaged network; `seed` is that of its random start."""
    unet, losses = a_unet(seed), Losses()

    def loss(index: int) -> torch.Tensor:
        if index == killed_at:
            raise Killed
        value = a_loss(unet, index)
        losses[index] = value.item()
        return value

    with contextlib.suppress(Killed):
        fit(a_course(work), unet, loss)
    return losses, unet


def plainly() -> tuple[Losses, list[torch.Tensor]]:
    """Losses and averaged parameters of a loop of a dozen lines."""
    unet, losses, course = a_unet(SEED), Losses(), a_course(Path())
    mean = [p.detach().clone() for p in unet.parameters()]
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1.0, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    for index in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = course.rate * loop.rate(index, STEPS, warm_up=course.warm_up)
        value = a_loss(unet, index)
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        losses[index] = value.item()
        decay = min(DECAY, (1 + index) / (10 + index)) if index else 0.0
        mean = [decay * m + (1 - decay) * p.detach() for m, p in zip(mean, unet.parameters(), strict=True)]
    return losses, mean


@pytest.fixture(scope="module")
def expected() -> tuple[Losses, list[torch.Tensor]]:
    return plainly()


@pytest.fixture
def saving_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_SAVE_EVERY_S", 0.0)


def assert_averaged(unet: UNet2DConditionModel, mean: list[torch.Tensor]) -> None:
    for mine, theirs in zip(unet.parameters(), mean, strict=True):
        torch.testing.assert_close(mine.detach(), theirs, rtol=1e-4, atol=1e-6)


def test_it_trains_as_a_plain_loop_does(tmp_path: Path, expected: tuple[Losses, list[torch.Tensor]]) -> None:
    losses, unet = run(tmp_path)
    assert losses == expected[0]
    assert_averaged(unet, expected[1])


@pytest.mark.usefixtures("saving_always")
def test_broken_off_and_resumed_it_trains_as_a_plain_loop_does(
    tmp_path: Path, expected: tuple[Losses, list[torch.Tensor]]
) -> None:
    before, _ = run(tmp_path, killed_at=BROKEN_AT)
    after, unet = run(tmp_path, seed=99)
    assert (min(after), before | after) == (BROKEN_AT, expected[0])
    assert_averaged(unet, expected[1])


def dying(function: Callable[..., Any], calls: int) -> Callable[..., Any]:
    """The function on a folder, whose last call spoils the folder and then is killed."""
    left = iter(range(calls - 1))

    def called(folder: str | Path, *arguments: Any) -> Any:
        if next(left, None) is not None:
            return function(folder, *arguments)
        for path in list(Path(folder).iterdir())[::2]:
            path.unlink()
        (Path(folder) / "half").write_text("of it")
        raise Killed

    return called


@pytest.mark.usefixtures("saving_always")
@pytest.mark.parametrize(("holder", "name"), [(loop, "save_accelerator_state"), (shutil, "rmtree")])
def test_a_kill_while_saving_leaves_a_whole_checkpoint(
    holder: Any, name: str, tmp_path: Path, expected: tuple[Losses, list[torch.Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(holder, name, dying(getattr(holder, name), calls=BROKEN_AT))
        before, _ = run(tmp_path)
    after, _ = run(tmp_path, seed=99)
    assert min(after) >= len(before) - 1 >= BROKEN_AT - 1
    assert before | after == expected[0]
    assert [path.name for path in (tmp_path / "it.checkpoint").iterdir()] == [f"{STEPS:08}"]


def test_a_checkpoint_of_the_earlier_format_is_said_to_be_of_no_use(
    tmp_path: Path, expected: tuple[Losses, list[torch.Tensor]], capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"step": 5, "seconds": 3.0}, tmp_path / "it.checkpoint")
    losses, _ = run(tmp_path)
    assert "beginning anew" in capsys.readouterr().out
    assert losses == expected[0]
