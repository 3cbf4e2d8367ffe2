"""Painting over a rejected draft: where the next level begins, so that it need not take all its steps.

The draft is encoded and noised to step K of the next level's N, which goes on from there and takes N - K steps.

    step of the next level   0 . . . . . K . . . . . N
    on a blank               noise ----------------> picture
    over a draft                         draft ----> picture      (N - K) / N of the time
"""

from collections.abc import Sequence

from planner.catalog.entries import Variant
from planner.catalog.options import Settled
from schemas.messages import ImageRef


def fault(paint_over_step: int, light: Variant, heavy: Variant) -> str:
    """What is wrong with painting over `light`'s drafts from this step of `heavy`; "" if nothing.

    The step must leave one to take, and both must paint in one size. Whether the model's pipeline can begin with a
    picture is known where it is loaded: one that cannot paints on a blank, which is counted.
    """
    if not 0 <= paint_over_step < heavy.steps:
        return f"paint_over_step must be in [0, {heavy.steps}), the steps of {heavy.name}: got {paint_over_step}"
    sizes = [f"{variant.width} x {variant.height}" for variant in (light, heavy)]
    if paint_over_step and sizes[0] != sizes[1]:
        told = f"{light.name} paints {sizes[0]} px and {heavy.name} {sizes[1]}"
        return f"paint_over_step must be 0 between sizes: got {paint_over_step}, but {told}"
    return ""


def begins_at(paint_over_step: int, variant: Variant, how: Settled, drafts: Sequence[ImageRef]) -> int:
    """The step of its own at which a job begins over these drafts, for `paint_over_step` of the variant's steps.

    A request that sets the steps has the same share skipped, rounded down, which always leaves one to take. 0, a
    blank, where there is not one draft a picture, or one has another size than the job is to have.
    """
    fits = len(drafts) == how.n and all((draft.width, draft.height) == (how.width, how.height) for draft in drafts)
    return paint_over_step * how.steps // variant.steps if fits else 0
