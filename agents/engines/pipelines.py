"""Loads the diffusers pipeline of a variant: on which device, in which precision, with which weights and scheduler."""

import functools
import importlib
import inspect
import pathlib
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from diffusers import DiffusionPipeline
from safetensors import safe_open
from safetensors.torch import load_file

from agents.engines import EngineFailed, model_source, revised
from agents.engines.accelerating import accelerate
from agents.engines.families import PARTS
from agents.engines.low_rank import Applied, FusedWeights, combination, networks_of, read_adapter
from planner.catalog.entries import Loading, Variant
from schemas.errors import Unknown
from streams.shipped import INFRA

SINGLE: Final = ".safetensors"  # ends the name of a model that is one file
_DTYPES: Final = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}  # as files name them


def load_pipeline(variant: Variant, networks: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """A pipeline on its device, ready to generate; `networks`: those that need not be read, by name.

    Whatever the libraries raise over a model goes up as it is. Raises EngineFailed for what the catalog asks of a
    pipeline that has it not.
    """
    (source, revision), loading = revised(model_source(variant.model)), variant.loading
    device, dtype = placed(loading, source)
    parts = dict(networks)
    for name, weights in loading.weights.items():
        parts[name] = _part(source, revision, name, weights, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if source.endswith(SINGLE):
            pipeline = _of_single_file(source, loading, dtype, parts)
        else:
            pipeline = DiffusionPipeline.from_pretrained(
                source,
                revision=revision,
                use_safetensors=True,  # other formats can run code when they are read
                torch_dtype=dtype,
                variant=loading.files or None,
                **parts,
            )
    _set_scheduler(pipeline, variant)
    _fuse_own(pipeline, loading)
    accelerate(pipeline, loading)
    return _prepared(_put(pipeline, loading, device), device)  # may find no memory


def _put(pipeline: Any, loading: Loading, device: str) -> Any:
    if not loading.offload:
        return pipeline.to(device)
    if device == "cpu":
        raise EngineFailed(
            f"loading.offload = {loading.offload!r} needs an accelerator: omit it to generate on the CPU"
        )
    offloads = {"model": "enable_model_cpu_offload", "sequential": "enable_sequential_cpu_offload"}
    getattr(pipeline, offloads[loading.offload])(device=device)
    return pipeline


def _prepared(pipeline: Any, device: str = "cpu") -> Any:
    """Prepare a pipeline to stay on its device, with its convolutions in the layout that is fastest on a CPU.

    In each call diffusers looks through every module of the model for hooks of offloading, which nothing here installs
    unless the catalog asks for it: 1.2 of the 15 ms in which the smallest model generates an image.
    """
    kind: Any = type(pipeline)
    pipeline.stays_on = torch.device(device)
    pipeline.__class__ = _staying(kind)
    if device == "cpu":
        for part in pipeline.components.values():
            is_plain = isinstance(part, torch.nn.Module) and getattr(part, "hf_quantizer", None) is None
            if is_plain and all(weights.dim() < 5 for weights in part.parameters()):
                part.to(memory_format=torch.channels_last)
    return pipeline


@functools.cache
def _staying(kind: type) -> type:
    """Return a subclass of a kind of pipeline that stays on the device that it is put on."""
    return type(kind.__name__, (kind,), {"_execution_device": property(lambda pipeline: pipeline.stays_on)})


def device_of(loading: Loading) -> str:
    """Return the device of a model on this machine. Raises EngineFailed: it is not there."""
    return placement(loading, has_cuda=torch.cuda.is_available())[0]


def placed(loading: Loading, source: str) -> tuple[str, torch.dtype]:
    """Return device and precision of a model on this machine. Raises EngineFailed: the device is not there."""
    has_cuda = torch.cuda.is_available()
    has_bfloat16 = has_cuda and torch.cuda.is_bf16_supported()
    return placement(loading, has_cuda=has_cuda, has_bfloat16=has_bfloat16, own=own_precision(source, loading.files))


def placement(
    loading: Loading, *, has_cuda: bool, has_bfloat16: bool = True, own: torch.dtype | None = None
) -> tuple[str, torch.dtype]:
    """Device and precision: what the catalog says, else on CUDA half the precision that the files are in.

    `own`: the files' precision; None: not known. Files in float16 stay so; others are bfloat16, which overflows as
    little as float32, where the card has it. A model that was made in bfloat16 gives black images in float16.

    Raises:
        EngineFailed: CUDA is wanted and not there.
    """
    device = loading.device or ("cuda" if has_cuda else "cpu")
    on_cuda = device.startswith("cuda")
    if on_cuda and not has_cuda:
        raise EngineFailed(
            f"device {device!r} is not there: torch finds no CUDA device; omit `device` to generate on the CPU"
        )
    if loading.dtype or not on_cuda:
        chosen: torch.dtype = getattr(torch, loading.dtype or "float32")
    elif own is torch.float16:
        chosen = own
    elif has_bfloat16:
        chosen = torch.bfloat16
    else:
        chosen = torch.float32 if own is torch.bfloat16 else torch.float16
    return device, chosen


def own_precision(source: str, files: str = "") -> torch.dtype | None:
    """Return the precision of a model's weights by the head of its denoiser's first file; None: not on this disk."""
    path = pathlib.Path(source)
    if not path.is_dir():
        return _precision_of(path) if path.is_file() else None
    for part in PARTS:
        for file in sorted((path / part).glob("*" + SINGLE)):
            marks = file.name.split(".")[1:-1]  # "fp16", or "fp16-00001-of-00002"
            if marks[0].startswith(files) if files and marks else not (files or marks):
                return _precision_of(file)
    return None


def _precision_of(file: pathlib.Path) -> torch.dtype | None:
    with safe_open(file, framework="pt") as opened:
        names = opened.keys()
        kinds = (_DTYPES.get(opened.get_slice(name).get_dtype()) for name in names)
        return next((kind for kind in kinds if kind is not None), None)


def _of_single_file(source: str, loading: Loading, dtype: torch.dtype, parts: Mapping[str, Any]) -> Any:
    """The pipeline of one file with all weights, by the configuration of a folder or hub id."""
    if not loading.config:
        raise EngineFailed(f"model {source!r} is one file: name a folder or hub id of its kind in loading.config")
    config, revision = revised(model_source(loading.config))
    kind = _diffusers_class(DiffusionPipeline.load_config(config, revision=revision)["_class_name"])
    if not hasattr(kind, "from_single_file"):
        raise EngineFailed(f"{kind.__name__} is not read from one file: convert {source!r} to a folder")
    return kind.from_single_file(source, config=config, revision=revision, torch_dtype=dtype, **parts)


def _diffusers_class(name: str) -> Any:
    return getattr(importlib.import_module("diffusers"), name)


def _part(source: str, revision: str | None, name: str, weights: str, dtype: torch.dtype) -> Any:
    """A part of the model with other weights, never filled with any before; its own are not read, nor fetched."""
    from accelerate import init_empty_weights

    config = DiffusionPipeline.load_config(source, revision=revision)
    parts = {each: of for each, of in config.items() if isinstance(of, list) and of[0] == "diffusers"}
    if name not in parts:
        raise EngineFailed(str(Unknown("part of loading.weights", name, parts)))
    kind, file = _diffusers_class(parts[name][1]), weights_file(weights)
    tensors = load_file(file)
    with init_empty_weights():
        part = kind.from_config(kind.load_config(source, subfolder=name, revision=revision))
    if not tensors.keys() & part.state_dict().keys() and hasattr(kind, "from_single_file"):  # by the names of others
        return kind.from_single_file(file, config=source, subfolder=name, revision=revision, torch_dtype=dtype)
    part.load_state_dict(tensors, assign=True)
    return part.to(dtype).eval()


def sources_of(variant: Variant) -> tuple[dict[str, pathlib.Path], str]:
    """Return where the weights of a loaded variant lie, its own and those of other origin, and the model's hub id.

    The id is with its commit; "" for a folder or a file. What only the hub's cache can name is left out.
    """
    loading, (name, revision) = variant.loading, revised(model_source(variant.model))
    own, hub_id = pathlib.Path(name), ""
    if not own.exists():
        from huggingface_hub import snapshot_download

        own = pathlib.Path(snapshot_download(name, revision=revision, local_files_only=True))
        hub_id = f"{name}@{own.name}"
    others = {**loading.weights, **{f"lora:{pathlib.Path(each.file).stem}": each.file for each in loading.loras}}
    return {"model": own} | {part: pathlib.Path(weights_file(file)) for part, file in others.items()}, hub_id


def weights_file(named: str) -> str:
    """A file under infra/, a file here, or OWNER/REPOSITORY@REVISION/FILE fetched from the hub once.

    Raises:
        EngineFailed: neither a file nor such a name.
    """
    shipped = INFRA / named
    for path in (shipped, pathlib.Path(named)):
        if path.is_file():
            return str(path)
    owner, _, rest = named.partition("/")
    repository, _, file = rest.partition("/")
    if not file or not owner.strip("."):
        raise EngineFailed(f"weights {named!r} are no file (looked in {shipped} and here), no OWNER/REPOSITORY/FILE")
    from huggingface_hub import hf_hub_download

    name, revision = revised(f"{owner}/{repository}")
    fetched: str = hf_hub_download(name, file, revision=revision)
    return fetched


def _set_scheduler(pipeline: Any, variant: Variant) -> None:
    options = variant.loading.scheduler_options
    if not variant.scheduler and not options:
        return
    own: Any = type(pipeline.scheduler)
    kind = getattr(importlib.import_module("diffusers"), variant.scheduler, None) if variant.scheduler else own
    if kind is None or not hasattr(kind, "from_config"):
        known = [each.__name__ for each in pipeline.scheduler.compatibles] or [own.__name__]
        raise EngineFailed(str(Unknown("scheduler", variant.scheduler, known)))
    known = list(inspect.signature(kind).parameters)
    for name in options:
        if name not in known:
            raise EngineFailed(str(Unknown(f"option of {kind.__name__}", name, known)))
    pipeline.scheduler = kind.from_config(pipeline.scheduler.config, **options)


def _fuse_own(pipeline: Any, loading: Loading) -> None:
    """Fuse the adapters that are part of the variant into its weights, for good."""
    if not loading.loras:
        return
    if not hasattr(pipeline, "lora_state_dict"):
        raise EngineFailed(f"{type(pipeline).__name__} takes no adapters: omit loading.loras")
    adapters = [Applied(own.file, own.weight, read_adapter(weights_file(own.file), pipeline)) for own in loading.loras]
    weights = FusedWeights(networks_of(pipeline))
    weights.fuse(adapters)
    weights.apply(combination(adapters))
