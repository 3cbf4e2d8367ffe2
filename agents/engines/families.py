"""How each kind of diffusers pipeline is called: by the signature of its call, and a small table of exceptions.

A kind that nobody named here is called by its signature. Whether what a catalog claims has an effect is tried when a
variant is loaded (`claims.py`).
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from agents.engines import EngineFailed
from planner.catalog.option_limits import OPTIONS
from planner.catalog.options import AS_IT_IS, PLAIN, ResolvedOptions

PARTS: Final = ("unet", "transformer", "prior")  # names of the network that is called in each step
GUIDANCE: Final = ("guidance_scale", "true_cfg_scale", "distilled_guidance_scale")  # the first one that is in use
OURS: Final = frozenset((
    "prompt", "negative_prompt", "width", "height", "num_inference_steps", "generator", "latents", "image", "strength",
    "output_type", "return_dict", "num_images_per_prompt", "callback", "callback_steps", "callback_on_step_end",
    "callback_on_step_end_tensor_inputs",
))  # fmt: skip
NO_NEGATIVE: Final = " "  # the negative prompt of models that are guided only where there is one
Asked = Callable[[Any, int, Any, dict[str, Any]], dict[str, Any]]  # pipeline, step from 0 on, timestep, tensors


class Stopped(Exception):
    """Ends a call between two steps."""


class Family(NamedTuple):
    """What the signature of a kind of pipeline does not say."""

    guider: str = ""  # the component whose `guidance_scale` guides; "": an argument does
    counts_taken: bool = False  # over a draft: `num_inference_steps` counts the steps that are taken
    unless_two: Mapping[str, Any] = {}
    guided: tuple[str, ...] | None = None  # tensors with rows of the negative prompt; None: it cannot end within a call


_XL: Final = ("prompt_embeds", "add_text_embeds", "add_time_ids")
_3: Final = ("prompt_embeds", "pooled_prompt_embeds")
FAMILIES: Final[Mapping[str, Family]] = {
    **{f"StableDiffusion{of}Pipeline": Family(guided=("prompt_embeds",)) for of in ("", "Img2Img", "ControlNet")},
    **{f"StableDiffusionXL{of}Pipeline": Family(guided=_XL) for of in ("", "Img2Img", "ControlNet")},
    **{f"StableDiffusion3{of}Pipeline": Family(guided=_3) for of in ("", "Img2Img")},
    "CogView4Pipeline": Family(guided=()),
    "HunyuanImagePipeline": Family(guider="guider"),
    "LatentConsistencyModelImg2ImgPipeline": Family(counts_taken=True),
    "SanaSprintPipeline": Family(unless_two={"intermediate_timesteps": None}),
    "SanaSprintImg2ImgPipeline": Family(unless_two={"intermediate_timesteps": None}),
}
BY_SIGNATURE: Final = Family()


class Signature(NamedTuple):
    """The arguments of a call of one kind of pipeline."""

    takes: frozenset[str]
    required: tuple[str, ...]  # without a default
    guidance: str  # the one for guidance; "": none
    callback: str  # the one that is called after each step; "": none


def signature_of(pipeline: Any) -> Signature:
    """Return what the call of a pipeline takes."""
    kind: Any = type(pipeline)
    return signature_of_kind(kind)


@functools.cache
def signature_of_kind(kind: Any) -> Signature:
    """Return what the call of a class of pipelines takes."""
    parameters = dict(inspect.signature(kind.__call__).parameters)
    parameters.pop("self", None)
    named = {
        name: each for name, each in parameters.items() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    }
    known = [name for name in GUIDANCE if name in named]
    guidance = next((name for name in known if named[name].default is not None), "".join(known[:1]))
    return Signature(
        takes=frozenset(named),
        required=tuple(name for name, each in named.items() if each.default is each.empty),
        guidance=guidance,
        callback=next((name for name in ("callback_on_step_end", "callback") if name in named), ""),
    )


def family_of(pipeline: Any) -> Family:
    """Return what is known of a pipeline's kind beside its signature."""
    return FAMILIES.get(type(pipeline).__name__, BY_SIGNATURE)


def denoiser_name(pipeline: Any) -> str:
    """Return the name of the part that a pipeline calls in each step: "unet", "transformer". Raises EngineFailed."""
    for name in PARTS:
        if getattr(pipeline, name, None) is not None:
            return name
    raise EngineFailed(f"{type(pipeline).__name__} has none of the parts {', '.join(PARTS)}")


def call_arguments(pipeline: Any, how: ResolvedOptions, after_step: Asked, *, ends_guidance: bool) -> dict[str, Any]:
    """Return a call's arguments beside prompts, noise and beginning; `after_step` may raise Stopped.

    `ends_guidance`: it is given the tensors that `Family.guided` names, too. Also sets the guidance of a pipeline that
    has it in a component.
    """
    known, family = signature_of(pipeline), family_of(pipeline)
    taken = how.steps - how.refine_from_step if family.counts_taken else how.steps
    arguments: dict[str, Any] = {"num_inference_steps": taken}
    if how.asked != AS_IT_IS:  # an option goes to the argument of its name; a negative prompt goes with the prompt
        stated = {name: getattr(how.asked, name) for name in PLAIN if name in known.takes - OURS}
        arguments |= {name: value for name, value in stated.items() if value != OPTIONS[name].default}
    if family.guider and (guider := getattr(pipeline, family.guider, None)) is not None:
        guider.guidance_scale = how.guidance
    if known.guidance:
        arguments[known.guidance] = how.guidance
    if taken != 2:
        arguments |= {name: value for name, value in family.unless_two.items() if name in known.takes}
    if known.callback == "callback_on_step_end":
        arguments[known.callback] = after_step
        if ends_guidance:
            arguments["callback_on_step_end_tensor_inputs"] = ["latents", *(family.guided or ())]
    elif known.callback:  # of older pipelines: it is shown the latents, and may not change them
        arguments |= {"callback": lambda step, at, latents: after_step(pipeline, step, at, {"latents": latents})}
    return arguments


def negative_of(pipeline: Any, negative_prompt: str, guidance: float) -> str | None:
    """Return what a pipeline is given to avoid: None where nothing is, as a model may have zeros for that."""
    if negative_prompt:
        return negative_prompt
    needs = signature_of(pipeline).guidance == "true_cfg_scale" and guidance > 1
    return NO_NEGATIVE if needs else None


def sizes_of(pipeline: Any, how: ResolvedOptions) -> dict[str, int]:
    """Return the arguments for the size that a pipeline takes; some know it from the image they begin with."""
    takes = signature_of(pipeline).takes
    return {name: value for name, value in (("width", how.width), ("height", how.height)) if name in takes}
