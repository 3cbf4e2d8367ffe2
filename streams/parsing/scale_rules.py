"""From the settings `planner.scale.*` to the planner's rules of scaling, for the live planner and the simulator."""

from planner.scaling.fleet import ScaleRules
from streams.settings import Scale


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
