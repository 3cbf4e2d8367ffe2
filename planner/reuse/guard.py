"""The share of steps that a plan allows for a comparison of two prompts' facts, and the port of the comparison.

The cosine of two prompts hardly moves when two becomes three, red blue, or with without. So a guard compares what they
state: `agents/reuse/plain_guard.py`. Which share follows is a plan's or a profile's to say, not this module's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from planner.reuse.terms import Difference as Difference
from planner.reuse.terms import GuardShares as GuardShares
from planner.reuse.terms import InvalidShares as InvalidShares


class Verdict(StrEnum):
    """The result of comparing two prompts' facts."""

    EQUAL = "equal"
    STYLE = "style"  # equal but for how the image is made
    DIFFERS = "differs"
    UNSURE = "unsure"  # not shown to be equal, and no kind of difference is known


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing two prompts' facts, with the kinds of difference."""

    verdict: Verdict
    differences: frozenset[Difference] = frozenset()  # one at least where they differ


Compare = Callable[[str, str], Comparison]
"""A guard: how the facts of two prompts compare, the asked and the stored one's. Raises nothing, whatever the text."""


def allowed_share(shares: GuardShares, comparison: Comparison) -> float:
    """Return the share of the steps that a comparison allows."""
    if comparison.verdict is Verdict.DIFFERS:
        return min(shares.differs.get(each, 0.0) for each in comparison.differences)
    return {Verdict.EQUAL: shares.equal, Verdict.STYLE: shares.style, Verdict.UNSURE: shares.unsure}[comparison.verdict]
