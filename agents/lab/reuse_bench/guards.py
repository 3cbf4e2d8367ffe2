"""Compare guards of reuse: how many lookups each lets hit, and how many near misses it lets through.

    python -m agents.lab.reuse_bench.guards PROMPTS [CAPTIONS]

PROMPTS: real prompts in the order of time, one a line: those that repeat or nearly do are what is looked up. Near
misses are made of both files. Prints tables with 95 % intervals: of shares, and of each guard less the first one.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from agents.lab.evaluation.statistics.paired import paired_difference
from agents.lab.profiling.reuse.stream import draw_requests
from agents.lab.reuse_bench.near_misses import of_prompts, of_world
from agents.lab.reuse_bench.pairs import (
    ADVERSARIAL,
    DIFFERENT,
    PARAPHRASES,
    PASSES,
    REGRESSIONS,
    SAME,
    Pair,
    is_sealed,
    read_pairs,
)
from agents.lab.world.stream import STANDARD
from agents.profiling.statistics.intervals import Estimate, proportion
from agents.reuse.plain_guard import compare
from agents.reuse.prompt_key import open_key
from planner.reuse.guard import Compare, Comparison, Verdict
from planner.reuse.lookups.lookup import MAX_CANDIDATES

SEED: Final = 52
REQUESTS: Final = 3000  # of the tiny world's stream
NEAR_MISSES: Final = 1000  # of the tiny world
FLOORS: Final = (-1.0, 0.95, 0.9998)  # of similarity; the last is that of the shipped profile


def nearest(prompts: Sequence[str], vectors: np.ndarray) -> list[list[int]]:
    """Return what a search finds for each prompt among all earlier ones: the nearest, of several alike the latest."""
    found = list[list[int]]()
    for at in range(len(prompts)):
        near = -(vectors[:at] @ vectors[at])[::-1]
        found.append([at - 1 - int(place) for place in np.argsort(near, kind="stable")[:MAX_CANDIDATES]])
    return found


def hits(
    prompts: Sequence[str], vectors: np.ndarray, found: Sequence[Sequence[int]], compare: Compare
) -> dict[float, np.ndarray]:
    """Return bool [n] by floor: the lookups that find a prompt at least so similar which the guard passes."""
    best = np.full(len(prompts), -np.inf)  # similarity of the nearest one that passes
    for at, candidates in enumerate(found):
        for other in candidates:
            if passes(compare, prompts[at], prompts[other]):
                best[at] = float(vectors[at] @ vectors[other])
                break
    return {floor: best >= floor for floor in FLOORS}


def equal_text(one: str, other: str) -> Comparison:
    """Compare two prompts letter by letter: what any guard is to improve on."""
    return Comparison(Verdict.EQUAL if one == other else Verdict.UNSURE)


def passes(compare: Compare, one: str, other: str) -> bool:
    """Whether a guard lets the image of one prompt be where the other begins."""
    return compare(one, other).verdict in PASSES


def let_through(pairs: Sequence[Pair], compare: Compare) -> np.ndarray:
    """Return bool [n]: the pairs that a guard passes."""
    return np.array([passes(compare, pair.first, pair.second) for pair in pairs])


def show(what: str, held: Mapping[str, np.ndarray]) -> None:
    """Print the share of each guard, and its difference from the first."""
    first = next(iter(held.values()))
    for name, each in held.items():
        apart = "" if each is first else f"   less the first: {_percent(paired_difference(each, first))}"
        print(f"{what:42} n {len(each):5} {name:12} {int(each.sum()):5} {_percent(proportion(each))}{apart}")


def _percent(found: Estimate) -> str:
    return f"{100 * found.value:.2f} % [{100 * found.low:.2f}, {100 * found.high:.2f}]"


def main(prompts_file: str, *more: str) -> None:
    """Measure and print."""
    guards: dict[str, Compare] = {"plain": compare, "equal text": equal_text}
    prompts = Path(prompts_file).read_text(encoding="utf-8").splitlines()
    captions = [line for file in more for line in Path(file).read_text(encoding="utf-8").splitlines()]
    key = open_key("")
    for stream, asked in (
        ("prompts", prompts),
        ("tiny world", draw_requests(SEED, REQUESTS, STANDARD).asked.prompts),
    ):
        vectors = key.embed(asked)
        found = nearest(asked, vectors)
        held = {name: hits(asked, vectors, found, each) for name, each in guards.items()}
        for floor in FLOORS:
            show(f"hits, {stream}, floor {floor:g}", {name: each[floor] for name, each in held.items()})
    different, same = read_pairs(DIFFERENT), read_pairs(SAME)
    for what, pairs in (
        ("near misses, made of prompts", of_prompts(prompts, SEED)),
        ("near misses, made of captions", of_prompts(captions, SEED)),
        ("near misses, tiny world", of_world(NEAR_MISSES, SEED)),
        ("near misses, written", read_pairs(ADVERSARIAL)),
        ("near misses, that mended another guard", read_pairs(REGRESSIONS)),
        ("near misses, labelled", different),
        ("of them sealed", [pair for pair in different if is_sealed(pair)]),
        ("paraphrases, written", read_pairs(PARAPHRASES)),
        ("paraphrases, labelled", same),
        ("of them sealed", [pair for pair in same if is_sealed(pair)]),
    ):
        show(what, {name: let_through(pairs, each) for name, each in guards.items()})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
