"""Which policy paints best at so many violations, with over-provisioning swept for every one of them.

A policy's quality at a level of violations is that of its best swept setting with at most as many, by mean over seeds.
Settings are chosen with few seeds; those that matter, of ours and of the best other, are run again with all, so that
the difference is not that of the luckiest draw.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from replay.bench.comparison import AHEAD, BEHIND, UNDECIDED, PairedDifference, paired, verdicts
from replay.bench.papers.answers import Mean
from replay.bench.papers.cells import Cell, with_parameters
from replay.bench.papers.names import (
    DIFFSERVE,
    HADIS,
    HEAVY,
    JOINT,
    LIGHT,
    OVERPROVISIONED,
    PROTEUS,
    RANDOM,
    STATIC,
)  # fmt: skip

LEVELS = (0.005, 0.01, 0.02, 0.05)  # of violations
FACTORS = (0.7, 0.8, 0.9, 1.05, 1.3, 1.8, 3.0, 6.0)  # bursts of seven times the calm need the last ones
COARSE = (0.8, 1.05, 1.5)  # for policies whose FID is far off whatever the factor
OF_PEAK = (0.8, 0.9, 1.05)  # of the true peak: nothing comes above it
FINE = (JOINT, HADIS, DIFFSERVE)
QUICK_FACTORS = (1.05, 1.3)
QUICK = (JOINT, DIFFSERVE, HADIS, PROTEUS, LIGHT)


class Setting(NamedTuple):
    """A policy with what is swept of it."""

    policy: str
    told: str
    parameters: tuple[tuple[str, float], ...]


def settings(peak_rps: float, *, is_quick: bool) -> list[Setting]:
    """All that are swept: over-provisioning; where a policy plans for none, what it has instead."""
    fine = QUICK_FACTORS if is_quick else FACTORS
    swept = [
        Setting(policy, f"x {factor:g}", (("overprovision", factor),))
        for policy in OVERPROVISIONED
        for factor in (fine if policy in FINE else COARSE)
    ]
    swept += [Setting(policy, "", ()) for policy in (LIGHT, HEAVY)]
    swept += [
        Setting(STATIC, f"x {f:g}", (("batch", 4), ("overprovision", f), ("peak_rps", peak_rps))) for f in OF_PEAK
    ]
    swept += [Setting(RANDOM, f"heavy {s:g}", (("batch", 4), ("heavy_share", s))) for s in (0.1, 0.3, 0.5)]
    return [setting for setting in swept if setting.policy in QUICK] if is_quick else swept


def cells(base: Cell, chosen: Sequence[Setting]) -> dict[Setting, Cell]:
    """What is run for each."""
    return {s: with_parameters(dataclasses.replace(base, policy=s.policy), dict(s.parameters)) for s in chosen}


def best_at(
    level: float, found: Mapping[Setting, Mean], policies: Sequence[str], figure: str = "quality"
) -> Setting | None:
    """The setting of these policies with the best quality and at most so many violations; None: none has so few."""
    within = [s for s, mean in found.items() if s.policy in policies and mean.violations <= level]
    return max(within, key=lambda s: found[s].of(figure)) if within else None


class Compared(NamedTuple):
    """At one level of violations."""

    trace: str
    level: float
    ours: Setting | None
    our_mean: Mean | None
    other: Setting | None
    other_mean: Mean | None
    ahead: PairedDifference | None  # of quality, ours above the other's; None: one of them has too many violations
    verdict: str = ""

    @property
    def is_better(self) -> bool:
        """Beyond chance, or alone within the violations."""
        return self.verdict == AHEAD

    @property
    def is_behind(self) -> bool:
        """Beyond chance, or not within the violations where another is."""
        return self.verdict == BEHIND


def compared(
    trace: str,
    level: float,
    found: Mapping[Setting, Mean],
    our: Sequence[str],
    others: Sequence[str],
    figure: str = "quality",
) -> Compared:
    """The best of ours and of the others at a level, seed by seed. The verdict is `decided` with those of its table."""
    ours, other = best_at(level, found, our, figure), best_at(level, found, others, figure)
    our_mean, other_mean = (found[s] if s else None for s in (ours, other))
    if our_mean is None or other_mean is None:
        return Compared(trace, level, ours, our_mean, other, other_mean, None)
    ahead = paired(our_mean.each(figure), other_mean.each(figure))
    return Compared(trace, level, ours, our_mean, other, other_mean, ahead)


def decided(rows: Sequence[Compared], margin: float) -> list[Compared]:
    """Give all rows of a table their verdicts; settings that meet at several levels of a trace are one comparison."""
    pairs = {(row.trace, row.ours, row.other): row.ahead for row in rows if row.ahead is not None}
    words = dict(zip(pairs, verdicts(list(pairs.values()), margin), strict=True))
    return [row._replace(verdict=_verdict(row, words)) for row in rows]


def _verdict(row: Compared, words: Mapping[tuple[str, Setting | None, Setting | None], str]) -> str:
    if row.ahead is not None:
        return words[row.trace, row.ours, row.other]
    if row.ours is not None:
        return AHEAD
    return UNDECIDED if row.other is None else BEHIND
