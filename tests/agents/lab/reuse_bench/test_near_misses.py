"""Near misses that are made: pairs of prompts that differ in one stated fact."""

from collections import Counter

import pytest

from agents.lab.reuse_bench.near_misses import CHANGES, of_prompts, of_world
from agents.lab.world.captions import parse


@pytest.mark.parametrize(
    ("prompt", "changed"),
    [
        ("two cats", "three|four|five|six|seven|eight|nine|ten"),
        ("the red one", "blue|yellow|green|orange|purple|pink|black|teal|brown"),
        ("there it is above me", "below"),
    ],
)
def test_a_word_is_another_of_its_kind(prompt: str, changed: str) -> None:
    ((_, first, second),) = (pair[:3] for pair in of_prompts([prompt], seed=1))
    assert first == prompt
    assert len(set(second.split()) - set(first.split())) == 1
    assert any(word in second.split() for word in changed.split("|"))


def test_adjectives_and_nouns_change_places_where_they_stand_for_others() -> None:
    drawn = [pair for seed in range(40) for pair in of_prompts(["a fast fox behind a slow car, watercolor"], seed)]
    made = {pair.kind: pair.second for pair in drawn}
    assert made["binding"] == "a slow fox behind a fast car, watercolor"
    assert made["swap"] == "a fast car behind a slow fox, watercolor"
    assert made["place"] == "a fast fox in front of a slow car, watercolor"


def test_each_prompt_is_used_once_and_differs_from_what_it_became() -> None:
    prompts = [f"a {colour} cat on a mat" for colour in ("red", "blue", "red", "teal")]
    pairs = of_prompts(prompts, seed=1)
    assert Counter(pair.first for pair in pairs) == dict.fromkeys(prompts, 1)
    assert all(pair.first != pair.second and pair.kind in CHANGES for pair in pairs)
    assert pairs == of_prompts(prompts, seed=1)


def test_captions_of_the_tiny_world_state_another_scene() -> None:
    pairs = of_world(40, seed=1)
    scenes = [(parse(pair.first), parse(pair.second)) for pair in pairs]
    read = [(one, other) for one, other in scenes if one and other]
    assert len(read) > 10
    assert all((one.objects, one.background) != (other.objects, other.background) for one, other in read)
