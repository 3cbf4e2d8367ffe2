"""Encodes the prompts of a call before it is made, for pipelines that take embeddings in the place of prompts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from agents.engines import EncodedPrompts, GenerationTask
from planner.catalog.options import ResolvedOptions

_EMBEDDINGS: Final = ("prompt_embeds", "negative_prompt_embeds")
_POOLED: Final = ("pooled_prompt_embeds", "negative_pooled_prompt_embeds")

# what `encode_prompt` of a kind returns, by the names under which its calls take it; other kinds encode otherwise (some
# do not tell the padding), or decide otherwise whether they are guided, and encode within the call
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "StableDiffusionPipeline": _EMBEDDINGS,
    "StableDiffusionXLPipeline": _EMBEDDINGS + _POOLED,
}


def encode_ahead(pipeline: Any, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> EncodedPrompts | None:
    """Encode the prompts of a call as the pipeline would within it; None for a kind that is not known to do so."""
    names = NAMES.get(type(pipeline).__name__)
    if names is None:
        return None
    prompts = [task.prompt for task in tasks]
    with torch.inference_mode():
        found = pipeline.encode_prompt(
            prompt=prompts,
            device=pipeline._execution_device,
            num_images_per_prompt=1,
            do_classifier_free_guidance=how.guidance > 1 and pipeline.unet.config.time_cond_proj_dim is None,
            negative_prompt=_negative(how, len(prompts)),
        )
    return EncodedPrompts(
        prompts=tuple(prompts),
        negative_prompt=how.negative_prompt,
        guidance=how.guidance,
        embeddings=dict(zip(names, found, strict=True)),
    )


def prompts_of(
    tasks: Sequence[GenerationTask], how: ResolvedOptions, encoded: EncodedPrompts | None
) -> Mapping[str, Any]:
    """Return the arguments of a pipeline for its prompts: their embeddings where they are encoded, else the texts."""
    if encoded is not None and encoded.are_of(tasks, how):
        return encoded.embeddings
    return {
        "prompt": [task.prompt for task in tasks],
        "negative_prompt": _negative(how, len(tasks)),
    }


def _negative(how: ResolvedOptions, count: int) -> list[str] | None:
    """What is to be avoided, by image; None for nothing: a model may have zeros for that, and not an empty prompt."""
    return [how.negative_prompt] * count if how.negative_prompt else None
