"""Reads what a diffusers model says of itself: how its pipeline is called, its size, its weights, its licence.

No weights are loaded. Steps, guidance and size are the defaults of the pipeline's call, but for models that are known
by their names to be distilled to a few steps.
"""

import inspect
import json
import math
import pathlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from safetensors import SafetensorError, safe_open

from agents.engines.families import GUIDANCE, PARTS, signature_of_kind
from schemas.errors import PochadeError

SAMPLE: Final = 128  # latents' width and height of pipelines whose denoiser states none
SAMPLES: Final = {"HunyuanImagePipeline": 64}
OF_IMAGES: Final = re.compile("Img2Img|Inpaint|Control|Edit|Fill|Kontext|Upscale|Refiner")  # in the name of a class
PACKED: Final = 2  # latents' px that a transformer reads as one token, each way
MARGIN: Final = 1.2  # of the weights' bytes: what a call needs beside them, roughly
UNSTATED: Final = "not stated: read it where the model came from"
FEW_STEPS: Final = 8  # below it an image to begin with would leave no step


class Distilled(NamedTuple):
    """What the cards of distilled models say of a call."""

    steps: int
    guidance: float = 0.0
    call: Mapping[str, Any] = {}


DISTILLED: Final[Mapping[str, Distilled]] = {  # pattern of a name -> as its card has it; the first that fits
    r"z-?image.*turbo": Distilled(9),
    r"(sd|stable-diffusion)-?3.*turbo": Distilled(4),
    r"turbo": Distilled(1),
    r"schnell": Distilled(4, call={"max_sequence_length": 256}),
    r"klein(?!.*base)": Distilled(4, 1.0),
    r"lightning|hyper|lcm|dmd": Distilled(4),
}


class OwnModel(NamedTuple):
    """A model and how a catalog's variant generates with it."""

    source: str  # as catalogs name it: a whole path, or OWNER/NAME@COMMIT of the hub
    kind: str  # class of its pipeline
    licence: str
    parameters: int  # numbers in all weights that the pipeline loads
    precision: str  # of most of them, as safetensors names it: "F32", "BF16"
    files: str  # which of the folder's files, such as "fp16"; "": the plain ones
    steps: int
    guidance: float
    width: int  # px
    height: int  # px
    size_multiple: int  # px
    honours: tuple[str, ...]
    call: Mapping[str, Any]  # further arguments of the call
    is_distilled: bool  # known by its name

    def bytes_at(self, itemsize: int) -> int:
        """Estimate the memory that it needs at so many bytes a number; weights of one byte stay as they are."""
        return math.ceil(MARGIN * self.parameters * (1 if "8" in self.precision else itemsize))


def read_model(named: str, size: tuple[int, int] | None = None) -> OwnModel:
    """Read a folder, or OWNER/NAME[@REVISION] of the hub, whose files are fetched; `size` (px): instead of its own.

    Raises PochadeError for what is no diffusers model, and for a hub that does not answer.
    """
    folder = pathlib.Path(named).expanduser()
    source, licence = str(folder.resolve()), _licence_of(folder)
    if not folder.is_dir():
        folder, source, licence = _fetched(named)
    index = _json(folder / "model_index.json")
    kind = _class_of(str(index.get("_class_name", "")), named)
    takes = inspect.signature(kind.__call__).parameters
    part = next((name for name in PARTS if name in index and (folder / name).is_dir()), "")
    denoiser, scale = _json(folder / part / "config.json"), _scale_of(_json(folder / "vae" / "config.json"))
    steps = int(takes["num_inference_steps"].default)
    distilled = _distilled(source, index, denoiser) if steps >= FEW_STEPS else None  # else its class is of few steps
    names = [name for name in GUIDANCE if name in takes]
    guided_by = signature_of_kind(kind).guidance
    # a number that the model reads, so that nothing is compared with a negative prompt
    is_embedded = guided_by == "distilled_guidance_scale" or (names == list(GUIDANCE[:2]) and guided_by == names[0])
    steps = distilled.steps if distilled else steps
    guidance = distilled.guidance if distilled else float(takes[guided_by].default) if guided_by else 0.0
    multiple = scale if part == "unet" or kind.__name__.startswith("Sana") else PACKED * scale
    width, height = (max(px // multiple, 1) * multiple for px in size or _size_of(kind, denoiser, scale))
    files, counts = _weights(folder, index)
    does = {
        "width": "width" in takes,
        "height": "height" in takes,
        "steps": not distilled,
        "guidance": bool(guided_by) and not distilled,
        "negative_prompt": "negative_prompt" in takes and guidance > 1 and not is_embedded,
        "image": steps >= FEW_STEPS and _begins_with_images(kind),
    }
    unbinned = {"use_resolution_binning": False} if "use_resolution_binning" in takes else {}  # sizes as asked for
    return OwnModel(
        source=source, kind=kind.__name__, licence=licence, parameters=sum(counts.values()),
        precision=max(counts, key=lambda each: counts[each], default="F32"), files=files, steps=steps,
        guidance=guidance, width=width, height=height, size_multiple=multiple,
        honours=tuple(name for name, is_done in does.items() if is_done),
        call={**unbinned, **(distilled.call if distilled else {})}, is_distilled=bool(distilled),
    )  # fmt: skip


def _fetched(named: str) -> tuple[pathlib.Path, str, str]:
    """Return the folder of a hub model's files, its name with the commit, and the licence that its card states."""
    if named.count("/") != 1 or named.startswith((".", "/", "~")):
        raise PochadeError(f"{named} is no folder here, and no OWNER/NAME of the hub: correct the path")
    from diffusers import DiffusionPipeline
    from huggingface_hub import HfApi

    repository, _, revision = named.partition("@")
    try:
        info = HfApi().model_info(repository, revision=revision or None)
        folder = DiffusionPipeline.download(repository, revision=info.sha, use_safetensors=True)
    except Exception as error:  # whatever the client raises without a network, a right or a repository
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise PochadeError(
            f"{named} is no folder here and cannot be fetched from the hub: {said:.200}; without a network give "
            "a folder (`hf download OWNER/NAME --local-dir FOLDER` where there is one); a gated model needs HF_TOKEN"
        ) from error
    stated = [getattr(info.card_data, name, None) for name in ("license_name", "license")]
    return pathlib.Path(folder), f"{repository}@{info.sha}", str(stated[0] or stated[1] or UNSTATED)


def _class_of(name: str, where: str) -> Any:
    import diffusers

    if not name:
        raise PochadeError(f"{where} has no model_index.json: give a folder of diffusers, as save_pretrained writes it")
    kind = getattr(diffusers, name, None)
    if kind is None:
        raise PochadeError(f"{where} is a {name}, which diffusers {diffusers.__version__} does not have: upgrade it")
    takes = inspect.signature(kind.__call__).parameters
    if not {"prompt", "num_inference_steps"} <= takes.keys() or OF_IMAGES.search(name):
        raise PochadeError(f"{where} is a {name}, which needs more than a prompt: give a text-to-image model")
    return kind


def _begins_with_images(kind: Any) -> bool:
    from diffusers.pipelines import auto_pipeline

    names = [key for key, each in auto_pipeline.AUTO_TEXT2IMAGE_PIPELINES_MAPPING.items() if each is kind]
    others = [auto_pipeline.AUTO_IMAGE2IMAGE_PIPELINES_MAPPING.get(key) for key in names]
    return any(other not in (None, kind) for other in others)  # itself: it reads images as examples


def _distilled(source: str, index: Mapping[str, Any], denoiser: Mapping[str, Any]) -> Distilled | None:
    """Return how a distilled model is called; None for one that is not known to be distilled."""
    name = source.partition("@")[0].rpartition("/")[2].lower()
    if index["_class_name"] == "FluxPipeline" and denoiser.get("guidance_embeds") is False:
        name += " schnell"
    if index.get("is_distilled"):
        name += " klein"
    return next((each for pattern, each in DISTILLED.items() if re.search(pattern, name)), None)


def _scale_of(vae: Mapping[str, Any]) -> int:
    """Return how many px of an image one of its latent is, each way."""
    if stated := vae.get("spatial_compression_ratio"):
        return int(stated)
    blocks = vae.get("block_out_channels") or vae.get("encoder_block_out_channels") or (0,) * 4
    return int(2 ** len(vae["temperal_downsample"]) if "temperal_downsample" in vae else 2 ** (len(blocks) - 1))


def _size_of(kind: Any, denoiser: Mapping[str, Any], scale: int) -> tuple[int, int]:
    """Return the width and height of an image if none is asked for."""
    takes = inspect.signature(kind.__call__).parameters
    stated = [takes[name].default for name in ("width", "height") if name in takes]
    if len(stated) == 2 and all(isinstance(each, int) for each in stated):
        return int(stated[0]), int(stated[1])
    sample = denoiser.get("sample_size") or SAMPLES.get(kind.__name__, SAMPLE)
    px = int(sample if isinstance(sample, int) else min(sample)) * scale
    return px, px


def _weights(folder: pathlib.Path, index: Mapping[str, Any]) -> tuple[str, Counter[str]]:
    """Return which files the parts have ("" or such as "fp16"), and the numbers in them by precision."""
    found: dict[str, Counter[str]] = {"": Counter()}
    parts = [name for name, part in index.items() if isinstance(part, list) and part[0]]
    for file in (file for part in parts for file in sorted((folder / part).glob("*.safetensors"))):
        kind = "".join(re.findall(r"\.(fp16|bf16|non_ema)\b", file.name)[:1])
        try:
            with safe_open(file, framework="pt") as opened:
                for tensor in map(opened.get_slice, opened.keys()):
                    found.setdefault(kind, Counter())[tensor.get_dtype()] += math.prod(tensor.get_shape())
        except (OSError, SafetensorError) as error:
            if file.is_symlink() and not file.exists():
                linked = f"{file} is a link to {file.readlink()}, which is not there"
                raise PochadeError(f"{linked}: copy the folder with `cp -rL`") from error
            raise PochadeError(f"{file} cannot be read: {error}") from error
    files = "" if found[""] else max(found)
    return files, found[files]


def _licence_of(folder: pathlib.Path) -> str:
    """Return the licence that the folder's model card states."""
    card = folder / "README.md"
    head = card.read_text(errors="replace").split("\n---")[0] if card.is_file() else ""
    stated = dict(re.findall(r"^(license(?:_name)?): *(.+?) *$", head, re.MULTILINE)) if head.startswith("---") else {}
    return str(stated.get("license_name") or stated.get("license") or UNSTATED).strip("\"'")


def _json(file: pathlib.Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text()) if file.is_file() else {}
    except (OSError, ValueError) as error:
        raise PochadeError(f"{file} cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}
