"""Chooses the topics that a replay publishes to: a sandbox's, and production's only where an option says so."""

from schemas.errors import PochadeError
from streams.settings import Settings


def prefix_of(settings: Settings, name: str, prefix: str | None, *, is_production: bool, serves: bool) -> str:
    """Return the prefix of the topics to publish to.

    asked                  serves no roles        serves its own
    nothing                PREFIX-replay          PREFIX-replay-NAME: runs never mix
    --prefix sandbox       sandbox                sandbox
    --production           PREFIX                 refused
    --prefix PREFIX        refused                refused

    Raises:
        PochadeError: it would touch production without being asked to, or was asked for two things.
    """
    ours = settings.kafka.prefix
    if is_production and prefix not in (None, ours):
        raise PochadeError(f"--production publishes to {ours}.*, --prefix to {prefix}.*: give one of them")
    if is_production and serves:
        raise PochadeError(f"--serve starts roles for a sandbox, --production has {ours}'s own: give one of them")
    if is_production:
        return ours
    if prefix == ours:
        raise PochadeError(f"{ours}.* are this deployment's own topics: say --production to publish to them")
    return prefix or (f"{ours}-replay-{name}" if serves else f"{ours}-replay")
