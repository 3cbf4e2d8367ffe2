"""Makes a classifier and a discriminator for the levels of a catalog, and measures what both are worth.

Every level generates the prompts, a scorer judges the images, and the prompts are divided in three: from the first part
the judges are fitted, by the second the discriminator's confidences are calibrated, and on the third all figures are
measured, so that none is of an image that a judge was made from. A judge counts as better than random if the lower end
of its recovery's 95 % interval is above 0: the share of an oracle's gain over random escalation. Others are not
promoted: the catalog that is written names only those that are.

Source: ARGUS 4.1 (a predictor of quality for each level), DiffServe 3.2 and HADIS 3.3 (a discriminator of the first
level's images). Ours: any scorer, held-out recovery with an interval, and the verdict.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from PIL import Image

from agents.learning.catalog import NAME, Judges, with_judges
from agents.learning.discriminators.fitting import real_against_generated
from agents.learning.kinds import Fitting, classifier, discriminator
from agents.learning.progress import shown
from agents.learning.recovery import recovery
from agents.profiling.generation.orders import GeneratedImages, Order, StoredImages
from agents.profiling.generation.pool import GenerationPool
from agents.profiling.generation.quality import Scorer, at_standard, name_of
from agents.profiling.generation.scoring import Scoring
from agents.profiling.generation.sweeps import order
from agents.profiling.profiling import Timing, clock_of
from agents.profiling.rounds import Measured
from agents.profiling.run import Found, Wanted, run, with_fewer_judges
from agents.profiling.seeded_prompts import SeededPrompts
from planner.catalog.entries import Variant, run_ms
from planner.catalog.evidence.estimates import share_interval
from planner.catalog.model import Catalog, Pair
from schemas.errors import PochadeError
from streams.parsing import catalog as catalog_text
from streams.store.input_images import FORMATS

LEAST: Final = 40  # prompts, below which no part says anything
FITTED, CALIBRATED = 0.5, 0.15  # shares of the prompts; the rest is held out
GOOD: Final = 0.1  # quantile of the best level's scores that is the standard, where the scorer has none of its own
SIDE: Final = 256  # px; what judges learn from is no larger
NOT_TIMED: Final = "times of levels: those of the catalog are used; `pochade profile` times them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be learned."""

    catalog: Catalog
    text: str  # its TOML
    prompts: SeededPrompts
    scorer: Scorer
    standard: float | None  # score from which an image is good enough; None: `standard_of`
    pairs: int  # prompts learned from that the levels beside the fastest generate too
    fitting: Fitting
    seed: int
    out: Path  # folder to write the catalog, its profile and the judges to
    models: Path
    jobs: int = 1
    devices: tuple[int, ...] = ()


class Worth(NamedTuple):
    """The recovery of a judge on held-out prompts: its part of an oracle's gain over random escalation."""

    recovery: float
    low: float  # of the 95 % interval, over the choice of prompts
    high: float
    prompts: int

    @property
    def is_promoted(self) -> bool:
        """Whether it is shown to be better than random."""
        return self.low > 0

    def in_words(self) -> str:
        """Return it as one sentence."""
        if math.isnan(self.recovery):
            return "its levels do not differ on the held-out prompts, and no judge can help: not promoted"
        shown = f"recovers {self.recovery:.2f} [{self.low:.2f}, {self.high:.2f}] of an oracle's gain on {self.prompts}"
        return f"{shown} held-out prompts" + ("" if self.is_promoted else ": not better than random, not promoted")


class Learned(NamedTuple):
    """What was learned: the files are in the folder that was asked for."""

    pair: Pair
    standard: float
    right: Mapping[str, float]  # level -> share of the held-out images at standard
    worth: Mapping[str, Worth]  # "discriminator", "classifier"
    wanted: Wanted  # the profile of the held-out prompts
    found: Found
    text: str  # of the catalog, with the judges that are promoted

    def interval(self, level: str) -> tuple[float, float]:
        """The 95 % interval of a level's share at standard."""
        known = int((~np.isnan(self.found.generated[level].quality)).sum())
        return share_interval(self.right[level], known)


class Parts(NamedTuple):
    """Rows of the prompts, int [n]."""

    fit: np.ndarray
    choose: np.ndarray
    test: np.ndarray

    @property
    def taught(self) -> np.ndarray:
        """The rows to fit with, then those to calibrate with."""
        return np.concatenate([self.fit, self.choose])


def parts_of(count: int, seed: int) -> Parts:
    """Divide the prompts at random. Raises PochadeError for too few."""
    if count < LEAST:
        raise PochadeError(f"{count} prompts are too few to learn from: give {LEAST} or more, better thousands")
    rows = np.random.default_rng(seed).permutation(count)
    ends = int(FITTED * count), int((FITTED + CALIBRATED) * count)
    return Parts(*(np.sort(part) for part in np.split(rows, ends)))


def pair_of(catalog: Catalog) -> tuple[str, str]:
    """Return the fastest and the best level, between which the discriminator decides. Raises PochadeError for one."""
    levels = by_time(catalog)
    if len(levels) < 2:
        raise PochadeError(f"catalog {catalog.name!r} has one level: there is nothing to decide between")
    if catalog.cascades:
        return catalog.cascades[0].light, catalog.cascades[0].heavy
    return levels[0].name, levels[-1].name


def by_time(catalog: Catalog) -> list[Variant]:
    """The levels, the fastest first."""
    return sorted(catalog.variants.values(), key=lambda variant: run_ms(variant, 1))


def learn(asked: Asked) -> Learned:
    """Generate, judge, fit and measure; generated images are kept in <out>/.cache, so that a repeated run goes on.

    Raises PochadeError, EngineFailed.
    """
    parts, (light, heavy) = parts_of(len(asked.prompts.prompts), asked.seed), pair_of(asked.catalog)
    Scoring(asked.scorer).check()
    images = _generated(asked, parts)
    standard = standard_of(asked, images[heavy].quality)
    judged = {name: at_standard(each.quality, standard) for name, each in images.items()}
    _check_labels(asked, judged)
    first, last = asked.catalog.level(light), asked.catalog.level(heavy)
    refines = (first.width, first.height) == (last.width, last.height) and last.steps > 1
    judges = Judges(light, heavy, tuple(variant.name for variant in by_time(asked.catalog)), None, None, refines)
    if asked.fitting.discriminator:
        judges = judges._replace(discriminator=_fit_discriminator(asked, parts, images, light, judged[light]))
    if asked.fitting.classifier:
        judges = judges._replace(classifier=_fit_classifier(asked, parts, judged))
    return _measured(asked, parts, judges, standard)


def standard_of(asked: Asked, best: np.ndarray) -> float:
    """Return the score from which an image is good enough.

    That of the option; .5 of labels, facts and probabilities; else what nine of ten images of the best level reach.
    """
    if asked.standard is not None:
        return asked.standard
    if isinstance(asked.scorer, str) or asked.scorer.engine in ("learned", "classifier"):
        return 0.5
    return float(np.nanquantile(best, GOOD))


def worth_of(difficulty: np.ndarray, light: np.ndarray, heavy: np.ndarray, seed: int) -> Worth:
    """Measure a ranking of prompts [n], the hardest with the highest value; light and heavy [n] in 0..1 or nan."""
    known = ~(np.isnan(light) | np.isnan(heavy) | np.isnan(difficulty))
    found = recovery(-difficulty[known], light[known], heavy[known], seed)
    return Worth(found.value, found.low, found.high, int(known.sum()))


def orders_to_learn(asked: Asked, parts: Parts, judged_by: str = "") -> dict[str, Order]:
    """The prompts to fit and calibrate with, by level; a dearer level has the first `pairs` of them."""
    rows, levels = parts.taught, by_time(asked.catalog)
    counts = {variant.name: len(rows) if variant is levels[0] else min(asked.pairs, len(rows)) for variant in levels}
    return {
        variant.name: order(variant, asked.prompts.at(rows[: counts[variant.name]]), judged_by=judged_by)
        for variant in levels
    }


def _generated(asked: Asked, parts: Parts) -> dict[str, GeneratedImages]:
    """The judged images of `orders_to_learn`."""
    scoring = Scoring(asked.scorer)
    pool = GenerationPool(asked.out / ".cache", jobs=asked.jobs, devices=asked.devices)
    return scoring.generate(pool, orders_to_learn(asked, parts, scoring.marked_by()))


def _check_labels(asked: Asked, judged: Mapping[str, np.ndarray]) -> None:
    for name, quality in judged.items():
        if len(quality) and np.isnan(quality).all():
            raise PochadeError(f"scorer {name_of(asked.scorer)} judged no image of level {name!r}")


def _real(named: str, generated: Mapping[str, GeneratedImages]) -> Sequence[np.ndarray]:
    """Return uint8 [h, w, 3] each: the images of a level, or all of a folder. Raises PochadeError."""
    if named in generated:
        return list(small(generated[named].stored()))
    files = [
        file for file in sorted(Path(named).rglob("*")) if file.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp")
    ]
    if not files:
        raise PochadeError(f"{named} is no level and no folder with images: correct --real")
    return [_small(np.asarray(Image.open(file, formats=FORMATS).convert("RGB"))) for file in files]


def _fit_discriminator(
    asked: Asked, parts: Parts, generated: Mapping[str, GeneratedImages], light: str, right: np.ndarray
) -> Path:
    """Fit on the first part, calibrate by the second; return the folder.

    Source of `real`: DiffServe 3.2, and 4.4 for the images of a better level in place of photographs.
    """
    images = generated[light]
    rows = parts.taught
    known = np.flatnonzero(~np.isnan(right))
    fitted, chosen = known[known < len(parts.fit)], known[known >= len(parts.fit)]
    if not len(fitted) or not len(chosen):
        raise PochadeError(f"scorer {name_of(asked.scorer)} judged too few images of the first level to learn from")
    prompts, stored, how = [asked.prompts.prompts[row] for row in rows], images.stored(), asked.fitting
    drafts = small(stored.at(fitted))
    if how.real:
        examples = real_against_generated(_real(how.real, generated), list(drafts))
    else:
        examples = list(drafts), [prompts[row] for row in fitted], right[fitted]
    with shown(f"fitting {how.discriminator}") as progress:
        judge = discriminator(how)(*examples, seed=asked.seed, progress=progress)
    raw = judge.logits(small(stored.at(chosen)), [prompts[row] for row in chosen])
    folder = asked.out / "discriminators" / NAME
    judge.save(folder, NAME, raw, right[chosen])
    return folder.resolve()


def _fit_classifier(asked: Asked, parts: Parts, judged: Mapping[str, np.ndarray]) -> Path:
    levels = [variant.name for variant in by_time(asked.catalog)]
    rows = parts.taught
    quality = np.full((len(rows), len(levels)), np.nan)
    for column, name in enumerate(levels):
        quality[: len(judged[name]), column] = judged[name]
    prompts, how = [asked.prompts.prompts[row] for row in rows], asked.fitting
    folder = asked.out / "classifiers" / NAME
    with shown(f"fitting {how.classifier}") as progress:
        classifier(how)(prompts, quality, levels, asked.seed, progress=progress).save(folder)
    return folder.resolve()


def small(images: StoredImages) -> np.ndarray:
    """uint8 [n, h, w, 3], none wider or higher than SIDE px; read part by part."""
    return np.concatenate([np.stack([_small(image) for image in part.read()]) for part in images.parts()])


def _small(image: np.ndarray) -> np.ndarray:
    if max(image.shape[:2]) <= SIDE:
        return image
    shrunk = Image.fromarray(image)
    shrunk.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(shrunk)


def _measured(asked: Asked, parts: Parts, judges: Judges, standard: float) -> Learned:
    """Profile the held-out prompts with both judges; those that are not promoted then leave the profile."""
    held_out = asked.prompts.at(parts.test)
    wanted = Wanted(
        catalog=_catalog(asked, judges), levels=tuple(asked.catalog.variants), asked=held_out, batches=(1,),
        models=asked.models, seed=asked.seed, scorer=asked.scorer, standard=standard, devices=asked.devices,
        drafts=len(parts.test), left_out=(NOT_TIMED,),
    )  # fmt: skip
    measured = {name: _as_catalogued(asked.catalog.level(name)) for name in wanted.levels}
    found = run(wanted, asked.out / ".cache", asked.jobs, measured)
    light, heavy = (found.generated[name].quality for name in (judges.light, judges.heavy))
    worth = {}
    if judges.discriminator:
        confidence = next(each.confidence for each in found.cascades if each.pair.discriminator == NAME)
        known = np.full(len(light), np.nan) if confidence is None else confidence
        worth["discriminator"] = worth_of(-known, light, heavy, asked.seed)
    if judges.classifier:
        worth["classifier"] = worth_of(found.hardness, light, heavy, asked.seed)
    failed = [kind for kind, each in worth.items() if not each.is_promoted]
    promoted = judges._replace(
        discriminator=None if "discriminator" in failed else judges.discriminator,
        classifier=None if "classifier" in failed else judges.classifier,
    )
    if promoted != judges:
        wanted = replace(wanted, catalog=_catalog(asked, promoted))
        found = with_fewer_judges(found, wanted)
    right = {name: float(np.nanmean(each.quality)) for name, each in found.generated.items()}
    pair = Pair(judges.light, judges.heavy, NAME if promoted.discriminator else "")
    return Learned(pair, standard, right, worth, wanted, found, with_judges(asked.text, promoted))


def _as_catalogued(variant: Variant) -> Measured:
    """The times that the catalog has: learning measures judges, and changes no level."""
    calls = {
        batch: Timing(ms=ms, low_ms=ms, high_ms=ms, cpu_ms=ms, wall_ms=ms, repeats=0)
        for batch, ms in variant.latency_ms.items()
    }
    return Measured(
        clock=clock_of(variant, 1), cold_load_ms=variant.load_ms, load_ms=variant.load_ms, memory_bytes=0, cuda_bytes=0,
        calls=calls, failed={},
    )  # fmt: skip


def _catalog(asked: Asked, judges: Judges) -> Catalog:
    return catalog_text.parse(with_judges(asked.text, judges), asked.catalog.name)


def figures(learned: Learned) -> dict[str, Any]:
    """Return what learned.json has; a figure that is not known is None."""
    whole: dict[str, Any] = {"right": {name: round(share, 4) for name, share in learned.right.items()}}
    whole |= {kind: {**worth._asdict(), "promoted": worth.is_promoted} for kind, worth in learned.worth.items()}
    known = {kind: {name: None if np.isnan(n) else n for name, n in each.items()} for kind, each in whole.items()}
    return {"standard": learned.standard, **known}
