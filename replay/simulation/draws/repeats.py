"""Requests that repeat a prompt (same hardness), or a prompt with its noise seed (same quality)."""

import numpy as np

from replay.traces.trace import NOT_GIVEN, Trace


class Repeats:
    """The first request with the prompt of each request of a trace, and the first with its prompt and noise seed.

    A request without a noise seed of its own has an image of its own: seeds follow from ids.
    """

    def __init__(self, prompt: np.ndarray, seed: np.ndarray) -> None:
        """`prompt`, `seed`: int64 [n], NOT_GIVEN where none is known."""
        numbers = np.arange(len(prompt))
        self.prompt = np.where(prompt == NOT_GIVEN, numbers, _first(prompt))  # int64 [n]
        pairs = np.unique(np.stack([self.prompt, seed]), axis=1, return_inverse=True)[1].reshape(-1)
        self.image = np.where((prompt == NOT_GIVEN) | (seed == NOT_GIVEN), numbers, _first(pairs))  # int64 [n]

    def is_repeated(self, number: int) -> bool:
        """Whether the prompt of a request came before."""
        return bool(self.prompt[number] != number)


def repeats_of(trace: Trace) -> Repeats | None:
    """Return the repeats of a trace; None where no prompt is known to come twice."""
    known = trace.prompt[trace.prompt != NOT_GIVEN]
    return Repeats(trace.prompt, trace.seed) if len(np.unique(known)) < len(known) else None


def _first(values: np.ndarray) -> np.ndarray:
    """Int64 [n]: the place at which each value stands first."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])
