"""The orders behind "quality against the start step K", and what came of them as a sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agents.evaluation.observations import Sweep
from agents.evaluation.painting import Order, Painted
from planner.catalog import Variant
from schemas.ids import paint_over_seed

STAGE = 1  # of the escalated job: the one after the draft's


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Prompts with the seed of each one's picture."""

    prompts: tuple[str, ...]
    seeds: tuple[int, ...]

    def first(self, count: int) -> "Asked":
        """The first so many."""
        return Asked(prompts=self.prompts[:count], seeds=self.seeds[:count])

    def at(self, rows: np.ndarray) -> "Asked":
        """Some of them, int [m]."""
        return Asked(prompts=tuple(self.prompts[r] for r in rows), seeds=tuple(self.seeds[r] for r in rows))

    def with_fresh_noise(self) -> "Asked":
        """The seeds with which a worker paints over a draft of the same request."""
        return Asked(prompts=self.prompts, seeds=tuple(paint_over_seed(seed, STAGE) for seed in self.seeds))


def steps_to_try(steps: int, count: int = 7) -> tuple[int, ...]:
    """Up to `count` of the steps 1 .. steps - 1, evenly; none for a model of one step."""
    return tuple(sorted({round(k) for k in np.linspace(1, steps - 1, count)})) if steps > 1 else ()


def order(variant: Variant, asked: Asked, *, judged_by: str = "facts", threads: int = 1) -> Order:
    """The prompts, painted on a blank."""
    return Order(variant=variant, prompts=asked.prompts, seeds=asked.seeds, judged_by=judged_by, threads=threads)


def over_orders(name: str, blank: Order, pictures: np.ndarray, steps: Sequence[int]) -> dict[str, Order]:
    """The same order begun with `pictures`, uint8 [n, h, w, 3], at each of the steps, by `at(name, k)`."""
    return {
        at(name, k): Order(
            variant=blank.variant, prompts=blank.prompts, seeds=blank.seeds, judged_by=blank.judged_by, begin=k,
            drafts=pictures, threads=blank.threads,
        )
        for k in steps
    }  # fmt: skip


def at(name: str, k: int) -> str:
    """What an order begun at step k is called."""
    return f"{name}, from step {k}"


def sweep(
    name: str, steps: Sequence[int], painted: Mapping[str, Painted], blank: Painted, rows: np.ndarray, clock: str
) -> Sweep:
    """What came of `over_orders`, against the blank's rows; `rows` int [m] are the prompts' in the whole evaluation.

    The cost is measured: encoding the draft costs a little more than the share of the steps.
    """
    started = [painted[at(name, k)] for k in steps]
    blank_ms = cost_ms(blank, clock)
    return Sweep(
        rows=rows,
        k=np.array(steps, int),
        cost_share=np.array([cost_ms(each, clock) / blank_ms for each in started]),
        quality=np.stack([each.quality for each in started]),
        all_facts=np.stack([each.all_facts for each in started]),
        blank_quality=blank.quality[: len(rows)],
        blank_all_facts=blank.all_facts[: len(rows)],
    )


def cost_ms(painted: Painted, clock: str) -> float:
    """Median ms of a picture in a call of the usual size, by "cpu" or "wall"."""
    return max(float(np.median(painted.cpu_ms if clock == "cpu" else painted.wall_ms)), 1e-6)


def nearest(queries: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """int [n]: for each unit embedding [n, d] the row of the most similar of [m, d]."""
    return np.asarray((queries @ stored.T).argmax(1))
