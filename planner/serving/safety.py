"""The action on an unsafe image, by its score, a threshold and its tenant's setting.

The worker asks before it stores an image, so that nothing that others read was there before: drafts, previews, results,
webhooks and the index of reuse all begin with what a worker stored.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

UNSAFE: Final = "unsafe"  # code of a request that is rejected as an image of it is blocked


class Action(StrEnum):
    """The treatment of an image whose score is at or above the threshold."""

    FLAG = "flag"  # it is stored, and the result has its score
    BLUR = "blur"  # it is stored blurred beyond recognition, and the result says so
    BLOCK = "block"  # nothing of its request is stored, which ends REJECTED


@dataclass(frozen=True, slots=True)
class SafetyTerms:
    """A deployment's threshold, and what its tenants want done."""

    threshold: float  # of the score, in (0, 1]
    action: Action = Action.BLOCK  # for tenants that are not named
    tenants: Mapping[str, Action] = field(default_factory=dict)

    def decide(self, scores: Sequence[float], tenant: str) -> "list[Checked]":
        """Return what is done about each of a request's images, by its score in [0, 1]; one that is no number is 1."""
        action = self.tenants.get(tenant, self.action)
        known = [score if math.isfinite(score) else 1.0 for score in scores]
        return [Checked(score, action if score >= self.threshold else None) for score in known]


@dataclass(frozen=True, slots=True)
class Checked:
    """The score of an image, and the action on it; None for no action."""

    score: float
    action: Action | None


def why_blocked(checked: Sequence[Checked], threshold: float) -> str:
    """Return the reason of a request that is rejected for one of its images; "": none is blocked."""
    blocked = [n for n, each in enumerate(checked, start=1) if each.action is Action.BLOCK]
    if not blocked:
        return ""
    worst = max(checked[n - 1].score for n in blocked)
    which = "its image" if len(checked) == 1 else f"{len(blocked)} of its {len(checked)} images"
    return f"the safety check blocked {which}: score {worst:.2f}, and {threshold:g} is the limit"
