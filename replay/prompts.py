"""The prompts a replay sends: from the user's file, or ours, in the words that the tiny models know."""

import importlib.resources
import pathlib
import random
from functools import cache

from schemas.errors import PochadeError


class InvalidPrompts(PochadeError):
    """A prompt file that gives no prompts."""


def read_prompts(path: pathlib.Path) -> list[str]:
    """One prompt a line; blank lines are skipped. Raises: InvalidPrompts."""
    try:
        prompts = _lines(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InvalidPrompts(f"no prompts at {path}: give a text file with one prompt a line") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPrompts(f"{path} cannot be read as UTF-8 text: {error}") from error
    if not prompts:
        raise InvalidPrompts(f"{path} has no prompts: write one a line, or leave the option away to use ours")
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
    return tuple(_lines(importlib.resources.files("replay").joinpath("prompts.txt").read_text(encoding="utf-8")))


def _lines(text: str) -> list[str]:
    # not splitlines(): a prompt may hold U+2028 and the like
    return [line.strip() for line in text.split("\n") if line.strip()]
