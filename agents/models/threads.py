"""Limits torch to one thread where it judges a prompt or a small image.

Two threads took twice the processor's time and no less of the clock's: for a prompt 5.4 and 11.9 ms of processor, 5.5
and 5.9 by the clock; for an image 7.2 and 15.7, 7.2 and 7.8.
"""

import contextlib
from collections.abc import Iterator

import torch


def judge_on_one() -> None:
    """Let torch use one thread for the rest of this process, unless an engine is loaded later with `worker.threads`."""
    torch.set_num_threads(1)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within, one; after it as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
