"""Grow a deeper UNet out of a trained one: what is added does nothing yet, so it starts as good as its forerunner.

Source: Chen, Goodfellow, Shlens, Net2Net, 2016, 2.2 (function-preserving deeper networks); Gong et al., Efficient
training of BERT by progressively stacking, 2019.
"""

import re
from typing import Final

import torch
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

_LAYER: Final = re.compile(r"^(?P<block>(?:down|up)_blocks\.\d+\.(?:resnets|attentions))\.(?P<number>\d+)\.")


@torch.no_grad()
def deepen(small: UNet2DConditionModel, deep: UNet2DConditionModel) -> None:
    """Give `deep`, fresh and with more layers per block, the function that `small` has learned.

    The first layer of each block and the last of each upward one are small's; those between pass on what they get.
    Raises ValueError if the two differ in more than their layers per block.
    """
    had, extra = small.config["layers_per_block"], deep.config["layers_per_block"] - small.config["layers_per_block"]
    if had != 1 or extra < 1:
        raise ValueError(f"can deepen one layer per block into more: got {had} and {had + extra}")
    state = {_placed(name, extra): value for name, value in small.state_dict().items()}
    found = deep.load_state_dict(state, strict=False)
    if found.unexpected_keys:
        raise ValueError(f"the deeper network has no place for {', '.join(sorted(found.unexpected_keys))}")
    for block in (*deep.down_blocks, *deep.up_blocks):
        last = len(block.resnets) - 1
        taken = {0, last} if block in deep.up_blocks else {0}
        for number in set(range(last + 1)) - taken:
            _pass_on(block.resnets[number])
            for attention in getattr(block, "attentions", [])[number : number + 1]:
                torch.nn.init.zeros_(attention.proj_out.weight)
                torch.nn.init.zeros_(attention.proj_out.bias)


def _placed(name: str, extra: int) -> str:
    """Return the deep network's name of a small one's parameter: the last layers of upward blocks stay the last."""
    layer = _LAYER.match(name)
    if layer is None or layer["number"] == "0":
        return name
    return f"{layer['block']}.{int(layer['number']) + extra}.{name[layer.end() :]}"


def _pass_on(resnet: ResnetBlock2D) -> None:
    """Make a residual block return the first of its input channels, as many as it has to."""
    torch.nn.init.zeros_(resnet.conv2.weight)
    torch.nn.init.zeros_(resnet.conv2.bias)
    if resnet.conv_shortcut is not None:  # in an upward block: what came up, then what came across
        torch.nn.init.dirac_(resnet.conv_shortcut.weight)
        torch.nn.init.zeros_(resnet.conv_shortcut.bias)
