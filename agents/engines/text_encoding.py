"""Encodes the prompts of a call before it is made, and says what of a prompt is not encoded.

The first is for pipelines that take embeddings in the place of prompts.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from agents.engines import EncodedPrompts, GenerationTask
from agents.engines.families import negative_of
from planner.catalog.options import ResolvedOptions

_EMBEDDINGS: Final = ("prompt_embeds", "negative_prompt_embeds")
_POOLED: Final = ("pooled_prompt_embeds", "negative_pooled_prompt_embeds")

# kind of pipeline -> the arguments of its calls that take what its `encode_prompt` returns. Other kinds encode
# otherwise (some report no padding), or decide otherwise whether they are guided, and encode within the call.
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "StableDiffusionPipeline": _EMBEDDINGS,
    "StableDiffusionXLPipeline": _EMBEDDINGS + _POOLED,
}


ANY_LENGTH: Final = 10**6  # tokens: a tokenizer that states no limit states a far larger number


class TextLimits:
    """The numbers of tokens that the text encoders of a pipeline read."""

    def __init__(self, pipeline: Any) -> None:
        """A tokenizer states its limit; the pipeline's call may have a lower one (T5 in Stable Diffusion 3)."""
        call = inspect.signature(type(pipeline).__call__).parameters.get("max_sequence_length")
        most = call.default if call is not None and isinstance(call.default, int) else ANY_LENGTH
        parts = {name: part for name, part in pipeline.components.items() if name.startswith("tokenizer") and part}
        self._readers = [(min(part.model_max_length, most), part) for part in parts.values()]

    def cuts(self, prompt: str, negative_prompt: str) -> tuple[str, ...]:
        """Return what no encoder reads, by text, as that which reads most counts them.

        "prompt: 130 tokens -> 77, the rest is cut".
        """
        texts = {"prompt": prompt, "negative_prompt": negative_prompt}
        return tuple(f"{name}: {cut}" for name, text in texts.items() if text and (cut := self._cut(text)))

    def _cut(self, text: str) -> str:
        found = []
        for limit, tokenizer in self._readers:
            tokens = len(tokenizer(text, truncation=False, verbose=False)["input_ids"])
            if tokens <= limit or limit >= ANY_LENGTH:
                return ""
            found.append((limit, tokens))
        return "{1} tokens -> {0}, the rest is cut".format(*max(found)) if found else ""


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
            negative_prompt=[how.negative_prompt] * len(prompts) if how.negative_prompt else None,
        )
    return EncodedPrompts(
        prompts=tuple(prompts),
        negative_prompt=how.negative_prompt,
        guidance=how.guidance,
        embeddings=dict(zip(names, found, strict=True)),
    )


def prompts_of(
    pipeline: Any, tasks: Sequence[GenerationTask], how: ResolvedOptions, encoded: EncodedPrompts | None
) -> Mapping[str, Any]:
    """Return the arguments of a pipeline for its prompts: their embeddings where they are encoded, else the texts."""
    if encoded is not None and encoded.are_of(tasks, how):
        return encoded.embeddings
    negative = negative_of(pipeline, how.negative_prompt, how.guidance)
    avoided = {} if negative is None else {"negative_prompt": [negative] * len(tasks)}
    return {"prompt": [task.prompt for task in tasks], **avoided}
