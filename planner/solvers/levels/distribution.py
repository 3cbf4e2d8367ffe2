"""H(v): which share of the coming prompts has which level as its optimal one."""

import math
from collections.abc import Mapping, Sequence

from planner.observation.observation import PROMPTS

PRIOR = 0.5  # prompts each class counts as seen before any was; ours, so that no class is impossible


def predicted(seen: Mapping[str, float], classes: Sequence[str], window: int = PROMPTS) -> dict[str, float]:
    """H over `classes`, all positive, summing to 1, from the shares `seen` in the last `window` prompts.

    Additive smoothing: (window x share + PRIOR) / (window x share of known classes + PRIOR x classes), which moves no
    share by more than classes / (2 x window). Labels that are no class, and shares that are no shares, count as unseen;
    with nothing seen all classes are alike. Source: ARGUS 4.2, "Workload Distribution Predictor"; smoothing is ours.
    """
    counts = {c: window * share + PRIOR if (share := seen.get(c, 0.0)) > 0 else PRIOR for c in classes}
    total = math.fsum(counts.values())
    return {c: count / total for c, count in counts.items()}
