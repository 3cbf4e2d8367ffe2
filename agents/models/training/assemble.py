"""Put trained parts together as ordinary diffusers folders."""

import json
from pathlib import Path

import click
import torch
from diffusers import StableDiffusionPipeline
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from transformers import CLIPTextModel, CLIPTokenizer

from agents.models.training.networks import build_scheduler


def assemble(work: Path, unet: str, folder: Path) -> None:
    """Write `folder` with the named UNet of the work folder, in fp16."""
    half = torch.float16
    sharp = work / "vae_sharp"  # the same encoder with a decoder trained for longer
    pipeline = StableDiffusionPipeline(
        vae=AutoencoderTiny.from_pretrained(sharp if sharp.exists() else work / "vae", torch_dtype=half),
        text_encoder=CLIPTextModel.from_pretrained(work / "text_encoder", dtype=half),
        tokenizer=CLIPTokenizer.from_pretrained(work / "tokenizer"),
        unet=UNet2DConditionModel.from_pretrained(work / unet, torch_dtype=half),
        scheduler=build_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        image_encoder=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(folder, safe_serialization=True)
    _tidy(folder)


def _tidy(folder: Path) -> None:
    """Drop where parts were loaded from (a path of the training machine), and a setting the loader warns about."""
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)  # safetensors writes for the owner alone; a container may run as somebody else
    for path in folder.rglob("*.json"):
        content = json.loads(path.read_text())
        unwanted = {"_name_or_path", "name_or_path"}
        if path.parent.name == "vae":
            unwanted.add("block_out_channels")  # written by the saver, derived again by the class
        if isinstance(content, dict) and unwanted & content.keys():
            path.write_text(json.dumps({k: v for k, v in content.items() if k not in unwanted}, indent=2) + "\n")


def collect_notes(work: Path, models: Path, **more: object) -> None:
    """Merge what the training scripts measured into <models>/training.json, for the cards."""
    path = models / "training.json"
    notes = json.loads(path.read_text()) if path.exists() else {}
    for note in sorted(work.glob("*.json")):
        notes[note.stem] = json.loads(note.read_text())
    path.write_text(json.dumps(notes | more, indent=2) + "\n")


@click.command(epilog="Example: python -m agents.models.training.assemble --light XS --heavy L --work build/models")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/models"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("infra/models"), show_default=True)
@click.option("--light", default="XS", show_default=True, help="UNet of the light variant: XS, S, or S1 (distilled).")
@click.option("--heavy", default="L", show_default=True, help="UNet of the heavy variant.")
def main(work: Path, out: Path, light: str, heavy: str) -> None:
    """Write the light and heavy folders from the trained parts."""
    for name, size in (("light", light), ("heavy", heavy)):
        assemble(work, f"unet_{size}", out / name)
        click.echo(
            f"{out / name}: {sum(p.stat().st_size for p in (out / name).rglob('*') if p.is_file()) / 1e6:.1f} MB"
        )
    collect_notes(work, out, variants={"light": f"unet_{light}", "heavy": f"unet_{heavy}"})


if __name__ == "__main__":
    main()
