"""Train a quicker decoder for the light level, whose one step of a UNet takes hardly longer than a full decoder."""

from pathlib import Path
from typing import Final

from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from diffusers.models.autoencoders.vae import AutoencoderTinyBlock
from torch import nn

from agents.lab.training.generators.decoder import refine

STEPS: Final = 6_000
BLOCKS: Final = (2, 1, 0)  # at 12 x 12, 24 x 24 and 48 x 48, where most of the time goes; the full decoder has 2, 2, 1


def train(work: Path, models: Path, seed: int) -> None:  # noqa: ARG001 - it ships as a part of light
    """Prune the sharpened decoder and train what is left into <work>/vae_quick; goes on from its checkpoint."""
    quick = pruned(AutoencoderTiny.from_pretrained(work / "vae_sharp"), BLOCKS)
    refine("quick_decoder", quick, work, seed, steps=STEPS, into="vae_quick")


def pruned(full: AutoencoderTiny, blocks: tuple[int, ...]) -> AutoencoderTiny:
    """The autoencoder with only the first `blocks` of its decoder at each resolution, coarsest first.

    Raises ValueError if it has fewer than that.
    """
    had = tuple(full.config["num_decoder_blocks"])
    if len(had) != len(blocks) or any(kept > there for kept, there in zip(blocks, had, strict=True)):
        raise ValueError(f"a decoder with {had} blocks cannot keep {blocks} of them")
    quick: AutoencoderTiny = AutoencoderTiny.from_config({**full.config, "num_decoder_blocks": blocks})
    quick.encoder.load_state_dict(full.encoder.state_dict())
    for mine, theirs in zip(quick.decoder.layers, _first_blocks(full.decoder.layers, blocks), strict=True):
        mine.load_state_dict(theirs.state_dict())
    return quick


def _first_blocks(layers: nn.Sequential, blocks: tuple[int, ...]) -> list[nn.Module]:
    """Convolutions and upsamplings, and of each resolution's blocks the first."""
    kept: list[nn.Module] = []
    level = seen = 0
    for layer in layers:
        if isinstance(layer, nn.Upsample):
            level, seen = level + 1, 0
        if isinstance(layer, AutoencoderTinyBlock):
            seen += 1
            if seen > blocks[level]:
                continue
        kept.append(layer)
    return kept
