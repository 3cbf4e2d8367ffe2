"""Profiles a catalog: time and memory of every level, and its quality on the same prompts where it can be judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from agents.components.opening import Keeping
from agents.engines import CannotRefine
from agents.profiling import world
from agents.profiling.classes import classes_by_strategy
from agents.profiling.generation.orders import GeneratedImages, Order, StoredImages
from agents.profiling.generation.pool import GenerationPool, work_ms
from agents.profiling.generation.quality import FACTS, Scorer, name_of
from agents.profiling.generation.rankers import JUDGED, Rankers, find, judging_ms, per_prompt_ms, runs_on_cpu
from agents.profiling.generation.scoring import Scoring
from agents.profiling.generation.sweeps import nearest, order, refinement_orders, step_shares, steps_to_try, sweep
from agents.profiling.profiling import NOTHING, Besides
from agents.profiling.rounds import ROUNDS, Measured, time_levels
from agents.profiling.seeded_prompts import SeededPrompts
from agents.profiling.statistics.intervals import Resampling
from agents.profiling.statistics.sweeps import Sweep, choose_k
from planner.catalog.entries import Variant
from planner.catalog.judges import PROFILE
from planner.catalog.model import Catalog, Pair

SWEPT = 300  # prompts that are generated from every step, unless more are asked for
NEAREST = "nearest stored prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of a profile: levels, prompts and amounts."""

    catalog: Catalog
    levels: tuple[str, ...]
    asked: SeededPrompts  # calibration prompts
    batches: tuple[int, ...]
    models: Path  # where the scorer lies
    seed: int
    scorer: Scorer = ""  # for images whose facts cannot be read, as in `quality.judge`; "": they are not judged
    standard: float | None = None  # score from which an image is good enough: quality is then 1, and 0 below it
    is_generating: bool = True  # False: times and memory only
    drafts: int = SWEPT  # prompts whose drafts are refined from every step, the first of them
    threads: int = 1
    rounds: int = ROUNDS  # of timing
    budget_s: float = 60.0  # for the repeats of one batch size
    keeping: Keeping = field(default_factory=Keeping)  # where engines have their volume
    besides: Besides = NOTHING  # what is timed besides
    devices: tuple[int, ...] = ()  # cards, as nvidia-smi counts; (): as engines choose
    left_out: tuple[str, ...] = ()  # what there was no time for, in words

    def standard_in_words(self) -> str:
        """Return what makes an image right."""
        if self.standard is None or self.scorer == FACTS:
            return "all stated facts hold"
        return f"a score of {self.standard:.4g} or more by {name_of(self.scorer)}"

    def judge_of(self, variant: Variant) -> Scorer:
        """Return the scorer of the variant's images; "" without one."""
        if self.scorer:
            return self.scorer
        there = world.installed()
        return FACTS if there and there.reads(variant) else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CascadeFound:
    """One cascade on the calibration prompts."""

    pair: Pair
    confidence: np.ndarray | None  # [n] in light's images
    confidence_ms: float
    sweep: Sweep | None
    chosen_k: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Everything measured."""

    measured: dict[str, Measured]
    generated: dict[str, GeneratedImages]  # level -> its images of the calibration prompts, where they are judged
    cascades: tuple[CascadeFound, ...]
    reuse: dict[str, Sweep]
    hardness: np.ndarray  # [n]
    missing: tuple[str, ...]
    classes: Mapping[str, np.ndarray] = field(default_factory=dict)  # strategy -> predicted class, str [n]
    judging_ms: Mapping[str, dict[int, float]] = field(default_factory=dict)  # discriminator -> images -> ms


def run(wanted: Wanted, folder: Path, jobs: int, measured: dict[str, Measured] | None = None) -> Found:
    """Measure what is not measured yet. `measured`: the levels' times, where they are known.

    Raises EngineFailed where a level cannot be loaded.
    """
    variants = [wanted.catalog.level(name) for name in wanted.levels]
    Scoring(wanted.scorer).check()
    measured = measured or time_levels(
        variants, wanted.batches, folder, threads=wanted.threads, budget_s=wanted.budget_s, keeping=wanted.keeping,
        besides=wanted.besides, rounds=wanted.rounds, devices=wanted.devices,
    )  # fmt: skip
    if not wanted.is_generating:
        left_out = wanted.left_out
        return Found(measured=measured, generated={}, cascades=(), reuse={}, hardness=np.zeros(0), missing=left_out)
    pool = GenerationPool(folder, jobs=jobs, threads=wanted.threads, keeping=wanted.keeping, devices=wanted.devices)
    return _Study(wanted, pool, find(wanted.catalog, wanted.models)).found(measured)


def with_fewer_judges(found: Found, wanted: Wanted) -> Found:
    """Return what was found, as it is for a catalog without some of its judges: only prompts are judged again."""
    judged = find(wanted.catalog, wanted.models).judged(wanted.asked.prompts)
    hardness, pairs = np.array([each.hardness for each in judged]), pairs_of(wanted)
    cascades = tuple(
        replace(each, chosen_k=_chosen(each.sweep, hardness, wanted.seed))
        for each in found.cascades if each.pair in pairs
    )  # fmt: skip
    return replace(
        found, cascades=cascades, reuse=found.reuse if pairs else {}, hardness=hardness,
        classes=classes_by_strategy(judged),
        judging_ms={name: ms for name, ms in found.judging_ms.items() if name in wanted.catalog.discriminators},
    )  # fmt: skip


def _chosen(swept: Sweep | None, hardness: np.ndarray, seed: int) -> int:
    return (choose_k(swept, hardness, Resampling(seed=seed)) or 0) if swept is not None else 0


class _Study:
    """The generation and judging of the calibration prompts by levels and cascades."""

    def __init__(self, wanted: Wanted, pool: GenerationPool, rankers: Rankers) -> None:
        self._wanted, self._pool, self._rankers = wanted, pool, rankers
        self._scoring = Scoring(wanted.scorer, wanted.standard)
        self._pairs = pairs_of(wanted)
        self._generated: dict[str, GeneratedImages] = {}
        self._shares: dict[str, dict[int, float]] = {}  # of those levels that are swept
        judged = rankers.judged(wanted.asked.prompts)
        self._hardness, self._classes = np.array([each.hardness for each in judged]), classes_by_strategy(judged)

    def found(self, measured: dict[str, Measured]) -> Found:
        wanted = self._wanted
        judged = [name for name in wanted.levels if wanted.judge_of(wanted.catalog.level(name))]
        orders = {name: self._order(wanted.catalog.level(name), wanted.asked) for name in generated_levels(wanted)}
        swept = self._pairs if self._scoring.judges_refined else []
        heavies = [wanted.catalog.level(pair.heavy) for pair in swept if pair.heavy in judged]
        later_ms = sum(sweep_ms(variant, wanted) for variant in heavies)
        self._generated = self._scoring.generate(self._pool, orders, later_ms)
        return Found(
            measured=measured,
            generated={name: self._generated[name] for name in judged},
            cascades=tuple(self._cascade(pair) for pair in self._pairs),
            reuse=self._reuse(self._pairs[0].heavy) if self._pairs else {},
            hardness=self._hardness,
            missing=tuple(dict.fromkeys([*wanted.left_out, *self._rankers.missing])),
            classes=self._classes,
            judging_ms=self._judging_ms(),
        )

    def _judging_ms(self) -> dict[str, dict[int, float]]:
        """Time each discriminator of the catalog on noise of the size of its images; what cannot judge is left out."""
        catalog, found = self._wanted.catalog, {}
        noise = np.random.default_rng(self._wanted.seed)
        for name, entry in catalog.discriminators.items():
            if entry.engine == PROFILE or name not in self._rankers.discriminators:
                continue
            level = next((catalog.level(pair.light) for pair in self._pairs if pair.discriminator == name), None)
            size = level or catalog.cheapest()
            images = [noise.integers(0, 256, (size.height, size.width, 3), np.uint8) for _ in range(JUDGED[-1])]
            judge = self._rankers.discriminators[name]
            found[name] = judging_ms(judge, images, self._wanted.asked.prompts, by_cpu=runs_on_cpu(entry))
        return found

    def _order(self, variant: Variant, asked: SeededPrompts) -> Order:
        marked_by = FACTS if self._wanted.judge_of(variant) == FACTS else ""
        return order(variant, asked, judged_by=marked_by, threads=self._wanted.threads)

    def _cascade(self, pair: Pair) -> CascadeFound:
        if pair.light not in self._generated:
            self._rankers.missing.append(f"cascade from {pair.light}: its images are not judged")
            return CascadeFound(pair=pair, confidence=None, confidence_ms=0.0, sweep=None, chosen_k=0)
        images, prompts = self._generated[pair.light].stored(), self._wanted.asked.prompts
        confidence, ms = None, 0.0
        if judge := self._rankers.discriminators.get(pair.discriminator):
            confidence, first = self._confidences(pair.discriminator, images), next(images.parts()).read()[0]
            ms = per_prompt_ms(lambda text: judge([first], [text]), prompts) if confidence is not None else 0.0
        rows = self._rows(pair.heavy, self._wanted.drafts)
        swept = self._swept(f"over {pair.light}", pair.heavy, images, rows, is_fresh=True)
        chosen = _chosen(swept, self._hardness, self._wanted.seed)
        return CascadeFound(pair=pair, confidence=confidence, confidence_ms=ms, sweep=swept, chosen_k=chosen)

    def _confidences(self, discriminator: str, images: StoredImages) -> np.ndarray | None:
        """[n] in all images, part by part; None, with a line in `missing`, where it cannot read them."""
        found, prompts = [], self._wanted.asked.prompts
        for part in images.parts():
            some = self._rankers.confidences(discriminator, list(part.read()), [prompts[row] for row in part.rows])
            if some is None:
                return None
            found.append(some)
        return np.concatenate(found)

    def _reuse(self, level: str) -> dict[str, Sweep]:
        """Sweeps of the level begun from its image of the nearest prompt that is not swept itself."""
        rows = self._rows(level, min(SWEPT, max(1, len(self._wanted.asked.prompts) // 2)))
        others = np.setdiff1d(np.arange(len(self._wanted.asked.prompts)), rows)
        if self._rankers.scorer is None or not len(rows) or not len(others):
            return {}
        embedded = self._rankers.scorer.embed_prompts(self._wanted.asked.prompts)
        stored = np.arange(len(embedded))
        stored[rows] = others[nearest(embedded[rows], embedded[others])]
        swept = self._swept(NEAREST, level, self._generated[level].stored().at(stored), rows, is_fresh=False)
        return {} if swept is None else {level: swept}

    def _rows(self, level: str, most: int) -> np.ndarray:
        """Return int [m], the prompts to sweep: the first `most` on which the level's images are judged."""
        if level not in self._generated:
            return np.zeros(0, int)
        return np.flatnonzero(~np.isnan(self._generated[level].quality))[:most]

    def _swept(self, name: str, level: str, images: StoredImages, rows: np.ndarray, *, is_fresh: bool) -> Sweep | None:
        """Sweep from images of all prompts. Returns None, with a line in `missing`, if it cannot be run or judged."""
        variant, asked = self._wanted.catalog.level(level), self._wanted.asked.at(rows)
        steps = steps_to_try(variant.steps)
        if not self._scoring.judges_refined:
            self._rankers.missing.append(f"{level} {name}: labels are of images from noise")
            return None
        if not len(rows) or not steps or images.at(rows[:1]).read().shape[1:3] != (variant.height, variant.width):
            self._rankers.missing.append(f"{level} {name}: it has one step, another size, or no judge")
            return None
        blank = self._order(variant, asked.with_fresh_noise() if is_fresh else asked)
        try:
            found = self._scoring.generate(self._pool, refinement_orders(name, blank, images.at(rows), steps))
            if level not in self._shares:
                self._shares[level] = self._pool.in_a_process(
                    step_shares, variant, steps, threads=self._wanted.threads, budget_s=self._wanted.budget_s,
                    keeping=self._wanted.keeping,
                )  # fmt: skip
        except CannotRefine as error:
            self._rankers.missing.append(f"{level} {name}: {error}")
            return None
        return sweep(name, self._shares[level], found, self._generated[level], rows)


def pairs_of(wanted: Wanted) -> list[Pair]:
    """Return the cascades of which both levels are measured."""
    return [pair for pair in wanted.catalog.cascades if {pair.light, pair.heavy} <= set(wanted.levels)]


def generated_levels(wanted: Wanted) -> list[str]:
    """Return the levels that generate the prompts: those that are judged, or whose images a discriminator sees."""
    judged = [name for name in wanted.levels if wanted.judge_of(wanted.catalog.level(name))]
    looked_at = [
        pair.light for pair in pairs_of(wanted) if wanted.catalog.discriminator(pair.discriminator).engine != "profile"
    ]
    return list(dict.fromkeys([*judged, *looked_at]))


def sweep_ms(variant: Variant, wanted: Wanted) -> float:
    """Predicted ms of one process to refine the drafts of a cascade from every step."""
    count = min(wanted.drafts, len(wanted.asked.prompts))
    return sum(work_ms(variant, count, k) for k in steps_to_try(variant.steps))
