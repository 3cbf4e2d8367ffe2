"""From the settings `planner.scale.*` to the planner's rules of scaling, for the live planner and the simulator."""

from planner.scaling.fleet import ScaleRules
from schemas.errors import PochadeError
from streams.settings import Scale, Settings


def scale_rules(scale: Scale, max_workers: int) -> ScaleRules:
    """Return the rules for a fleet of at most this many workers. Raises InvalidScaling: they contradict each other."""
    return ScaleRules(
        when=scale.when,
        max_workers=max_workers,
        max_by_tenant=scale.max_by_tenant,
        minimum=scale.minimum,
        load_factor=scale.load_factor,
        period_ms=1000 * scale.period_s,
        warm=scale.warm,
        max_warm=scale.max_warm,
        start_ms=1000 * scale.start_s,
    )


def scale_rules_of(settings: Settings) -> ScaleRules:
    """Return the limits of scaling. Raises PochadeError: they contradict each other, or the topics' partitions."""
    scale, most = settings.planner.scale, settings.kafka.jobs_partitions
    if scale.max_workers > most:
        raise PochadeError(
            f"planner.scale.max_workers must be at most kafka.jobs_partitions, {most}: got {scale.max_workers}; "
            "lower it, or create the topics with more partitions"
        )
    return scale_rules(scale, scale.max_workers or most)
