"""Fresh requests for the bench: streams that repeat and are edited as people's are, and prompts that never repeat."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from agents.lab.profiling.reuse.stream import draw_requests
from agents.lab.reuse_bench.embedded import find_caption
from agents.lab.world.free_form import asked
from agents.lab.world.stream import STANDARD
from agents.profiling.seeded_prompts import SeededPrompts

STORED, TIMED, COSTS, NOISE, OTHERS = range(5)  # draws of one seed that have nothing in common
_BENCH: Final = 24  # keeps these draws apart from those of training, evaluation and profiles


def repeating(seed: int, count: int) -> SeededPrompts:
    """Draw `count` requests in the order of time, some of which repeat or edit earlier ones."""
    return draw_requests(seed, count, STANDARD).asked


def from_lines(prompts: Sequence[str], seed: int, count: int) -> SeededPrompts:
    """Return the first `count` prompts of a file. Those in which no caption of the world is found are not judged."""
    noise = np.random.default_rng([seed, _BENCH, NOISE])
    chosen = tuple(prompts[:count])
    found = [find_caption(prompt) for prompt in chosen]
    return SeededPrompts(
        prompts=chosen,
        seeds=tuple(int(noise.integers(2**31)) for _ in chosen),
        captions=tuple(each.caption if each else prompt for each, prompt in zip(found, chosen, strict=True)),
    )


def unrepeated(seed: int, count: int, draw: int) -> list[str]:
    """Draw `count` prompts of which no two are equal. `draw`: one of this module's; each has prompts of its own."""
    dice, found = np.random.default_rng([seed, _BENCH, draw]), dict[str, None]()
    while len(found) < count:
        found[asked(dice, STANDARD)[0]] = None
    return list(found)
