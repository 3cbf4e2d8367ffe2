"""The orders behind "quality against the start step K", and what came of them as a sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from agents.lab.evaluation.observations import Sweep
from agents.lab.evaluation.painting.painting import Order, Painted, batch_of, opened, paint_call
from agents.lab.profiling.profiling import clock_of, in_turns, times_of, usual_order
from planner.catalog.entries import Variant
from schemas.ids import refinement_seed

STAGE = 1  # of the escalated job: the one after the draft's
_TIMED = 4  # pictures of a call, where one call may paint so many


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Prompts with the seed of each one's picture, and what they state where they say more than that."""

    prompts: tuple[str, ...]
    seeds: tuple[int, ...]
    captions: tuple[str, ...] = ()  # none: the prompts

    @property
    def stated(self) -> tuple[str, ...]:
        """The caption that stands in each prompt."""
        return self.captions or self.prompts

    def first(self, count: int) -> "Asked":
        """The first so many."""
        return Asked(prompts=self.prompts[:count], seeds=self.seeds[:count], captions=self.captions[:count])

    def at(self, rows: np.ndarray) -> "Asked":
        """Some of them, int [m]."""
        return Asked(
            prompts=tuple(self.prompts[r] for r in rows),
            seeds=tuple(self.seeds[r] for r in rows),
            captions=tuple(self.captions[r] for r in rows) if self.captions else (),
        )

    def with_fresh_noise(self) -> "Asked":
        """The seeds with which a worker paints over a draft of the same request."""
        return replace(self, seeds=tuple(refinement_seed(seed, STAGE) for seed in self.seeds))


def steps_to_try(steps: int, count: int = 7) -> tuple[int, ...]:
    """Up to `count` of the steps 1 .. steps - 1, evenly; none for a model of one step."""
    return tuple(sorted({round(k) for k in np.linspace(1, steps - 1, count)})) if steps > 1 else ()


def order(variant: Variant, asked: Asked, *, judged_by: str = "facts", threads: int = 1) -> Order:
    """The prompts, painted on a blank."""
    return Order(
        variant=variant, prompts=asked.prompts, seeds=asked.seeds, captions=asked.captions, judged_by=judged_by,
        threads=threads,
    )  # fmt: skip


def over_orders(name: str, blank: Order, pictures: np.ndarray, steps: Sequence[int]) -> dict[str, Order]:
    """The same order begun with `pictures`, uint8 [n, h, w, 3], at each of the steps, by `at(name, k)`."""
    return {
        at(name, k): Order(
            variant=blank.variant, prompts=blank.prompts, seeds=blank.seeds, captions=blank.captions,
            judged_by=blank.judged_by, begin=k, drafts=pictures, threads=blank.threads,
        )
        for k in steps
    }  # fmt: skip


def at(name: str, k: int) -> str:
    """What an order begun at step k is called."""
    return f"{name}, from step {k}"


def sweep(
    name: str, steps: Mapping[int, float], painted: Mapping[str, Painted], blank: Painted, rows: np.ndarray
) -> Sweep:
    """What came of `over_orders`, against the blank's rows; `rows` int [m] are the prompts' in the whole evaluation.

    `steps` are those begun at, rising, with what each costs (`step_shares`).
    """
    started = [painted[at(name, k)] for k in steps]
    return Sweep(
        rows=rows,
        k=np.array(list(steps), int),
        cost_share=np.array(list(steps.values())),
        quality=np.stack([each.quality for each in started]),
        facts=np.stack([each.facts for each in started]),
        blank_quality=blank.quality[: len(rows)],
        blank_facts=blank.facts[: len(rows)],
    )


def step_shares(variant: Variant, steps: Sequence[int], *, threads: int, budget_s: float) -> dict[int, float]:
    """Step -> the time of a call begun there with drafts, as a share of one on a blank; all timed in turns.

    Measured, not counted: encoding a draft and decoding the picture take their time wherever a call begins.

    Raises:
        EngineFailed: the variant cannot be loaded.
        CannotPaintOver: the model cannot begin with pictures.
    """
    n = min(_TIMED, batch_of(variant))
    blank = usual_order(variant, n)
    orders = over_orders("over", blank, np.zeros((n, variant.height, variant.width, 3), np.uint8), steps)
    engine = opened(variant, threads)
    calls = {name: partial(paint_call, engine, each) for name, each in {"blank": blank, **orders}.items()}
    taken, clock = in_turns(calls, budget_s, f"steps of {variant.name}"), clock_of(variant, threads)
    return {k: times_of(taken[at("over", k)], taken["blank"], clock) for k in steps}


def nearest(queries: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """int [n]: for each unit embedding [n, d] the row of the most similar of [m, d]."""
    return np.asarray((queries @ stored.T).argmax(1))
