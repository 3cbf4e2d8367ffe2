"""Loads the diffusers pipeline of a variant: on which device, in which precision, with which weights and scheduler."""

import functools
import importlib
import pathlib
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from diffusers import DiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file

from agents.engines import EngineFailed, model_source
from planner.catalog.entries import Loading, Variant
from streams.shipped import INFRA


def load_pipeline(variant: Variant, networks: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """A pipeline on its device, ready to generate; `networks`: those that need not be read, by name.

    Whatever the libraries raise over a model goes up as it is.
    """
    (source, revision), loading = revised(model_source(variant.model)), variant.loading
    device, dtype = placement(loading, has_cuda=torch.cuda.is_available())
    parts = dict(networks)
    if loading.unet:
        parts["unet"] = _unet(source, revision, loading.unet, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = DiffusionPipeline.from_pretrained(
            source,
            revision=revision,
            use_safetensors=True,  # other formats can run code when they are read
            torch_dtype=dtype,
            variant=loading.files or None,
            **parts,
        )
    _set_scheduler(pipeline, variant.scheduler, loading.timestep_spacing)
    return _prepared(pipeline.to(device))  # may find no memory


def _prepared(pipeline: Any) -> Any:
    """Prepare a pipeline to stay on its device, with its convolutions in the layout that is fastest on a CPU.

    In each call diffusers looks through every module of the model for hooks of offloading, which nothing here installs:
    1.2 of the 15 ms in which the smallest model generates an image.
    """
    kind: Any = type(pipeline)
    pipeline.stays_on = device = pipeline.device
    pipeline.__class__ = _staying(kind)
    if device.type == "cpu":
        for part in pipeline.components.values():
            if isinstance(part, torch.nn.Module) and all(weights.dim() < 5 for weights in part.parameters()):
                part.to(memory_format=torch.channels_last)
    return pipeline


@functools.cache
def _staying(kind: type) -> type:
    """Return a subclass of a kind of pipeline that stays on the device that it is put on."""
    return type(kind.__name__, (kind,), {"_execution_device": property(lambda pipeline: pipeline.stays_on)})


def placement(loading: Loading, *, has_cuda: bool) -> tuple[str, torch.dtype]:
    """Device and precision: what the catalog says, else half precision on CUDA where there is one.

    Raises:
        EngineFailed: CUDA is wanted and not there.
    """
    device = loading.device or ("cuda" if has_cuda else "cpu")
    on_cuda = device.startswith("cuda")
    if on_cuda and not has_cuda:
        raise EngineFailed(
            f"device {device!r} is not there: torch finds no CUDA device; omit `device` to generate on the CPU"
        )
    dtype: torch.dtype = getattr(torch, loading.dtype or ("float16" if on_cuda else "float32"))
    return device, dtype


def revised(named: str) -> tuple[str, str | None]:
    """A hub id and the commit, tag or branch after its `@`; a folder, and a name without one, as it is with None."""
    name, at, revision = named.partition("@")
    return (name, revision) if at and revision and not pathlib.Path(named).exists() else (named, None)


def _unet(source: str, revision: str | None, weights: str, dtype: torch.dtype) -> UNet2DConditionModel:
    """The model's UNet with other weights; its own are not loaded, nor fetched from the hub."""
    config = UNet2DConditionModel.load_config(source, subfolder="unet", revision=revision)
    unet = UNet2DConditionModel.from_config(config)
    unet.load_state_dict(load_file(weights_file(weights)))
    return unet.to(dtype)


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
        raise EngineFailed(f"unet {named!r} is no file (looked in {shipped} and here) and not OWNER/REPOSITORY/FILE")
    from huggingface_hub import hf_hub_download

    name, revision = revised(f"{owner}/{repository}")
    fetched: str = hf_hub_download(name, file, revision=revision)
    return fetched


def _set_scheduler(pipeline: Any, name: str, timestep_spacing: str) -> None:
    if name or timestep_spacing:
        kind = getattr(importlib.import_module("diffusers"), name) if name else type(pipeline.scheduler)
        changed = {"timestep_spacing": timestep_spacing} if timestep_spacing else {}
        pipeline.scheduler = kind.from_config(pipeline.scheduler.config, **changed)
