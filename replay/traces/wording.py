"""Assigns prompts of a file to the requests of a trace: by the trace's own index, in turn, or at random."""

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from replay.simulation.draws.chance import uniform
from replay.traces.trace import NOT_GIVEN, InvalidTrace, Trace
from schemas.errors import Unknown

INDEX, TURN, SAMPLE = "index", "turn", "sample"
ORDERS: Final = (INDEX, TURN, SAMPLE)


def points(trace: Trace) -> bool:
    """Whether its requests point at the prompts of a file that it does not have."""
    return not len(trace.texts) and bool((trace.prompt != NOT_GIVEN).any())


def worded(trace: Trace, prompts: Sequence[str], order: str, seed: int) -> Trace:
    """Return the trace with these prompts instead of its own. `order` "": by index if the trace has one, else in turn.

    `sample` draws with replacement, for each request by its number and the seed: the first hundred of a longer trace
    have the same. Raises: InvalidTrace for an index that points at none, Unknown.
    """
    assert len(prompts), "no prompts to choose from"
    order = order or (INDEX if points(trace) else TURN)
    if order not in ORDERS:
        raise Unknown("order of prompts", order, ORDERS)
    if order == INDEX:
        chosen = _by_index(trace, len(prompts))
    elif order == TURN:
        chosen = np.arange(len(trace)) % len(prompts)
    else:
        chosen = (uniform(seed, "prompts", 0, len(trace)) * len(prompts)).astype(np.int64)
    return dataclasses.replace(trace, texts=prompts, prompt=chosen)


def filled(trace: Trace, prompts: Sequence[str]) -> Trace:
    """Return the trace with these prompts, in turn, where a request has no text; the others keep theirs."""
    turn = len(trace.texts) + np.arange(len(trace)) % len(prompts)
    prompt = np.where(trace.lacks_prompt, turn, trace.prompt)
    return dataclasses.replace(trace, texts=(*trace.texts, *prompts), prompt=prompt)


def _by_index(trace: Trace, there_are: int) -> np.ndarray:
    if len(trace.texts) or (trace.prompt == NOT_GIVEN).any():
        raise InvalidTrace(f"{trace.source}: not every request has a prompt_index: take the prompts in turn, or sample")
    if (wrong := np.flatnonzero(trace.prompt >= there_are)).size:
        message = f"there are {there_are} prompts, 0 to {there_are - 1}"
        raise InvalidTrace(f"{trace.source}: request {wrong[0]} has prompt_index {trace.prompt[wrong[0]]}; {message}")
    return trace.prompt
