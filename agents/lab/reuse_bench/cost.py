"""What reuse costs a worker where nothing repeats: CPU time of an image with the plan's reuse on, and with it off.

Both workers are in this process, share the engine, and generate the same prompts with the same seeds in turns. What is
counted is the CPU time of all threads of the process while a worker answers: the lookup, the guard, the latent and its
storing are in it. The index writer and the vector store are other processes', and their CPU time is told apart.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from agents.lab.evaluation.statistics.intervals import Estimate, Resampling, resampled
from agents.lab.reuse_bench.route import Route
from agents.lab.reuse_bench.served import with_interval
from agents.lab.reuse_bench.stand import Place, Request, Stand
from planner.serving.admission.admission import SEED_LIMIT

BLOCK: Final = 40  # images of a worker: of more that save nothing its breaker would stop asking
WARM_UP: Final = 2  # images of each side before the first of a block is counted


def cost_without_repeats(
    place: Place, route: Route, prompts: Sequence[str], seed: int, advance: Callable[[int], object],
    store_s: Callable[[], float] = lambda: 0.0,
) -> dict[str, Any]:  # fmt: skip
    """Generate each prompt on both sides, one after the other, each side first in turn. Shares are of the side without.

    `store_s`: CPU seconds of the vector store's process so far. Raises PochadeError: a request failed.
    """
    measured, outcomes = list[_Pair](), Counter[str]()
    began_s = store_s()
    for first in range(0, len(prompts), BLOCK):
        with Stand(place, route, reuses=False) as without, Stand(place, route) as reusing:
            block = prompts[first : first + BLOCK]
            _measure(without, reusing, block[:WARM_UP], -WARM_UP)
            for at, prompt in enumerate(block, first):
                measured += (pair := _measure(without, reusing, [prompt], at))
                outcomes[pair[0].outcome] += 1
                advance(1)
    asked = len(prompts) + WARM_UP * -(-len(prompts) // BLOCK)
    store_ms = round(1000 * (store_s() - began_s) / asked, 3)
    off, on = (np.array([getattr(each, name) for each in measured]) for name in ("off_s", "on_s"))
    return figures(off, on, seed) | {"outcomes": dict(outcomes.most_common()), "store_ms": store_ms}


class _Pair(NamedTuple):
    """CPU seconds of one prompt's image on both sides, and what became of its lookup."""

    off_s: float
    on_s: float
    outcome: str


def _measure(without: Stand, reusing: Stand, prompts: Sequence[str], number: int) -> list[_Pair]:
    """Each prompt on both sides; which is first depends on its number."""
    found = list[_Pair]()
    for at, prompt in enumerate(prompts, number):
        taken, outcome = dict[bool, float](), ""
        for is_on in (at % 2 == 0, at % 2 == 1):
            stand = reusing if is_on else without
            job = stand.taken(Request(f"cost-{at}-{is_on}", prompt, at % SEED_LIMIT))
            began = time.process_time()
            (image,) = stand.answer([job])
            taken[is_on] = time.process_time() - began
            if image.reuse is not None:
                outcome = "hit" if image.reuse.step else image.reuse.miss
        found.append(_Pair(taken[False], taken[True], outcome))
    return found


def figures(off_s: np.ndarray, on_s: np.ndarray, seed: int) -> dict[str, Any]:
    """Return the share of CPU time that reuse adds, with its interval over the prompts; and ms per image."""
    share = with_interval(_added(off_s, on_s, Resampling(seed=seed)))
    return {
        **share,
        "images": len(off_s),
        "off_ms": round(1000 * float(off_s.mean()), 3),
        "on_ms": round(1000 * float(on_s.mean()), 3),
        "added_ms_p50": round(1000 * float(np.median(on_s - off_s)), 3),
    }


def _added(off_s: np.ndarray, on_s: np.ndarray, how: Resampling) -> Estimate:
    if len(off_s) < 2:
        return Estimate(float(on_s.sum() / off_s.sum() - 1), float("nan"), float("nan"))
    return resampled(lambda rows: np.array([on_s[rows].sum() / off_s[rows].sum() - 1]), len(off_s), how).estimate(0)
