"""Tries what a catalog says of a variant when it is loaded, with a step or a few of a small image.

What the pipeline would drop is refused here by name, and not noticed by a customer: a negative prompt without effect,
a guidance that the model does not have, a size that becomes another. It warms the pipeline up, too.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from PIL.Image import Image

from agents.engines import CannotRefine, EngineFailed
from agents.engines.families import OURS, family_of, signature_of
from agents.engines.image_to_image import image_to_image
from agents.engines.latent_spaces import KINDS
from planner.catalog.components import NOTHING
from planner.catalog.entries import Variant
from planner.catalog.option_limits import OPTIONS
from planner.catalog.options import AS_IT_IS, PLAIN, SIZES, ResolvedOptions, resolve_options
from schemas.errors import Unknown
from schemas.messages import GenerateOptions

Generate = Callable[[ResolvedOptions], Image]
AVOIDED: Final = "rain, text, a crowd of people"
OTHER_GUIDANCE: Final = 7.0


def check_signature(variant: Variant, pipeline: Any) -> None:
    """Raise EngineFailed where a call of the pipeline cannot be made from a request, or of `variant.call`."""
    kind, known = type(pipeline).__name__, signature_of(pipeline)
    where = f"variant {variant.name!r}:"
    if "prompt" not in known.takes:
        raise EngineFailed(f"{where} {kind} generates from no prompt: name a text-to-image model")
    if getattr(pipeline, "controlnet", None) is not None:
        raise EngineFailed(
            f"{where} {kind} follows a control in each call: name the model itself, and the net in `controls`"
        )
    lacking = [name for name in known.required if name not in {*OURS, *variant.call}]
    if lacking:
        raise EngineFailed(
            f"{where} {kind} must be given {', '.join(lacking)}: state it in [variants.{variant.name}.call]"
        )
    if "image" in known.takes and not known.takes.intersection(SIZES):
        raise EngineFailed(f"{where} {kind} generates over an image alone: name the text-to-image model")
    for option in set(PLAIN).intersection(variant.honours) - known.takes:
        raise EngineFailed(f"{where} honours {option}, which {kind} does not take: remove it from `honours`")
    is_guided = bool(known.guidance or family_of(pipeline).guider)
    if not is_guided and ("guidance" in variant.honours or variant.guidance > 1):
        raise EngineFailed(f"{where} {kind} takes no guidance: state guidance = 0 and remove it from `honours`")
    for name in variant.call:
        if name in OURS or name == known.guidance:
            set_by = "guidance" if name == known.guidance else "requests and the engine"
            raise EngineFailed(f"{where} call.{name} is set by {set_by}: remove it")
        if name not in known.takes:
            raise EngineFailed(f"{where} {Unknown(f'argument of {kind}', name, known.takes - OURS)}")


def try_claims(variant: Variant, pipeline: Any, generate: Generate, *, is_compiled: bool) -> None:
    """Generate one step, and as many more as it takes to see what guidance and negative prompts do.

    `is_compiled`: other sizes than the variant's own would run other code, so that they are not tried. Raises
    EngineFailed for a claim that does not hold, and where the pipeline fails.
    """
    kind, where = type(pipeline).__name__, f"variant {variant.name!r}:"
    own = resolve_options(AS_IT_IS, variant)._replace(steps=1, components=NOTHING)
    width, height = _small(variant)
    small = own if is_compiled else own._replace(width=width, height=height)

    def tried(how: ResolvedOptions) -> Image:
        try:
            return generate(how)
        except EngineFailed:
            raise
        except Exception as error:  # whatever a model and its libraries raise
            size = f"{how.width}x{how.height}"
            raise EngineFailed(
                f"{where} {kind} cannot generate {size} px in one step: {error}{_hint(variant)}"
            ) from error

    plain = tried(small)
    if plain.size != (small.width, small.height):
        sizes = f"asked for {small.width}x{small.height} px, {kind} generates {plain.width}x{plain.height}"
        raise EngineFailed(f"{where} {sizes}{_hint(variant)}")
    guides, avoids = "guidance" in variant.honours, "negative_prompt" in variant.honours
    if "image" in variant.honours:
        try:
            image_to_image(pipeline)
        except CannotRefine as error:
            raise EngineFailed(f"{where} honours image, but {error}: remove it from `honours`") from error
    if _is_known_to_guide(pipeline):
        return
    other = small._replace(guidance=small.guidance + OTHER_GUIDANCE)
    guided = tried(other) if guides or small.guidance > 1 else None
    if guided is not None and guided.tobytes() == plain.tobytes():
        claim = "honours guidance" if guides else f"guidance = {variant.guidance:g}"
        todo = "remove it from `honours`" if guides else "state guidance = 0"
        raise EngineFailed(f"{where} {claim} without effect in {kind}: {todo}")
    if avoids:
        base, how = (plain, small) if guided is None or small.guidance > 1 else (guided, other)
        asked = how._replace(asked=GenerateOptions(negative_prompt=AVOIDED))
        if tried(asked).tobytes() == base.tobytes():
            todo = "remove it from `honours`"
            if "true_cfg_scale" in signature_of(pipeline).takes and "true_cfg_scale" not in variant.call:
                todo += f", or state true_cfg_scale > 1 in [variants.{variant.name}.call]"
            raise EngineFailed(f"{where} honours negative_prompt without effect in {kind}: {todo}")


def _is_known_to_guide(pipeline: Any) -> bool:
    """Whether guidance and negative prompts act by how its kind is built: with a denoiser that is not distilled."""
    return type(pipeline).__name__ in KINDS and pipeline.unet.config.time_cond_proj_dim is None


def _small(variant: Variant) -> tuple[int, int]:
    """Half of the variant's size where it honours sizes, and not square, so that a wrong multiple shows."""
    multiple = math.lcm(variant.size_multiple, OPTIONS["width"].about.multiple_of)
    width, height = (max(own // 2 // multiple, 1) * multiple for own in (variant.width, variant.height))
    return (
        width if "width" in variant.honours else variant.width,
        height + multiple if "height" in variant.honours else variant.height,
    )


def _hint(variant: Variant) -> str:
    """What to do where a size does not fit: nothing where the variant's own was tried."""
    if not any(name in variant.honours for name in SIZES):
        return ""
    return f"; state the multiple that it generates, such as size_multiple = {max(16, 2 * variant.size_multiple)}"
