"""The light level's quicker decoder, pruned out of the full one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny

from agents.lab.training import loop
from agents.lab.training.generators import autoencoder, quick_decoder
from agents.lab.training.generators.quick_decoder import BLOCKS, pruned

LATENTS = torch.randn((2, 8, 12, 12), generator=torch.Generator().manual_seed(1))
PICTURES = torch.randn((2, 3, 48, 48), generator=torch.Generator().manual_seed(2))


@pytest.fixture
def full() -> AutoencoderTiny:
    torch.manual_seed(3)
    return autoencoder.build()


@pytest.fixture
def few_steps() -> Iterator[None]:
    loop.set_scale(0.0005)
    yield
    loop.set_scale(1.0)


@torch.no_grad()
def decoded(model: AutoencoderTiny) -> torch.Tensor:
    out: torch.Tensor = model.decode(LATENTS).sample
    return out


def test_a_decoder_that_keeps_every_block_decodes_as_before(full: AutoencoderTiny) -> None:
    assert torch.equal(decoded(pruned(full, (2, 2, 1))), decoded(full))


def test_what_is_kept_begins_as_the_first_layers_of_each_resolution(full: AutoencoderTiny) -> None:
    kept = [full.decoder.layers[at] for at in (0, 1, 2, 4, 5, 6, 8, 9, 11)]  # of conv, 2 blocks; conv, 2; conv, 1; conv
    quick = pruned(full, (1, 1, 0)).decoder.layers
    assert [type(layer) for layer in quick] == [type(layer) for layer in kept]
    for mine, theirs in zip(quick, kept, strict=True):
        assert all(torch.equal(value, theirs.state_dict()[key]) for key, value in mine.state_dict().items())


def test_the_quick_decoder_reads_the_same_latents_with_fewer_layers_on_the_large_pictures(
    full: AutoencoderTiny,
) -> None:
    quick = pruned(full, BLOCKS)
    assert torch.equal(quick.encode(PICTURES).latents, full.encode(PICTURES).latents)
    assert decoded(quick).shape == PICTURES.shape
    assert loop.Loop.size(quick.decoder) < 0.7 * loop.Loop.size(full.decoder)


@pytest.mark.parametrize("blocks", [(3, 1, 0), (2, 2, 2), (2, 2)])
def test_more_blocks_than_there_are_cannot_be_kept(full: AutoencoderTiny, blocks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"with \(2, 2, 1\) blocks cannot keep"):
        pruned(full, blocks)


@pytest.mark.usefixtures("few_steps")
def test_training_it_saves_half_precision_and_leaves_the_encoder_and_the_full_decoder_alone(
    full: AutoencoderTiny, tmp_path: Path
) -> None:
    full.half().save_pretrained(tmp_path / "vae_sharp")
    file = tmp_path / "vae_sharp" / "diffusion_pytorch_model.safetensors"
    before = file.read_bytes()
    quick_decoder.train(tmp_path, tmp_path, seed=5)
    quick = AutoencoderTiny.from_pretrained(tmp_path / "vae_quick", torch_dtype=torch.float16)
    assert tuple(quick.config["num_decoder_blocks"]) == BLOCKS
    assert all(torch.equal(value, quick.encoder.state_dict()[key]) for key, value in full.encoder.state_dict().items())
    assert not torch.equal(quick.decoder.layers[-1].weight, full.decoder.layers[-1].weight)
    assert file.read_bytes() == before
    noted = json.loads((tmp_path / "quick_decoder.json").read_text())
    assert set(noted) >= {"seed", "parameters", "round_trip", "round_trip_noise_03", "seconds"}


@pytest.mark.usefixtures("few_steps")
def test_a_finished_training_is_not_trained_any_further(full: AutoencoderTiny, tmp_path: Path) -> None:
    full.save_pretrained(tmp_path / "vae_sharp")
    quick_decoder.train(tmp_path, tmp_path, seed=5)
    first = (tmp_path / "vae_quick" / "diffusion_pytorch_model.safetensors").read_bytes()
    quick_decoder.train(tmp_path, tmp_path, seed=5)
    assert (tmp_path / "vae_quick" / "diffusion_pytorch_model.safetensors").read_bytes() == first
