"""Streams: easy prompts stay as they are, and each share and weight of a stream is what its prompts show."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agents.lab.world import captions, free_form, scenes
from agents.lab.world.patterns import PATTERNS
from agents.lab.world.stream import ALONE, EASY, STANDARD, STREAMS, Stream, kind_of
from agents.world.words import SHAPES

KINDS = ("counts", "lists", "places", "relations", "rows", "corners")


def drawn(stream: Stream, count: int = 1000, objects: int | None = None) -> list[scenes.Scene]:
    rng = np.random.default_rng(1)
    return [scenes.sample(rng, objects, stream) for _ in range(count)]


def with_field(name: str, value: float) -> Stream:
    changed: dict[str, Any] = {name: value}
    return replace(EASY, **changed)


def test_easy_prompts_are_those_of_which_the_shipped_figures_tell() -> None:
    rng = np.random.default_rng(20)
    text = "\n".join(scenes.sample(rng, objects).caption for objects in (None, 1, 2, 3, 4, 5, 6) for _ in range(300))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "e534f658ac63288e"
    assert rng.random() == 0.8717390994320147  # and nothing else was drawn


def test_standard_prompts_ask_for_more_and_rarer_things_amid_other_words() -> None:
    easy, standard = drawn(EASY), drawn(STANDARD)

    def asked_for(scenes_: list[scenes.Scene]) -> tuple[float, float]:
        things = [thing for scene in scenes_ for thing in scene.objects]
        rare = [list(SHAPES).index(thing.shape) >= len(SHAPES) // 2 for thing in things]
        return len(things) / len(scenes_), float(np.mean(rare))

    assert all(hard > usual for hard, usual in zip(asked_for(standard), asked_for(easy), strict=True))
    assert {len(scene.objects) for scene in standard} == set(PATTERNS)
    assert STREAMS == {"easy": EASY, "standard": STANDARD}
    assert STANDARD.junk > EASY.junk == 0


def test_a_stream_without_junk_asks_what_is_sampled() -> None:
    one, other = np.random.default_rng(4), np.random.default_rng(4)
    asked = [free_form.asked(one, EASY) for _ in range(50)]
    assert asked == [(scene.caption, scene) for scene in (scenes.sample(other) for _ in range(50))]


def test_junk_stands_around_the_caption_in_its_share_of_prompts() -> None:
    rng = np.random.default_rng(5)
    asked = [free_form.asked(rng, replace(EASY, junk=0.4)) for _ in range(1000)]
    assert np.mean([prompt != scene.caption for prompt, scene in asked]) == pytest.approx(0.4, abs=0.05)
    assert all(scene.caption.lower() in prompt.lower() for prompt, scene in asked)


def test_every_sentence_pattern_is_of_one_kind() -> None:
    kinds = Counter(kind_of(pattern) for known in PATTERNS.values() for pattern in known)
    assert kinds == {ALONE: 1, "counts": 5, "lists": 3, "places": 8, "relations": 6, "rows": 80, "corners": 24}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_sentence_without_weight_does_not_occur_and_a_heavy_one_does(kind: str) -> None:
    objects = next(n for n, known in PATTERNS.items() if any(kind_of(pattern) == kind for pattern in known))

    def share(weight: float) -> float:
        stream = with_field(kind, weight)
        weights = {pattern: stream.weight(pattern) for pattern in PATTERNS[objects]}
        return sum(w for p, w in weights.items() if kind_of(p) == kind) / sum(weights.values())

    assert share(0.0) == 0.0 < share(1.0) < share(4.0)
    without = drawn(with_field(kind, 0.0), 200, objects)
    assert all(captions.parse(scene.caption) == scene for scene in without)


def test_binding_asks_for_more_different_things() -> None:
    def phrases(stream: Stream) -> float:
        return float(np.mean([len({(t.shape, t.colour) for t in scene.objects}) for scene in drawn(stream, 500, 5)]))

    assert phrases(replace(EASY, binding=3.0)) > phrases(EASY) + 0.5


@pytest.mark.parametrize(("field", "occurs"), [
    ("sized", lambda scene: any(thing.size for thing in scene.objects)),
    ("unlike", lambda scene: any(thing.is_unlike for thing in scene.objects)),
    ("absent", lambda scene: scene.absent is not None),
    ("background", lambda scene: scene.background is not None),
])  # fmt: skip
def test_what_has_no_share_does_not_occur(field: str, occurs: Callable[[scenes.Scene], bool]) -> None:
    never, always = (drawn(with_field(field, share), 200) for share in (0.0, 1.0))
    assert not any(map(occurs, never))
    assert sum(map(occurs, always)) > 100


def test_without_a_slope_all_shapes_are_alike() -> None:
    things = [thing.shape for scene in drawn(replace(EASY, shape_zipf=0.0), 2000) for thing in scene.objects]
    counts = Counter(things)
    assert set(counts) == set(SHAPES)
    assert max(counts.values()) < 2 * min(counts.values())
