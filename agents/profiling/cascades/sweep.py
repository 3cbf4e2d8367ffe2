"""From a measured catalog to the table of cascade settings that no other beats, with intervals. Source: HADIS 3.2."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from agents.profiling.cascades.settings import Setting, band_of, grounds, is_judged, known, settings
from agents.profiling.statistics.intervals import Estimate, Resampling, resampled
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog, Pair
from planner.catalog.profile import Profile
from planner.catalog.prompt_table import PromptTable
from planner.solvers.two_stage.candidates import Candidate, pruned

HALVES = 10  # random halves of the prompts


@dataclass(frozen=True, eq=False, slots=True)
class Sweep:
    """All settings of the pairs that could be swept."""

    settings: tuple[Setting, ...]
    values: np.ndarray  # [settings, n]: what each prompt adds to the quality of all answers
    strata: np.ndarray  # int [n]: 2 x band, and 1 more where start steps were generated
    widths: np.ndarray  # [b] of the bands
    pruned: dict[str, str]  # level -> the rule that leaves it out
    unjudged: tuple[Pair, ...]  # not swept: their drafts were not judged

    @property
    def quality(self) -> np.ndarray:
        """[settings] of all answers, on the catalog's scale."""
        return np.asarray(self.values.sum(axis=1))

    def by_band(self, at: int) -> tuple[float | None, ...]:
        """A setting's quality by band of hardness; None where no prompt lies in it."""
        sums = np.bincount(self.strata // 2, self.values[at], minlength=len(self.widths))
        return tuple(float(q / w) if w > 0 else None for q, w in zip(sums, self.widths, strict=True))

    def of(self, chosen: Sequence[int]) -> "Sweep":
        """This sweep with the settings of these rows only."""
        picked = tuple(self.settings[at] for at in chosen)
        return Sweep(picked, self.values[list(chosen)], self.strata, self.widths, self.pruned, self.unjudged)


def sweep(catalog: Catalog, profile: Profile, prompts: PromptTable, show: Callable[[str], object]) -> Sweep:
    """Evaluate every setting of every pair of levels (quicker, slower) that no rule of HADIS 3.2 drops.

    `show` is called with each pair before it is evaluated.
    """
    dropped = pruned(
        Candidate(name, run_ms(catalog.level(name), 1), level.quality)
        for name, level in profile.levels.items()
        if level.quality is not None and name in catalog.variants
    )
    pairs = list(_pairs(catalog, [name for name in profile.levels if name not in dropped]))
    judged = [pair for pair in pairs if is_judged(pair, prompts)]
    rows = np.logical_and.reduce([np.ones(len(prompts.prompts), bool), *(known(pair, prompts) for pair in judged)])
    found: list[tuple[Setting, np.ndarray]] = []
    for pair in judged if rows.any() else ():
        show(f"{pair.light} then {pair.heavy}")
        found += settings(pair, catalog, grounds(pair, profile, prompts, rows))
    bands = band_of(profile, prompts)[rows]
    widths = np.diff(profile.bands) * np.isin(np.arange(len(profile.bands) - 1), bands)
    started = np.isin(np.flatnonzero(rows), prompts.over_rows)
    return Sweep(
        tuple(setting for setting, _ in found),
        np.array([values for _, values in found]).reshape(len(found), int(rows.sum())),
        2 * bands + started,
        widths / max(float(widths.sum()), 1e-12),
        dropped,
        tuple(pair for pair in pairs if pair not in judged),
    )


def front(seen: Sweep, sure: float) -> list[int]:
    """The settings that no other beats, the cheapest first.

    One stays if it is better than each kept one that is neither dearer nor longer on its way, by more than `sure`
    standard errors of their difference on the same prompts. Source: HADIS 3.2, table pruning, there with cost and
    quality alone; we differ: an SLO bounds the longest way, and what chance can explain is no gain.
    """
    quality = seen.quality
    order = sorted(
        range(len(seen.settings)), key=lambda at: (seen.settings[at].cost_ms, seen.settings[at].path_ms, -quality[at])
    )
    kept: list[int] = []
    for at in order:
        rivals = [k for k in kept if seen.settings[k].path_ms <= seen.settings[at].path_ms]
        gains = quality[at] - quality[rivals]
        if (gains > 0).all() and (gains > sure * _errors(seen, at, rivals)).all():
            kept.append(at)
    return kept


def optimism(seen: Sweep, sure: float, seed: int) -> float | None:
    """Return how much quality rows chosen on half of the prompts lose on the other half; None for too few prompts."""
    if not len(seen.settings) or np.bincount(seen.strata)[np.unique(seen.strata)].min() < 2:
        return None
    rng, gaps = np.random.default_rng(seed), []
    for _ in range(HALVES):
        half = _half(seen.strata, rng)
        chosen, other = _only(seen, half), _only(seen, ~half)
        rows = front(chosen, sure)
        gaps.append(float((chosen.quality[rows] - other.quality[rows]).mean()))
    return float(np.mean(gaps))


def intervals(seen: Sweep, how: Resampling) -> list[Estimate]:
    """Intervals of each setting's quality, by resampling prompts within bands of fixed widths."""
    if not len(seen.settings):
        return []
    bands = seen.strata // 2
    there = np.bincount(bands)

    def statistic(rows: np.ndarray) -> np.ndarray:
        drawn = np.bincount(rows, minlength=len(bands))
        per_band = np.bincount(bands, drawn)
        scale = np.divide(there, per_band, out=np.zeros(len(there)), where=per_band > 0)
        return np.asarray(seen.values @ (drawn * scale[bands]))

    found = resampled(statistic, len(bands), how)
    return [found.estimate(at) for at in range(len(seen.settings))]


def _pairs(catalog: Catalog, levels: Sequence[str]) -> Iterator[Pair]:
    """Quicker then slower, by each discriminator that the catalog offers of both, else by one from the quicker one."""
    by_time = sorted(levels, key=lambda name: run_ms(catalog.level(name), 1))
    for at, light in enumerate(by_time):
        for heavy in by_time[at + 1 :]:
            from_light = [pair for pair in catalog.cascades if pair.light == light]
            offered = [pair.discriminator for pair in from_light if pair.heavy == heavy]
            other = next((pair.discriminator for pair in (*from_light, *catalog.cascades)), "")
            for discriminator in dict.fromkeys(offered or [other]):
                yield Pair(light, heavy, discriminator)


def _errors(seen: Sweep, at: int, others: Sequence[int]) -> np.ndarray:
    """[others] standard error of the difference in quality, by strata."""
    differences, total = seen.values[at] - seen.values[list(others)], np.zeros(len(others))
    for stratum in np.unique(seen.strata):
        inside = differences[:, seen.strata == stratum]
        if inside.shape[1] > 1:
            total += inside.shape[1] * inside.var(axis=1, ddof=1)
    return np.asarray(np.sqrt(total))


def _half(strata: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """bool [n]: half of each stratum."""
    half = np.zeros(len(strata), bool)
    for stratum in np.unique(strata):
        rows = rng.permutation(np.flatnonzero(strata == stratum))
        half[rows[: len(rows) // 2]] = True
    return half


def _only(seen: Sweep, prompts: np.ndarray) -> Sweep:
    """The sweep on some of the prompts, bool [n], reweighted to stand for their strata."""
    counts, left = np.bincount(seen.strata), np.bincount(seen.strata[prompts], minlength=int(seen.strata.max()) + 1)
    scale = np.divide(counts, left, out=np.zeros(len(counts)), where=left > 0)[seen.strata[prompts]]
    values = seen.values[:, prompts] * scale
    return Sweep(seen.settings, values, seen.strata[prompts], seen.widths, seen.pruned, seen.unjudged)
