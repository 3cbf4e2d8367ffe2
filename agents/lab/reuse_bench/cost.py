"""Measures what reuse costs a worker where no prompt repeats: CPU time of an image with the plan's reuse on, and off.

Each prompt is generated with the same seed by a worker without reuse, and twice by one with it: with a lookup, and
without, as under a plan that has seen no repetitions (which has a share of `planner.reuse.planning.TRIED` looked up).
The workers run in this process, share the engine, and take turns. A figure is the CPU time of all threads of the
process while a worker answers: lookup, guard, latent and its storing. The CPU time of the index writer and of the
vector store is counted apart, as both are processes of their own in a deployment.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from agents.lab.reuse_bench.route import Route
from agents.lab.reuse_bench.served import with_interval
from agents.lab.reuse_bench.stand import Place, Request, Stand
from agents.profiling.statistics.intervals import Estimate, Resampling, resampled
from planner.reuse.planning import TRIED
from planner.serving.admission.admission import SEED_LIMIT

BLOCK: Final = 40  # images of a worker
WARM_UP: Final = 2  # images of each side before the first of a block is counted


def cost_without_repeats(
    place: Place, route: Route, prompts: Sequence[str], seed: int, advance: Callable[[int], object],
    store_s: Callable[[], float] = lambda: 0.0,
) -> dict[str, Any]:  # fmt: skip
    """Generate each prompt on all sides, one after the other, each side first in turn. Shares are of the side without.

    `store_s`: CPU seconds of the vector store's process so far. Raises PochadeError: a request failed.
    """
    measured, outcomes = list[_Sides](), Counter[str]()
    began_s = store_s()
    for first in range(0, len(prompts), BLOCK):
        with Stand(place, route, reuses=False) as without, Stand(place, route) as reusing:
            block = prompts[first : first + BLOCK]
            _measure(without, reusing, block[:WARM_UP], -WARM_UP)
            for at, prompt in enumerate(block, first):
                measured += (sides := _measure(without, reusing, [prompt], at))
                outcomes[sides[0].outcome] += 1
                advance(1)
    asked = len(prompts) + WARM_UP * -(-len(prompts) // BLOCK)
    store_ms = round(1000 * (store_s() - began_s) / asked, 3)
    off, full, on = (np.array([getattr(each, name) for each in measured]) for name in ("off_s", "full_s", "on_s"))
    return figures(off, full, on, seed) | {"outcomes": dict(outcomes.most_common()), "store_ms": store_ms}


class _Sides(NamedTuple):
    """CPU seconds of one prompt's image on all sides, and the outcome of its lookup."""

    off_s: float
    full_s: float  # with the plan's reuse on, and not looked up
    on_s: float
    outcome: str


def _measure(without: Stand, reusing: Stand, prompts: Sequence[str], number: int) -> list[_Sides]:
    """Each prompt on all sides; which is first depends on its number."""
    sides = (without, False), (reusing, False), (reusing, True)
    found = list[_Sides]()
    for at, prompt in enumerate(prompts, number):
        taken, outcome = dict.fromkeys(range(len(sides)), 0.0), ""
        for turn in range(len(sides)):
            side = (at + turn) % len(sides)
            stand, looks_up = sides[side]
            job = stand.taken(Request(f"cost-{at}-{side}", prompt, at % SEED_LIMIT), looks_up=looks_up)
            began = time.process_time()
            (image,) = stand.answer([job])
            taken[side] = time.process_time() - began
            if image.reuse is not None and looks_up:
                outcome = "hit" if image.reuse.step else image.reuse.miss
        found.append(_Sides(taken[0], taken[1], taken[2], outcome))
    return found


def figures(off_s: np.ndarray, full_s: np.ndarray, on_s: np.ndarray, seed: int) -> dict[str, Any]:
    """Return the share of CPU time that reuse adds, with its interval over the prompts; and ms per image.

    `value` is of a plan that has seen that nothing repeats, `before_seen` of one that has all looked up.
    """
    tried_s, how = (1 - TRIED) * full_s + TRIED * on_s, Resampling(seed=seed)
    return {
        **with_interval(_added(off_s, tried_s, how)),
        "before_seen": with_interval(_added(off_s, on_s, how)),
        "images": len(off_s),
        "off_ms": round(1000 * float(off_s.mean()), 3),
        "full_ms": round(1000 * float(full_s.mean()), 3),
        "on_ms": round(1000 * float(on_s.mean()), 3),
        "lookup_ms_p50": round(1000 * float(np.median(on_s - full_s)), 3),
    }


def _added(off_s: np.ndarray, on_s: np.ndarray, how: Resampling) -> Estimate:
    if len(off_s) < 2:
        return Estimate(float(on_s.sum() / off_s.sum() - 1), float("nan"), float("nan"))
    return resampled(lambda rows: np.array([on_s[rows].sum() / off_s[rows].sum() - 1]), len(off_s), how).estimate(0)
