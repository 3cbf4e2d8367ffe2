"""The prompts a replay sends: from the user's file, or ours, in the words that the tiny models know."""

import importlib.resources
import pathlib
import random
from functools import cache

from replay.traces.formats.faults import Faults
from replay.traces.formats.lines import open_lines
from streams.codec.prompt_lists import InvalidPrompts, prompts_in


def read_prompts(path: pathlib.Path) -> list[str]:
    """Read the prompts of a list in any format of `streams/codec/prompt_lists.py`, plain or gzip.

    Raises:
        InvalidPrompts: the first entry that is no prompt, with file and line.
    """
    faults = Faults(str(path), is_lenient=False, error=InvalidPrompts)
    with open_lines(path, faults, InvalidPrompts, "a list with one prompt a line, a CSV table or JSON") as lines:
        prompts = prompts_in(lines, str(path))
    if not prompts:
        raise InvalidPrompts(f"{path} has no prompts: write one a line, or leave the option out to use ours")
    return prompts


def builtin_prompts(count: int, seed: int = 0) -> list[str]:
    """`count` of our prompts in an order that belongs to the seed; each comes once before any comes again."""
    if count < 0:
        raise InvalidPrompts(f"count must be 0 or more: got {count}")
    dice = random.Random(seed)
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += dice.sample(_builtin(), k=min(len(_builtin()), count - len(drawn)))
    return drawn


@cache
def _builtin() -> tuple[str, ...]:
    text = importlib.resources.files("replay.load").joinpath("prompts.txt").read_text(encoding="utf-8")
    return tuple(line.strip() for line in text.split("\n") if line.strip())
