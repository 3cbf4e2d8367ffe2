"""Reads a plan's cascades for a request: whether its images are scored, how long that takes, and which are kept."""

from planner.catalog.components import needs_components
from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.catalog.option_limits import quality_named
from planner.serving.requests import ClassifiedValues, RequestValues
from schemas.messages import Cascade, Plan


def may_escalate(request: RequestValues, catalog: Catalog) -> bool:
    """Whether the next level may replace an image: not where its quality keeps the first, or it named its model.

    Nor where it names components, which the next level would leave out.
    """
    options = request.options
    if not quality_named(request.quality).escalates or needs_components(options):
        return False
    return options.model not in catalog.served and options.model not in catalog.bases


def cascade_of(plan: Plan, level: str) -> Cascade | None:
    """Return the cascade that holds for images of a level; None: the level's images are not scored.

    Images that begin from a stored latent, of a level such as "heavy~k4", are judged as those of their variant are.
    """
    variant = variant_of(level)
    return next((cascade for cascade in plan.cascades if cascade.level in (level, variant)), None)


def judging_ms(plan: Plan, level: str, catalog: Catalog) -> float:
    """Return the ms until an image of a level is scored; 0 where the plan scores none. They count for the deadline."""
    cascade = cascade_of(plan, level)
    return catalog.discriminator(cascade.discriminator).judging_ms if cascade else 0.0


def judged_ms(plan: Plan, classified: ClassifiedValues, level: str, catalog: Catalog) -> float:
    """Return the ms until all images of a request are scored in turn; 0 for a request that may not be escalated."""
    images = classified.request.options.n if may_escalate(classified.request, catalog) else 0
    return images * judging_ms(plan, level, catalog)


def keeps(cascade: Cascade, score: float) -> bool:
    """Whether an image of this confidence is good enough, time apart.

    A threshold of 1 keeps nothing, so that f(1) = 1 whatever rounds to a confidence of 1.
    """
    return score >= cascade.threshold and cascade.threshold < 1
