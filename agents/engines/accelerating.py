"""What makes a variant faster at some cost in quality, as its catalog asks: a level beside the exact one.

`pochade profile` measures both, so that a plan chooses between them. README.md says which families take what.
"""

import importlib
import logging
import os
from typing import Any, Final

import torch

from agents.engines import EngineFailed
from agents.engines.families import denoiser_name, family_of
from planner.catalog.entries import Loading
from streams.extras import lacking

_QUANTIZATIONS: Final = {"int8": "Int8WeightOnlyConfig", "float8": "Float8WeightOnlyConfig"}  # of torchao


def accelerate(pipeline: Any, loading: Loading) -> None:
    """Apply what the catalog asks for to a pipeline that is on no device yet.

    Raises EngineFailed for a pipeline that has not what it takes, and for a package that is not installed.
    """
    kind = type(pipeline).__name__
    if loading.tiling:
        if not hasattr(getattr(pipeline, "vae", None), "enable_tiling"):
            raise EngineFailed(f"the autoencoder of {kind} does not decode in tiles: omit loading.tiling")
        pipeline.vae.enable_tiling()
    if loading.attention:
        denoiser = getattr(pipeline, denoiser_name(pipeline))
        denoiser.set_attention_backend(loading.attention)
        if not any(hasattr(getattr(each, "processor", None), "_attention_backend") for each in denoiser.modules()):
            raise EngineFailed(f"{type(denoiser).__name__} has one way to attend: omit loading.attention")
    if loading.guidance_steps and family_of(pipeline).guided is None:
        raise EngineFailed(f"{kind} is guided in all steps or none: omit loading.guidance_steps")
    if loading.quantization:
        torchao = _package("torchao.quantization")
        config = getattr(torchao, _QUANTIZATIONS[loading.quantization])()
        torchao.quantize_(getattr(pipeline, denoiser_name(pipeline)), config)
    if loading.cache:
        _cache(getattr(pipeline, denoiser_name(pipeline)), loading)


def begin_call(pipeline: Any, loading: Loading, steps: int) -> None:
    """Begin a call of so many steps: nothing is left in the cache of the one before."""
    if loading.cache:
        cache_dit = _package("cache_dit")
        config = cache_dit.DBCacheConfig(**loading.cache, num_inference_steps=steps)
        cache_dit.refresh_context(getattr(pipeline, denoiser_name(pipeline)), cache_config=config)


def end_guidance(pipeline: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """Return a step's tensors without the rows of the negative prompt, and guide no further step of the call.

    Such rows are the first half. Source: diffusers' guide to callbacks, dynamic classifier-free guidance.
    """
    pipeline._guidance_scale = 0.0
    halved = {name: tensors[name].chunk(2)[-1] for name in family_of(pipeline).guided or ()}
    return tensors | halved


def _cache(denoiser: torch.nn.Module, loading: Loading) -> None:
    """Skip blocks of a transformer in steps whose first blocks give nearly what they gave in the step before."""
    os.environ.setdefault("CACHE_DIT_LOG_LEVEL", "error")
    cache_dit = _package("cache_dit")
    logging.getLogger("CACHE_DIT").setLevel(logging.ERROR)
    try:
        config = cache_dit.DBCacheConfig(**loading.cache)
        cache_dit.enable_cache(denoiser, cache_config=config)  # the network alone: its pipelines share it
    except Exception as error:  # whatever the library raises over an option or a network that it does not know
        raise EngineFailed(f"loading.cache does not suit {type(denoiser).__name__}: {error}") from error


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise EngineFailed(f"{lacking(error.name or name)}, or omit what needs it in the catalog") from error
