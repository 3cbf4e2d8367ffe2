"""Every setting of a pair's router, discriminator and start step, evaluated on the measured prompts.

A setting: prompts from a hardness theta on go straight to heavy; of the others' drafts those with a confidence below
tau are generated again, from step K of heavy over the draft. Source: HADIS 3.2, offline sweep; steps are ours.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog, Pair
from planner.catalog.profile import Profile
from planner.catalog.prompt_table import PromptTable

HARDNESS = tuple(at / 20 for at in range(21))
DEFERRED = tuple(at / 20 for at in range(21))  # shares of light's images below the thresholds that are tried


class Setting(NamedTuple):
    """One combination, and what it costs."""

    pair: Pair  # with its start step
    hardness: float  # theta
    threshold: float  # tau
    straight: float  # r, share of requests
    deferred: float  # d, share of the drafts
    cost_ms: float  # expected generating and judging time of a request, batch 1
    path_ms: float  # of the longest way that a request can take
    prompts: int  # of the smallest of its parts


@dataclass(frozen=True, eq=False, slots=True)
class Grounds:
    """The measured prompts that both levels of a pair generated and whose drafts were judged."""

    bands: np.ndarray  # int [n], of hardness
    widths: np.ndarray  # [b] of the bands: their share of the reference prompts, 0 where none lies in a band here
    hardness: np.ndarray  # [n]
    confidence: np.ndarray  # [n]
    light: np.ndarray  # [n] quality
    heavy: np.ndarray  # [n] from noise
    change: dict[int, np.ndarray]  # K -> [n] what beginning there adds; nan where it was not generated


def is_judged(pair: Pair, prompts: PromptTable) -> bool:
    """Whether a discriminator's confidences in `pair.light`'s images and both levels' qualities were measured."""
    return _judged(pair) in _columns(prompts) and {pair.light, pair.heavy} <= set(prompts.levels)


def known(pair: Pair, prompts: PromptTable) -> np.ndarray:
    """bool [n]: the prompts of which all of that is known, for a pair that `is_judged`."""
    confidence = prompts.confidence[:, _columns(prompts).index(_judged(pair))]
    return np.asarray(~(np.isnan(confidence) | np.isnan(prompts.of(pair.light)) | np.isnan(prompts.of(pair.heavy))))


def grounds(pair: Pair, profile: Profile, prompts: PromptTable, rows: np.ndarray) -> Grounds:
    """Return the arrays of a judged pair on the prompts of bool [n]."""
    light, heavy = prompts.of(pair.light), prompts.of(pair.heavy)
    is_first = (
        prompts.judged[0] == f"{_judged(pair)} > {pair.heavy}"
    )  # only the first pair's heavy level has start steps
    change = {int(k): np.full(len(light), np.nan) for k in prompts.over_k} if is_first else {}
    for at, one in enumerate(change.values()):
        one[prompts.over_rows] = prompts.over_quality[:, at] - heavy[prompts.over_rows]
    bands = band_of(profile, prompts)[rows]
    widths = np.diff(profile.bands) * np.isin(np.arange(len(profile.bands) - 1), bands)
    return Grounds(
        bands, widths / widths.sum(), prompts.hardness[rows].astype(float),
        prompts.confidence[rows, _columns(prompts).index(_judged(pair))], light[rows], heavy[rows],
        {k: one[rows] for k, one in change.items()},
    )  # fmt: skip


def band_of(profile: Profile, prompts: PromptTable) -> np.ndarray:
    """int [n] of hardness."""
    return np.array([profile.band(hardness) for hardness in prompts.hardness.tolist()])


def _judged(pair: Pair) -> str:
    return f"{pair.discriminator}: {pair.light}"


def _columns(prompts: PromptTable) -> list[str]:
    return [name.split(" > ")[0] for name in prompts.judged]


def settings(pair: Pair, catalog: Catalog, found: Grounds) -> Iterator[tuple[Setting, np.ndarray]]:
    """Each setting with its values [n]: what each prompt adds to the quality of all answers.

    A prompt counts for its band, a band for its width. What a start step changes rests on the prompts that it was
    generated for, and is added to the value from noise: the same prompts on both differ far less than others would.
    """
    weight = _weights(found, np.ones(len(found.bands), bool))
    thresholds = sorted({0.0, 1.0, *np.quantile(found.confidence, DEFERRED[1:-1]).round(4).tolist()})
    for hardness, threshold in itertools.product(HARDNESS, thresholds):
        straight = found.hardness >= hardness if hardness < 1 else np.zeros(len(found.bands), bool)
        again = ~straight & ((found.confidence < threshold) | (threshold == 1))
        if (straight.all() or not again.any()) and threshold > 0:
            continue  # as without a threshold
        values = weight * np.where(straight | again, found.heavy, found.light)
        for step in _steps(found, again):
            change = found.change[step] if step else np.zeros(len(again))
            generated = ~np.isnan(change)
            added = _weights(found, generated) * np.where(again & generated, np.nan_to_num(change), 0)
            shares = float(weight @ straight), float(weight @ again)
            parts = [straight, again & generated, ~(straight | again)]
            way = pair._replace(refine_from_step=step)
            yield _setting(way, catalog, (hardness, threshold), shares, parts), values + added


def _steps(found: Grounds, again: np.ndarray) -> Sequence[int]:
    """Steps to begin at: 0, which is noise, and each step that was generated in every band there is."""
    bands = set(found.bands.tolist())
    known = [k for k, one in found.change.items() if set(found.bands[~np.isnan(one)].tolist()) == bands]
    return [0, *known] if again.any() else [0]


def _weights(found: Grounds, among: np.ndarray) -> np.ndarray:
    """[n] that sum to 1 over the prompts of bool [n], each band to its width."""
    counts = np.bincount(found.bands[among], minlength=len(found.widths))
    each = np.divide(found.widths, counts, out=np.zeros(len(counts)), where=counts > 0)
    return np.asarray(np.where(among, each[found.bands], 0.0))


def _setting(
    way: Pair, catalog: Catalog, cuts: tuple[float, float], shares: tuple[float, float], parts: Sequence[np.ndarray]
) -> Setting:
    light_ms, heavy_ms = run_ms(catalog.level(way.light), 1), run_ms(catalog.level(way.heavy), 1)
    over_ms = run_ms(catalog.level(way.heavy), 1, way.refine_from_step)
    (hardness, threshold), (straight, again) = cuts, shares
    judged_ms = light_ms + (catalog.discriminator(way.discriminator).judging_ms if threshold > 0 else 0.0)
    path_ms = judged_ms + over_ms if again else judged_ms if straight < 1 else 0.0
    return Setting(
        way, hardness, threshold, straight, again / (1 - straight) if straight < 1 else 0.0,
        cost_ms=(1 - straight) * judged_ms + again * over_ms + straight * heavy_ms,
        path_ms=max(path_ms, heavy_ms if straight else 0.0),
        prompts=min(int(part.sum()) for part in parts if part.any()),
    )  # fmt: skip
