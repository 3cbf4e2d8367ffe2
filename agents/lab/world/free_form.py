"""Free-form prompts, as users write them who do not know the grammar."""

from dataclasses import replace

import numpy as np

from agents.lab.world.free_words import FREE_WORDS
from agents.lab.world.phrases import BACKGROUNDS, STYLES
from agents.lab.world.scenes import Scene, sample
from agents.lab.world.stream import Stream
from agents.world.words import COLOURS, SHAPES

_LETTERS = "aabcdeeefghiijklmnnooprrsstttuvwyz"


def _word(rng: np.random.Generator) -> str:
    if rng.random() < 0.12:  # names, typos, other languages
        return "".join(_LETTERS[int(i)] for i in rng.integers(0, len(_LETTERS), int(rng.integers(2, 9))))
    return FREE_WORDS[int(rng.integers(len(FREE_WORDS)))]


def sentence(rng: np.random.Generator) -> str:
    """A few clauses of everyday prompt words."""
    clauses = [" ".join(_word(rng) for _ in range(int(rng.integers(1, 6)))) for _ in range(int(rng.integers(1, 5)))]
    if rng.random() < 0.2:
        clauses.append(STYLES[int(rng.integers(len(STYLES)))])
    return ", ".join(clauses)


def mixed(rng: np.random.Generator, caption: str) -> str:
    """A caption amid free words: before it, after it, or both; sometimes in capitals."""
    where = rng.random()
    if where < 0.6:
        caption = f"{caption}, {sentence(rng)}"
    elif where < 0.8:
        caption = f"{sentence(rng)}, {caption}"
    else:
        caption = f"{_word(rng)} {_word(rng)} {caption} {_word(rng)}"
    return caption.upper() if rng.random() < 0.1 else caption


def asked(rng: np.random.Generator, stream: Stream) -> tuple[str, Scene]:
    """A prompt of a stream, and the scene of the caption that stands in it, amid free words or alone."""
    scene = sample(rng, stream=stream)
    if stream.junk and rng.random() < stream.junk:  # a stream without free words draws what `sample` draws
        return mixed(rng, scene.caption), scene
    return scene.caption, scene


def hinted(rng: np.random.Generator) -> tuple[str, Scene, frozenset[str]]:
    """A free-form sentence that drops words of this world outside the grammar, as in "lost house, blue, at night".

    Returns the sentence, a one-object scene that agrees with it, and which of shape, colour and background it names.
    """
    scene = sample(rng, 1)
    scene = Scene(
        objects=(replace(scene.objects[0], slot="C", size="", is_unlike=False),),
        background=scene.background,
        caption="",
    )
    thing = scene.objects[0]
    words = [_word(rng) for _ in range(int(rng.integers(1, 7)))]
    named = set()
    for kind, synonyms, chance in (
        ("shape", SHAPES[thing.shape], 0.7),
        ("colour", COLOURS[thing.colour], 0.5),
        ("background", BACKGROUNDS.get(scene.background or "", ()), 0.4),
    ):
        if synonyms and rng.random() < chance:
            named.add(kind)
            words.insert(int(rng.integers(len(words) + 1)), synonyms[int(rng.integers(len(synonyms)))])
    marks = [word + ("," if rng.random() < 0.2 else "") for word in words]
    return " ".join(marks).rstrip(","), scene, frozenset(named)
