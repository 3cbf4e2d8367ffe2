"""Quality by start step K: the orders that generate the images, and the sweep that is computed from them."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from agents.components.opening import Keeping
from agents.profiling.generation.orders import GeneratedImages, Order, StoredImages, batch_of, generate_images, opened
from agents.profiling.profiling import clock_of, in_turns, times_of, usual_order
from agents.profiling.seeded_prompts import SeededPrompts
from agents.profiling.statistics.sweeps import Sweep
from planner.catalog.entries import Variant

_TIMED = 4  # images of a timed call, or fewer where the variant's batch is smaller


def steps_to_try(steps: int, count: int = 7) -> tuple[int, ...]:
    """Up to `count` of the steps 1 .. steps - 1, evenly; none for a model of one step."""
    return tuple(sorted({round(k) for k in np.linspace(1, steps - 1, count)})) if steps > 1 else ()


def order(variant: Variant, asked: SeededPrompts, *, judged_by: str = "facts", threads: int = 1) -> Order:
    """An order to generate the prompts from noise."""
    return Order(
        variant=variant, prompts=asked.prompts, seeds=asked.seeds, captions=asked.captions, judged_by=judged_by,
        threads=threads,
    )  # fmt: skip


def refinement_orders(
    name: str, blank: Order, images: np.ndarray | StoredImages, steps: Sequence[int]
) -> dict[str, Order]:
    """The order `blank` begun with `images`, uint8 [n, h, w, 3], at each of the steps; keys are `at(name, k)`."""
    return {
        at(name, k): Order(
            variant=blank.variant, prompts=blank.prompts, seeds=blank.seeds, captions=blank.captions,
            judged_by=blank.judged_by, begin=k, drafts=images, threads=blank.threads,
        )
        for k in steps
    }  # fmt: skip


def at(name: str, k: int) -> str:
    """Return the name of an order begun at step k."""
    return f"{name}, from step {k}"


def sweep(
    name: str,
    steps: Mapping[int, float],
    generated: Mapping[str, GeneratedImages],
    blank: GeneratedImages,
    rows: np.ndarray,
) -> Sweep:
    """A sweep of `refinement_orders` of the prompts `rows`, int [m] of those in the blank, which it is compared with.

    `steps` are those begun at, rising, with what each costs (`step_shares`).
    """
    started = [generated[at(name, k)] for k in steps]
    return Sweep(
        rows=rows,
        k=np.array(list(steps), int),
        cost_share=np.array(list(steps.values())),
        quality=np.stack([each.quality for each in started]),
        facts=np.stack([each.facts for each in started]),
        blank_quality=blank.quality[rows],
        blank_facts=blank.facts[rows],
    )


def step_shares(
    variant: Variant, steps: Sequence[int], *, threads: int, budget_s: float, keeping: Keeping | None
) -> dict[int, float]:
    """Step -> the time of a call begun there with drafts, as a share of one from noise; all timed in turns.

    Measured, not counted: encoding a draft and decoding the image take their time wherever a call begins.

    Raises:
        EngineFailed: the variant cannot be loaded.
        CannotRefine: the model cannot begin with images.
    """
    n = min(_TIMED, batch_of(variant))
    blank = usual_order(variant, n)
    orders = refinement_orders("over", blank, np.zeros((n, variant.height, variant.width, 3), np.uint8), steps)
    engine = opened(variant, threads, keeping)
    calls = {name: partial(generate_images, engine, each) for name, each in {"blank": blank, **orders}.items()}
    taken, clock = in_turns(calls, budget_s, f"steps of {variant.name}"), clock_of(variant, threads)
    return {k: times_of(taken[at("over", k)], taken["blank"], clock) for k in steps}


def nearest(queries: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """int [n]: for each unit embedding [n, d] the row of the most similar of [m, d]."""
    return np.asarray((queries @ stored.T).argmax(1))
