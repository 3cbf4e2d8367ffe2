"""The deadline of a lookup, by the time that it can save.

Search and fetch together have one deadline. A job waits for both before it is generated; what has not answered by then
counts as a timeout, and the request runs all its steps.
"""

from dataclasses import dataclass

MIN_MS = 1.0  # below this no store answers over a network: the lookup would only cost


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineRule:
    """The limits of one lookup."""

    max_ms: float = 100.0
    share: float = 0.3  # of the time that a hit saves


DEFAULT_RULE = DeadlineRule()


def saved_ms(run_ms: float, share: float) -> float:
    """Return the time that a hit saves: `share` of the denoising time of a full run, in ms; never negative."""
    saved = run_ms * share
    return saved if saved > 0.0 else 0.0  # also where it is no number


def lookup_deadline_ms(run_ms: float, share: float, rule: DeadlineRule = DEFAULT_RULE) -> float | None:
    """Return how long a lookup may take, in ms; None if it is not worth one.

    `run_ms`: predicted time of all steps of the request; `share`: of them that the route allows to skip.
    """
    limit = min(rule.max_ms, rule.share * saved_ms(run_ms, share))
    return limit if limit >= MIN_MS else None
