"""Which policy paints best at so many violations, with over-provisioning swept for every one of them.

A policy's quality at a level of violations is that of its best swept setting with at most as many, by mean over seeds.
Settings are chosen with few seeds; those that matter, of ours and of the best other, are run again with all, so that
the difference is not that of the luckiest draw.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
from replay.reports.intervals import Difference, difference

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


def best_at(level: float, found: Mapping[Setting, Mean], policies: Sequence[str]) -> Setting | None:
    """The setting of these policies with the best quality and at most so many violations; None: none has so few."""
    within = [s for s, mean in found.items() if s.policy in policies and mean.violations <= level]
    return max(within, key=lambda s: found[s].of("quality")) if within else None


class Compared(NamedTuple):
    """At one level of violations."""

    level: float
    ours: Setting | None
    our_mean: Mean | None
    other: Setting | None
    other_mean: Mean | None
    ahead: Difference | None  # of quality, ours above the other's; None: one of them has too many violations
    is_met: bool  # at least the other's less the slack

    @property
    def is_better(self) -> bool:
        """Beyond chance, or alone."""
        if self.ours is None:
            return False
        return self.ahead is None or (self.ahead.interval is not None and self.ahead.interval[0] > 0)


def compared(
    level: float, found: Mapping[Setting, Mean], slack: float, our: Sequence[str], others: Sequence[str]
) -> Compared:
    """The best of ours and of the others at a level, seed by seed."""
    ours, other = best_at(level, found, our), best_at(level, found, others)
    if ours is None or other is None:
        means = (found[s] if s else None for s in (ours, other))
        our_mean, other_mean = means
        return Compared(level, ours, our_mean, other, other_mean, None, ours is not None or other is None)
    before, after = found[other].each("quality"), found[ours].each("quality")
    seeds = range(len(after))
    ahead = difference(before, after, seeds, seeds)
    return Compared(level, ours, found[ours], other, found[other], ahead, ahead.mean >= -slack)
