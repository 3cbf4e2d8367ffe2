"""Adapters fused beside a base: equal to PEFT's, undone to the bit, and no more kept than there is room for."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline

from agents.engines import EngineFailed
from agents.engines.low_rank import Applied, FusedWeights, LowRank, combination, networks_of, read_adapter
from tests.paths import MODELS

pytestmark = pytest.mark.torch

NAMES = ("candy", "mint", "comic", "dusk", "sepia", "pastel")


def poster() -> Any:
    return DiffusionPipeline.from_pretrained(MODELS / "poster", torch_dtype=torch.float32)


@cache
def adapter(name: str) -> Any:
    pipeline = poster()
    return read_adapter(str(MODELS / "loras" / name), pipeline)


def applied(**weights: float) -> list[Applied]:
    return [Applied(name, weight, adapter(name)) for name, weight in weights.items()]


def apply(weights: FusedWeights, adapters: list[Applied]) -> bool:
    """Put adapters in force, and say whether their combination is new."""
    is_new = bool(adapters) and combination(adapters) not in weights.combinations
    weights.fuse(adapters)
    weights.apply(combination(adapters))
    return is_new


def said(unet: Any) -> torch.Tensor:
    dice = torch.Generator().manual_seed(5)
    sample = torch.randn((2, unet.config.in_channels, 6, 6), generator=dice)
    states = torch.randn((2, 16, unet.config.cross_attention_dim), generator=dice)
    with torch.inference_mode():
        found: torch.Tensor = unet(sample, torch.tensor(500), states).sample
    return found


@pytest.mark.parametrize("weights", [{"candy": 1.0}, {"mint": 0.8}, {"comic": 0.5, "mint": -0.25, "dusk": 1.5}])
def test_fused_output_equals_that_of_adapters_beside_the_base(weights: dict[str, float]) -> None:
    beside, fused = poster(), poster()
    for name in weights:
        beside.load_lora_weights(MODELS / "loras" / name, adapter_name=name)
    beside.set_adapters(list(weights), list(weights.values()))
    plain = said(fused.unet)
    apply(FusedWeights(networks_of(fused)), applied(**weights))
    wanted = said(beside.unet)
    assert (said(fused.unet) - wanted).abs().max() <= 1e-4
    assert (plain - wanted).abs().max() > 1e-2


def test_after_500_changes_the_base_is_that_of_the_file_to_the_bit() -> None:
    pipeline, fresh = poster(), poster().unet.state_dict()
    weights, dice = FusedWeights(networks_of(pipeline)), np.random.default_rng(3)
    mixes = [applied(**{name: 1.0}) for name in NAMES] + [applied(candy=0.3, mint=0.7), []]
    made = 0
    for change in range(500):
        made += apply(weights, mixes[int(dice.integers(len(mixes)))])
        if change % 250 == 100:
            for each in weights.combinations:
                weights.forget(each)
    weights.apply(())
    assert made >= len(mixes)
    own = pipeline.unet.state_dict()
    assert own.keys() == fresh.keys()
    assert all(torch.equal(own[name], fresh[name]) for name in fresh)


class Toy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)


def toy(name: str, layer: str = "one", weight: float = 1.0) -> Applied:
    return Applied(name, weight, {f"unet.{layer}": LowRank(torch.ones(1, 4), torch.ones(4, 1), 0.5)})


def test_a_combination_is_made_once_and_what_it_does_not_touch_is_the_bases() -> None:
    net = Toy()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    weights = FusedWeights({"unet": net})
    assert [apply(weights, each) for each in ([toy("a")], [toy("a")], [toy("b", "two")])] == [True, False, True]
    assert torch.equal(net.one.weight, before["one.weight"])
    assert torch.allclose(net.two.weight, before["two.weight"] + 0.5)
    assert not apply(weights, [toy("a")])
    assert torch.allclose(net.one.weight, before["one.weight"] + 0.5)
    assert torch.equal(net.two.weight, before["two.weight"])


def test_what_is_forgotten_frees_its_bytes_and_while_it_is_in_force_the_base_follows() -> None:
    net = Toy()
    before = net.one.weight.clone()
    weights = FusedWeights({"unet": net})
    for name in "ab":
        apply(weights, [toy(name)])
    assert weights.bytes == 2 * weights.bytes_of([toy("a")]) == 2 * 64
    weights.forget((("a", 1.0),))
    assert weights.bytes == 64
    assert not torch.equal(net.one.weight, before)
    weights.forget((("b", 1.0),))
    assert torch.equal(net.one.weight, before)
    assert not weights.combinations


def test_an_adapter_of_another_base_is_refused() -> None:
    with pytest.raises(EngineFailed, match="does not fit the base"):
        FusedWeights({"unet": Toy()}).fuse(applied(candy=1.0))


def test_an_adapter_is_multiplied_on_the_device_of_its_layer() -> None:
    layer = LowRank(torch.ones(2, 4), torch.ones(3, 2), 1.0)
    assert layer.delta(torch.empty(3, 4, device="meta")).device.type == "meta", "meta, as there may be no other device"
    assert torch.equal(layer.delta(torch.empty(3, 4)), torch.full((3, 4), 2.0))
