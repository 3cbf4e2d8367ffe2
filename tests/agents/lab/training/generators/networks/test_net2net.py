"""Growing a deeper UNet out of a trained one."""

import pytest
import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.lab.training.generators.networks import architectures
from agents.lab.training.generators.networks.net2net import deepen


def painted(unet: UNet2DConditionModel) -> torch.Tensor:
    draw = torch.Generator().manual_seed(3)
    latents = torch.randn((2, *architectures.LATENT), generator=draw)
    states = torch.randn((2, 48, 128), generator=draw)
    with torch.no_grad():
        said: torch.Tensor = unet(latents, torch.tensor([20, 900]), states).sample
    return said


@pytest.fixture(scope="module")
def small() -> UNet2DConditionModel:
    torch.manual_seed(1)
    return architectures.build_unet("L")


def test_a_grown_network_says_what_its_forerunner_says(small: UNet2DConditionModel) -> None:
    torch.manual_seed(2)
    deep = architectures.build_unet("XL")
    assert not torch.allclose(painted(deep), painted(small), atol=1e-2), "they differ before"
    deepen(small, deep)
    torch.testing.assert_close(painted(deep), painted(small), atol=1e-4, rtol=1e-3)


def test_every_added_layer_can_learn(small: UNet2DConditionModel) -> None:
    deep = architectures.build_unet("XL")
    deepen(small, deep)
    said = deep(torch.randn((2, *architectures.LATENT)), torch.tensor([20, 900]), torch.randn((2, 48, 128))).sample
    said.square().mean().backward()
    last = [module for name, module in deep.named_modules() if name.endswith(("conv2", "proj_out"))]
    assert last
    assert all(module.weight.grad is not None and module.weight.grad.abs().sum() > 0 for module in last)


def test_a_network_that_is_not_a_deeper_one_is_refused(small: UNet2DConditionModel) -> None:
    with pytest.raises(ValueError, match="got 1 and 1"):
        deepen(small, architectures.build_unet("L"))
    with pytest.raises(RuntimeError, match="size mismatch"):
        deepen(architectures.build_unet("XS"), architectures.build_unet("XL"))
