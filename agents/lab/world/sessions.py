"""Prompts as one stream of requests: some repeat an earlier one, some say it in other words, some change a fact.

python -m agents.lab.world.sessions --count 2000 --seed 1 > prompts.txt
"""

import math
import re
from dataclasses import dataclass
from typing import Final

import click
import numpy as np

from agents.lab.world.captions import parse, plural
from agents.lab.world.free_form import asked
from agents.lab.world.phrases import BACKGROUNDS, STYLES
from agents.lab.world.scene import Scene
from agents.lab.world.stream import STANDARD, Stream
from agents.world.words import COLOURS, SHAPES, SIZES

NEW, REPEATED, RESTYLED, EDITED = "new", "repeated", "restyled", "edited"  # how a prompt follows from an earlier one
_TRIES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Shares of requests that repeat or change a prompt, of all requests; the rest are new."""

    repeated: float  # word for word
    restyled: float  # with a style word more or less: every stated fact is the same
    edited: float  # with one word changed that states a fact
    median_gap: float  # requests back to the earlier one, in the median
    gap_spread: float  # standard deviation of the gap's natural logarithm


# Fitted to 2,000 prompts of DiffusionDB (Wang et al., DiffusionDB, 2022) in their order: 12 % equal an earlier one, 31
# and 45 % share nine and eight words of ten with one; drawn: 12, 29, 45 %. The next 2,000, held back: 10, 24, 36 %.
DIFFUSIONDB: Final = Sessions(repeated=0.095, restyled=0.205, edited=0.16, median_gap=4.0, gap_spread=1.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request of a stream."""

    prompt: str
    scene: Scene  # what it states
    kind: str = NEW  # NEW, REPEATED, RESTYLED or EDITED
    source: int | None = None  # number of the request it follows from


def requests(rng: np.random.Generator, count: int, sessions: Sessions, stream: Stream = STANDARD) -> list[Asked]:
    """Draw `count` requests; one that cannot be edited, or comes before there is an earlier one, is new."""
    out: list[Asked] = []
    shares = np.cumsum([sessions.repeated, sessions.restyled, sessions.edited])
    for number in range(count):
        kind = (REPEATED, RESTYLED, EDITED, NEW)[int(np.searchsorted(shares, rng.random(), side="right"))]
        gap = max(1, round(sessions.median_gap * math.exp(sessions.gap_spread * rng.normal())))
        following = _following(rng, kind, out, number - gap) if number >= gap and kind != NEW else None
        if following is None:
            prompt, scene = asked(rng, stream)
            following = Asked(prompt=prompt, scene=scene)
        out.append(following)
    return out


def _following(rng: np.random.Generator, kind: str, earlier: list[Asked], source: int) -> Asked | None:
    prompt, scene = earlier[source].prompt, earlier[source].scene
    if kind == REPEATED:
        return Asked(prompt=prompt, scene=scene, kind=kind, source=source)
    if kind == RESTYLED:
        return Asked(prompt=restyled(rng, prompt), scene=scene, kind=kind, source=source)
    changed = edited(rng, scene)
    if changed is None:
        return None
    around = prompt.replace(scene.caption, changed.caption)  # the words around it stay
    return Asked(prompt=around if around != prompt else changed.caption, scene=changed, kind=kind, source=source)


def restyled(rng: np.random.Generator, prompt: str) -> str:
    """The prompt with a style word more, or without the last one that it ends with."""
    ending = next((style for style in STYLES if prompt.endswith(f", {style}")), None)
    if ending is not None and rng.random() < 0.5:
        return prompt.removesuffix(f", {ending}")
    others = [style for style in STYLES if style not in prompt]
    return f"{prompt}, {others[int(rng.integers(len(others)))]}" if others else prompt


def edited(rng: np.random.Generator, scene: Scene) -> Scene | None:
    """The scene of its caption with one word changed that states a fact; None where a few tries find none."""
    for _ in range(_TRIES):
        places = list(_WORDS.finditer(scene.caption))
        if not places:
            return None
        place = places[int(rng.integers(len(places)))]
        others = _ALIKE[place[0]]
        word = others[int(rng.integers(len(others)))]
        caption = f"{scene.caption[: place.start()]}{word}{scene.caption[place.end() :]}"
        changed = parse(_with_articles(caption))
        if changed is not None and (changed.objects, changed.background) != (scene.objects, scene.background):
            return changed
    return None


def _alike() -> dict[str, tuple[str, ...]]:
    """word -> the words of other facts that can stand in its place."""
    plurals = {shape: tuple(plural(word) for word in words) for shape, words in SHAPES.items()}
    return {
        word: tuple(other for name, others in group.items() if name != own for other in others)
        for group in (SHAPES, plurals, COLOURS, SIZES, BACKGROUNDS)
        for own, words in group.items()
        for word in words
    }


_ALIKE: Final = _alike()
_WORDS: Final = re.compile(rf"\b(?:{'|'.join(sorted(_ALIKE, key=len, reverse=True))})\b")


def _with_articles(caption: str) -> str:
    return re.sub(r"\ban? (?=([a-z]))", lambda found: "an " if found[1] in "aeiou" else "a ", caption)


@click.command()
@click.option("--count", default=1000, show_default=True, help="Number of prompts.")
@click.option("--seed", default=1, show_default=True, help="Random seed of the prompts.")
def main(count: int, seed: int) -> None:
    """Write prompts that repeat and are edited as people's are, one a line, in the order of the requests."""
    for each in requests(np.random.default_rng(seed), count, DIFFUSIONDB):
        click.echo(each.prompt)


if __name__ == "__main__":
    main()
