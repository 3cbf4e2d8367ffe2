"""Generates images of fresh prompts with every level, applies every ranker, and starts the heavy level from images.

Nothing is chosen on the prompts that figures are reported for: the hybrid and the thresholds come from other fresh
prompts, the classifiers' and discriminators' training ended before, and the step of the cascade stands in the catalog.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from agents.engines import CannotRefine
from agents.lab.evaluation.generation import scope as prompt_scope
from agents.lab.evaluation.generation.ranking import Ranked, rank
from agents.lab.evaluation.generation.samples import of_failures, of_levels, of_steps
from agents.lab.evaluation.generation.scope import Scope, fresh
from agents.lab.evaluation.observations import Evaluation, Level
from agents.lab.evaluation.report.report import Grid
from agents.lab.world import renderer
from agents.lab.world.captions import parse
from agents.lab.world.stream import STREAMS
from agents.lab.world.styles import POSTER, style_of
from agents.profiling.generation.orders import GeneratedImages, generate_images, opened
from agents.profiling.generation.pool import GenerationPool, work_ms
from agents.profiling.generation.rankers import Rankers, find
from agents.profiling.generation.sweeps import at, nearest, order, refinement_orders, step_shares, sweep
from agents.profiling.profiling import clock_of, in_turns, timing, usual_order
from agents.profiling.statistics.sweeps import Sweep
from planner.catalog.entries import Variant

FRESH, SAME, NEAREST = "fresh noise", "the draft's own noise", "nearest stored prompt"
_SHOWN = 12  # images of a row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """An evaluation with images to show, and what could not be evaluated."""

    evaluation: Evaluation
    grids: tuple[Grid, ...]
    missing: tuple[str, ...]


class EvaluationRun:
    """One evaluation under way."""

    def __init__(self, scope: Scope, pool: GenerationPool) -> None:
        """Finds all rankers first. Raises PochadeError where the main pair cannot be evaluated."""
        self._scope, self._pool = scope, pool
        self._rankers: Rankers = find(scope.catalog, scope.models)
        self._missing = self._rankers.missing
        self._missing += self._rankers.absent()
        self._levels = prompt_scope.levels(scope.catalog, self._missing)
        self._pairs = prompt_scope.pairs(scope.catalog, self._levels, self._missing)
        stream = STREAMS[scope.stream]
        self._asked = fresh(scope.seed, "test", scope.count, stream)
        self._calibration = fresh(scope.seed, "calibration", scope.calibration, stream)
        self._stored = fresh(scope.seed, "stored", scope.stored, stream)
        light, heavy, *_ = scope.catalog.pair()
        self._light, self._heavy = light, self._levels[heavy]
        self._strong = [name for name, _ in self._pairs.values()][1:]  # light levels of the other pairs
        self._costs: dict[str, float] = {}

    def run(self) -> Study:
        """Generate the images that the pool lacks, and evaluate all of them."""
        generated = self._generate_levels()
        sweeps, reuse, over = self._sweeps(generated)
        scenes = [scene for caption in self._asked.stated if (scene := parse(caption))]
        rng = np.random.default_rng([self._scope.seed, 6])
        true = np.stack([renderer.render(scene, rng) for scene in scenes])
        objects = np.array([len(scene.objects) for scene in scenes])
        self._costs = self._measured_costs()
        ranked = self._ranked(generated)
        scorer = self._rankers.scorer
        chosen = self._scope.catalog.pair().refine_from_step
        evaluation = Evaluation(
            prompts=self._asked.prompts,
            stream=self._scope.stream,
            seed=self._scope.seed,
            hardness=ranked.hardness,
            objects=objects,
            levels={name: self._level(variant, generated[name]) for name, variant in self._levels.items()},
            classifiers=ranked.classifiers,
            pairs=ranked.pairs,
            true_features=None if scorer is None else np.asarray(scorer.features(list(true)), float),
            paint_over=sweeps,
            chosen_k=chosen if sweeps and chosen in self._scope.sweep_steps else None,
            reuse=reuse,
        )
        grids = self._grids(objects, generated, over, true)
        return Study(evaluation=evaluation, grids=grids, missing=tuple(dict.fromkeys(self._missing)))

    def _generate_levels(self) -> dict[str, GeneratedImages]:
        """Level -> test images; "calibration, LEVEL"; and the heavy level's that are stored for reuse."""
        threads, in_pairs = self._scope.threads, {name for pair in self._pairs.values() for name in pair}
        orders = {name: order(variant, self._asked, threads=threads) for name, variant in self._levels.items()}
        orders |= {
            f"calibration, {name}": order(self._levels[name], self._calibration, threads=threads) for name in in_pairs
        }
        if self._rankers.scorer is not None:
            orders["stored"] = order(self._heavy, self._stored, threads=threads)
        sweeps = 2 + len(self._strong) + ("stored" in orders)
        swept_ms = work_ms(self._heavy, self._scope.swept) + self._scope.sweep_ms * sweeps
        return self._pool.generate(orders, later_ms=swept_ms)

    def _sweeps(
        self, generated: Mapping[str, GeneratedImages]
    ) -> tuple[dict[str, Sweep], dict[str, Sweep], dict[int, np.ndarray]]:
        """Sweeps of refinement and of reuse by name, and step -> the drafts refined with fresh noise from there."""
        steps, rows = self._scope.sweep_steps, np.arange(self._scope.swept)
        if not steps:
            self._missing.append(f"refinement and reuse: {self._heavy.name} has one step")
            return {}, {}, {}
        same = order(self._heavy, self._asked.first(len(rows)), threads=self._scope.threads)
        other = order(self._heavy, self._asked.first(len(rows)).with_fresh_noise(), threads=self._scope.threads)
        drafts = generated[self._light].images()[rows]
        orders = {
            FRESH: other,
            **refinement_orders(FRESH, other, drafts, steps),
            **refinement_orders(SAME, same, drafts, steps),
        }
        for strong in self._strong:
            orders |= refinement_orders(_over(strong), other, generated[strong].images()[rows], steps)
        if (neighbours := self._neighbours(generated)) is not None:
            orders |= refinement_orders(NEAREST, same, neighbours, steps)
        try:
            found = self._pool.generate(orders)
            shares = step_shares(
                self._heavy, steps, threads=self._scope.threads, budget_s=self._scope.timing_s,
                keeping=self._pool.keeping,
            )  # fmt: skip
        except CannotRefine as error:
            self._missing.append(f"refinement and reuse: {error}")
            return {}, {}, {}
        blank = generated[self._heavy.name]
        over = {
            FRESH: sweep(FRESH, shares, found, found[FRESH], rows),
            SAME: sweep(SAME, shares, found, blank, rows),
        }
        for name in map(_over, self._strong):
            over[name] = sweep(name, shares, found, found[FRESH], rows)
        reuse = {NEAREST: sweep(NEAREST, shares, found, blank, rows)} if neighbours is not None else {}
        return over, reuse, {k: found[at(FRESH, k)].images() for k in steps}

    def _neighbours(self, generated: Mapping[str, GeneratedImages]) -> np.ndarray | None:
        """Return for each swept prompt the stored image of the most similar prompt; None without the scorer."""
        scorer = self._rankers.scorer
        if scorer is None:
            self._missing.append("reuse of neighbours: it needs the scorer to find similar prompts")
            return None
        asked = scorer.embed_prompts(self._asked.prompts[: self._scope.swept])
        return np.asarray(generated["stored"].images()[nearest(asked, scorer.embed_prompts(self._stored.prompts))])

    def _ranked(self, generated: Mapping[str, GeneratedImages]) -> Ranked:
        def with_prefix(prefix: str) -> dict[str, GeneratedImages]:
            return {name: generated[prefix + name] for name in self._levels if prefix + name in generated}

        return rank(
            self._rankers, self._pairs, self._costs, (self._asked.prompts, with_prefix("")),
            (self._calibration.prompts, with_prefix("calibration, ")),
        )  # fmt: skip

    def _level(self, variant: Variant, generated: GeneratedImages) -> Level:
        scorer = self._rankers.scorer if style_of(variant) is POSTER else None  # true renderings are the poster's
        return Level(
            quality=generated.quality,
            facts=generated.facts,
            missed=generated.missed,
            cost_ms=self._costs[variant.name],
            features=None if scorer is None else np.asarray(scorer.features(list(generated.images())), float),
        )

    def _measured_costs(self) -> dict[str, float]:
        """Level -> ms of one image. Holds all levels loaded: those of this world are small."""
        threads, levels = self._scope.threads, self._levels
        calls = {
            name: partial(generate_images, opened(variant, threads, self._pool.keeping), usual_order(variant, 1))
            for name, variant in levels.items()
        }
        taken = in_turns(calls, self._scope.timing_s, "levels")
        return {
            name: timing(list(chain.from_iterable(taken[name])), clock_of(variant, threads)).ms
            for name, variant in levels.items()
        }

    def _grids(
        self,
        objects: np.ndarray,
        generated: Mapping[str, GeneratedImages],
        over: Mapping[int, np.ndarray],
        true: np.ndarray,
    ) -> tuple[Grid, ...]:
        prompts: Sequence[str] = self._asked.prompts
        images = {name: generated[name].images() for name in self._levels}
        grids = [of_levels(prompts, objects, images)]
        wrong = np.flatnonzero(generated[self._light].quality[: self._scope.swept] < 1)[:_SHOWN]
        if over and len(wrong):
            grids.append(of_steps(prompts, wrong, images[self._light], over, images[self._heavy.name]))
        failed = np.flatnonzero(generated[self._heavy.name].quality < 1)[:_SHOWN]
        if len(failed):
            grids.append(of_failures(prompts, self._heavy.name, failed, images[self._heavy.name], true))
        return tuple(grids)


def _over(level: str) -> str:
    return f"over {level}, fresh noise"
