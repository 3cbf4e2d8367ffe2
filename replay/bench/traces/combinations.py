"""Requests for combinations of bases, adapters and ControlNets, most of which hardly ever come again.

What MLoRA reports of a week (3.1, 3.2, 5.3): 97 bases, of which the first gets 28.8 % of the requests and the first
five 70.4 % (Gini coefficient .876); 705 adapters, of which 23.5 % serve 80 % of what asks for any, one to six at once,
in 21.2 % of the requests; 24 ControlNets; and 89.3 % of the combinations seen fewer than five times. Not reported are
the share of requests with a ControlNet, how many adapters come together, and how often users ask again: the second is
as in the study's public trace GenTD26, the first is ours, the third is what gives the reported share of rare ones.
Bases, adapters and ControlNets are drawn apart from each other. Names are ranks, as in the catalog `genai2026`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from replay.simulation.draws.chance import uniform
from replay.traces.trace import Overrides, Trace
from schemas.messages import GenerateOptions

N_BASES, N_ADAPTERS, N_CONTROLS = 97, 705, 24
FIRST, FIRST_FIVE = 0.288, 0.704  # shares of the requests
ADAPTER_SHARE: Final = 0.212  # of the requests
CONTROL_SHARE: Final = 0.1  # of the requests
AT_ONCE: Final = (0.93, 0.045, 0.021, 0.003, 0.0007, 0.0003)  # share with 1, 2 ... 6 adapters, of those with any
REPEAT_SHARE: Final = 0.1  # share of the requests that ask for what their user asked for just before
WITHIN: Final = 20  # requests ago, at most, that this was
NO_IMAGE: Final = "none:"  # stands for the image that a ControlNet follows

Combination = tuple[int, tuple[int, ...], int]
"""Ranks of a base, of its adapters in rising order, and of a ControlNet; -1: none."""


def combined(trace: Trace, seed: int) -> Trace:
    """Return the trace with a combination for each request. Equal arguments give equal traces."""
    found: dict[tuple[Combination, str], int] = {}
    rows = [found.setdefault(asked, len(found)) for asked in _asked(len(trace), seed)]
    wishes = [Overrides(options=_options(combination), tenant=user) for combination, user in found]
    return replace(trace, wishes=wishes, wish=np.array(rows, dtype=np.int32))


def base_weights() -> np.ndarray:
    """Return the share of the requests of each base, float64 [N_BASES].

    The first as reported; the next four fall as 1 / rank, the rest as 1 / rank^2, which gives the reported coefficient.
    """
    ranks = np.arange(1, N_BASES + 1, dtype=np.float64)
    head, tail = ranks[1:5] ** -1.0, ranks[5:] ** -2.0
    return np.concatenate([[FIRST], (FIRST_FIVE - FIRST) * head / head.sum(), (1 - FIRST_FIVE) * tail / tail.sum()])


def inverse_weights(count: int) -> np.ndarray:
    """Return shares that fall as 1 / rank, which gives what is reported of adapters, float64 [count]."""
    weights = 1 / np.arange(1, count + 1, dtype=np.float64)
    return np.asarray(weights / weights.sum())


def _asked(count: int, seed: int) -> Iterator[tuple[Combination, str]]:
    """Yield the combination and the user of each request, in order."""
    bases = _sample(base_weights(), uniform(seed, "combination-base", 0, count))
    controls = _sample(inverse_weights(N_CONTROLS), uniform(seed, "combination-control", 0, count))
    has_control = uniform(seed, "combination-has-control", 0, count) < CONTROL_SHARE
    numbers = _numbers(count, seed)
    adapters = [_sample(inverse_weights(N_ADAPTERS), uniform(seed, f"combination-adapter-{nth}", 0, count))
                for nth in range(len(AT_ONCE))]  # fmt: skip
    returns = uniform(seed, "combination-again", 0, count)
    backs = (1 + uniform(seed, "combination-back", 0, count) * WITHIN).astype(np.int64)
    past: list[tuple[Combination, str]] = []
    for row in range(count):
        if returns[row] < REPEAT_SHARE and backs[row] <= row:
            past.append(past[row - int(backs[row])])
        else:
            several = tuple(sorted({int(adapters[nth][row]) for nth in range(int(numbers[row]))}))
            control = int(controls[row]) if has_control[row] else -1
            past.append(((int(bases[row]), several, control), f"user-{row}"))
        yield past[row]


def _numbers(count: int, seed: int) -> np.ndarray:
    """Return how many adapters each request names, int64 [count]."""
    shares = np.array([1 - ADAPTER_SHARE, *(ADAPTER_SHARE * share for share in AT_ONCE)])
    return _sample(shares, uniform(seed, "combination-adapters", 0, count))


def _sample(weights: np.ndarray, dice: np.ndarray) -> np.ndarray:
    """Return an index by its weight for each number in [0, 1)."""
    edges = np.cumsum(weights)
    return np.minimum(np.searchsorted(edges / edges[-1], dice, side="right"), len(weights) - 1)


def _options(combination: Combination) -> GenerateOptions:
    base, adapters, control = combination
    return GenerateOptions(
        model=f"base-{base:03}",
        adapters=tuple(f"lora-{rank:03}" for rank in adapters),
        controls=() if control < 0 else (f"control-{control:03}",),
        control_images=() if control < 0 else (NO_IMAGE,),
    )
