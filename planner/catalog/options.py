"""Resolves a request's options against a variant: which it honours, which it overrides, and the run time that results.

Refining a rejected draft is one of its ways to generate, so that the next level need not take all its steps. The
draft is encoded and noised to step K of that level's N, which goes on from there and takes N - K steps.

    step of the next level   0 . . . . . K . . . . . N
    from noise               noise ----------------> image
    over a draft                         draft ----> image      (N - K) / N of the time
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from planner.catalog.components import NOTHING, Selection, select, unhonoured
from planner.catalog.entries import HONOURABLE, Variant, run_ms
from planner.catalog.option_limits import AS_IT_IS as AS_IT_IS
from planner.catalog.option_limits import OPTIONS
from schemas.messages import GenerateJob, GenerateOptions

ADAPTER_SYNTAX = re.compile(r"<(?:lora|lyco):([^<>]{1,100})>")
SIZES = ("width", "height")
OF_VARIANTS = (*SIZES, "steps", "guidance")  # each variant has its own
COMPONENTS = ("adapters", "controls", "image", "mask")  # honoured all together, or not at all
PLAIN = tuple(name for name in HONOURABLE if name not in (*OF_VARIANTS, *COMPONENTS))  # nothing is done unless stated
UNASKED = {name: OPTIONS[name].default for name in PLAIN} | dict.fromkeys(COMPONENTS, "none")


class ResolvedOptions(NamedTuple):
    """The options by which a variant generates a request, after defaults and limits of the variant."""

    n: int
    width: int
    height: int
    steps: int
    guidance: float
    overridden: tuple[str, ...]  # "steps: 50 -> 8", one an option that is not honoured; "size: 64x64 -> 32x32"
    refine_from_step: int = 0  # of `steps`: skipped, as a draft is refined; 0: begun from noise
    components: Selection = NOTHING  # base, adapters, controls, and the image to begin with
    asked: GenerateOptions = AS_IT_IS  # of PLAIN those that are stated and honoured; all else at its default
    rounded: tuple[str, ...] = ()  # "width", "height": as stated, but rounded down to what the variant generates

    @property
    def negative_prompt(self) -> str:
        """The negative prompt."""
        return self.asked.negative_prompt


def resolve_options(
    options: GenerateOptions, variant: Variant, refine_from_step: int = 0, honours: Sequence[str] | None = None
) -> ResolvedOptions:
    """Return how this variant generates these options. `honours`: those that it honours; None: as its catalog says.

    A `refine_from_step` that leaves no step to take counts as 0: a sender's catalog had more steps.
    """
    if options == AS_IT_IS:  # most requests; the router asks several times a record
        own = variant.width, variant.height, variant.steps, variant.guidance
        step = refine_from_step if refine_from_step < variant.steps else 0
        chosen = select(options, variant.offer) if variant.bases else NOTHING
        return ResolvedOptions(1, *own, overridden=(), refine_from_step=step, components=chosen)
    honours = variant.honours if honours is None else honours
    asked, does = _requested(options, variant), _own_of(variant)
    wants = {name: value for name, value in asked.items() if value not in (None, "") and value != does[name]}
    chosen = NOTHING
    if not unhonoured(options, variant.offer):
        chosen = select(options, variant.offer)
        wants = {name: value for name, value in wants.items() if name not in COMPONENTS}
    done = does | {name: value for name, value in wants.items() if name in honours}
    multiple = variant.size_multiple
    rounded = tuple(name for name in SIZES if name in wants and name in honours and int(done[name]) % multiple)
    for name in rounded:
        done[name] = max(int(done[name]) // multiple, 1) * multiple
    plain: dict[str, Any] = {name: done[name] for name in PLAIN if name in wants and name in honours}
    return ResolvedOptions(
        n=options.n,
        width=int(done["width"]),
        height=int(done["height"]),
        steps=int(done["steps"]),
        guidance=float(done["guidance"]),
        overridden=_overridden(does | wants, done, [name for name in wants if name not in honours or name in rounded]),
        refine_from_step=refine_from_step if refine_from_step < int(done["steps"]) else 0,
        components=chosen,
        asked=GenerateOptions(**plain) if plain else AS_IT_IS,
        rounded=rounded,
    )


def honoured(options: GenerateOptions, how: ResolvedOptions) -> tuple[str, ...]:
    """Return which of the stated options are generated as stated, components apart: what a job carries of `how`."""
    if options == AS_IT_IS:
        return ()
    done = {name: getattr(how if name in OF_VARIANTS else how.asked, name) for name in (*OF_VARIANTS, *PLAIN)}
    stated = {name: getattr(options, name) for name in done}
    return tuple(
        name
        for name, value in stated.items()
        if value != OPTIONS[name].default and (value == done[name] or name in how.rounded)
    )


def job_options(job: GenerateJob, variant: Variant) -> ResolvedOptions:
    """Return how a job's variant generates it. Which options are honoured says the job, as its sender resolved them.

    So it is where the catalogs of sender and reader differ: deadline, run time and `overridden` were decided by the
    sender's. All else is the variant's own in the reader's catalog: it belongs to the weights that it has loaded.
    """
    how = resolve_options(job.classified.request.options, variant, job.refine_from_step, job.honoured)
    return how if job.honoured is None else how._replace(overridden=job.overridden)


Values = Mapping[str, str | int | float | None]  # by option


def _overridden(asked: Values, done: Values, names: Sequence[str]) -> tuple[str, ...]:
    """Return what is done instead of the options of these names. Width and height are one, the size."""
    size = [f"{each['width']}x{each['height']}" for each in (asked, done)]
    sizes = (f"size: {' -> '.join(size)}",) if "width" in names or "height" in names else ()
    others = (name for name in names if name not in ("width", "height"))
    return (*sizes, *(f"{name}: {asked[name]} -> {done[name] or 'none'}" for name in others))


def read_as_letters(prompt: str) -> tuple[str, ...]:
    """Return the adapters that a prompt names in the syntax of other products, as `overridden` has it.

    They are options here, so that no prompt names one: its letters are all that the text encoder reads of it.
    """
    found = dict.fromkeys(match[0] for match in ADAPTER_SYNTAX.finditer(prompt))
    return tuple(f"prompt: {each} -> letters, as `adapters` name adapters" for each in found)


def _requested(options: GenerateOptions, variant: Variant) -> dict[str, str | int | float | None]:
    """Return the options that a request states for a variant; None without any."""
    return {
        "width": options.width,
        "height": options.height,
        "steps": options.steps,
        "guidance": options.guidance,
        **{name: getattr(options, name) for name in PLAIN},
        "model": options.model if options.model not in variant.bases else None,
        "adapters": ", ".join(options.adapters) or None,
        "controls": ", ".join(options.controls) or None,
        "image": options.image or None,
        "mask": options.mask or None,
    }


def _own_of(variant: Variant) -> dict[str, str | int | float]:
    """Return what a variant does where a request asks for nothing, by option."""
    figures = {"width": variant.width, "height": variant.height, "steps": variant.steps, "guidance": variant.guidance}
    return figures | UNASKED | {"model": variant.name}


def job_ms(variant: Variant, options: GenerateOptions, refine_from_step: int = 0) -> float:
    """Predicted ms of a job: all its images in one call, scaled by its steps and pixels.

    `refine_from_step`: how many of the job's steps are skipped.
    """
    return resolved_ms(variant, resolve_options(options, variant, refine_from_step))


def resolved_ms(variant: Variant, how: ResolvedOptions) -> float:
    """Predicted run time in ms of resolved options. Large images take yet longer: attention grows faster."""
    pixels = (how.width * how.height) / (variant.width * variant.height)
    steps = how.steps - how.refine_from_step
    if how.components.strength is not None and not how.refine_from_step:
        steps = max(1, int(how.steps * how.components.strength))
    return run_ms(variant, how.n) * pixels * steps / variant.steps * how.components.run_factor


def fault(refine_from_step: int, light: Variant, heavy: Variant) -> str:
    """Return what is wrong with refining `light`'s drafts from this step of `heavy`; "" if nothing.

    The step must leave one to take, and both must generate in one size. Whether the model's pipeline can begin with a
    image is known where it is loaded: one that cannot generates from noise, which is counted.
    """
    if not 0 <= refine_from_step < heavy.steps:
        return f"paint_over_step must be in [0, {heavy.steps}), the steps of {heavy.name}: got {refine_from_step}"
    sizes = [f"{variant.width} x {variant.height}" for variant in (light, heavy)]
    if refine_from_step and sizes[0] != sizes[1]:
        sizes_in_words = f"{light.name} generates {sizes[0]} px and {heavy.name} {sizes[1]}"
        return f"paint_over_step must be 0 between sizes: got {refine_from_step}, but {sizes_in_words}"
    return ""


def begins_at(refine_from_step: int, variant: Variant, how: ResolvedOptions, sizes: Sequence[tuple[int, int]]) -> int:
    """The step of its own at which a job begins over drafts, for `refine_from_step` of the variant's steps.

    `sizes`: width and height of each draft, in pixels. A request that sets the steps has the same share skipped,
    rounded down, which always leaves one to take. 0, which is from noise, where there is not one draft for each image,
    or one has another size than the job is to have.
    """
    fits = len(sizes) == how.n and all(size == (how.width, how.height) for size in sizes)
    return refine_from_step * how.steps // variant.steps if fits else 0
