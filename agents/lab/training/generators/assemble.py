"""Put trained parts together as ordinary diffusers folders."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import torch
from diffusers import StableDiffusionPipeline
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from transformers import CLIPTextModel, CLIPTokenizer

from agents.lab.training.generators.networks.architectures import autoencoder_of, build_scheduler

# Folder -> its UNet in the work folder. Adapters and the ControlNet are for `poster` and written by their own training.
FOLDERS: Final[dict[str, str]] = {
    "light": "unet_light",
    "middle": "unet_L",
    "heavy": "unet_heavy",
    "poster": "unet_XS",
    "chalk": "unet_chalk",
    "woodcut": "unet_woodcut",
}
SHARED_BYTES: Final = 50_000  # of a file, at least, that several folders have alike
QUICK: Final = ("light",)  # of these, those with the quicker decoder


def train(work: Path, models: Path, seed: int) -> None:  # noqa: ARG001 - nothing here is drawn by chance
    """Write every folder of the family; the parts must have been trained."""
    family(work, models)


def family(work: Path, models: Path) -> None:
    """Write all of `FOLDERS` below `models`; notes their sizes in <work>/assemble.json.

    Raises FileNotFoundError, before anything is written, if a UNet or the quick decoder is missing.
    """
    missing = [part for part in (*FOLDERS.values(), "vae_quick") if not (work / part).is_dir()]
    if missing:
        raise FileNotFoundError(f"not trained yet in {work}: {', '.join(missing)}; run `pochade train family` first")
    for link in [path for path in models.rglob("*") if path.is_symlink()]:
        link.unlink()  # a saver would write through it, into another folder
    for name, unet in FOLDERS.items():
        assemble(work, unet, models / name, work / "vae_quick" if name in QUICK else autoencoder_of(work))
    share_equal_files(models, FOLDERS)
    path = work / "assemble.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    sizes = {name: sum(p.stat().st_size for p in (models / name).rglob("*") if p.is_file()) for name in FOLDERS}
    path.write_text(json.dumps(known | {"unets": FOLDERS, "quick": QUICK, "bytes": sizes}, indent=2) + "\n")


def assemble(work: Path, unet: str, folder: Path, autoencoder: Path) -> None:
    """Write `folder` with the named UNet of the work folder and this autoencoder, in fp16."""
    half = torch.float16
    pipeline = StableDiffusionPipeline(
        vae=AutoencoderTiny.from_pretrained(autoencoder, torch_dtype=half),
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
    tidy(folder)


def share_equal_files(models: Path, names: Iterable[str]) -> None:
    """Replace a large file of a folder by a relative link to the same file of an earlier one, where they are equal."""
    first: dict[tuple[str, bytes], Path] = {}
    for name in names:
        for path in sorted((models / name).rglob("*")):
            if path.is_symlink() or not path.is_file() or path.stat().st_size < SHARED_BYTES:
                continue
            inside = path.relative_to(models / name)
            known = first.setdefault((str(inside), hashlib.sha256(path.read_bytes()).digest()), path)
            if known is not path:
                path.unlink()
                path.symlink_to(Path(*[".."] * len(inside.parts)) / known.relative_to(models))


def tidy(folder: Path) -> None:
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
