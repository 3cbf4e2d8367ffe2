"""Streams of requests: each follows from the one it names, in the way it says, as often as its shares say."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from click.testing import CliRunner

from agents.lab.world.captions import parse
from agents.lab.world.sessions import DIFFUSIONDB, EDITED, NEW, REPEATED, RESTYLED, Asked, Sessions, main, requests
from tests.paths import SHARED

COUNT = 1200


def drawn(sessions: Sessions = DIFFUSIONDB, count: int = COUNT) -> list[Asked]:
    return requests(np.random.default_rng(3), count, sessions)


def of_kind(kind: str) -> list[tuple[Asked, Asked]]:
    """Requests of a kind, each with the one it follows from."""
    every = drawn()
    return [(every[each.source], each) for each in every if each.kind == kind and each.source is not None]


def alike(prompts: Sequence[str]) -> tuple[float, float, float]:
    """Shares of prompts that equal an earlier one, share nine words of ten with one, and eight of ten."""
    words = [frozenset(re.findall(r"[a-z0-9]+", prompt.lower())) for prompt in prompts]
    nearest = [
        max((len(own & other) / len(own | other) for other in words[:at] if own | other), default=0.0)
        for at, own in enumerate(words)
    ]
    equal = np.mean([prompt in prompts[:at] for at, prompt in enumerate(prompts)])
    return float(equal), float(np.mean(np.array(nearest) >= 0.9)), float(np.mean(np.array(nearest) >= 0.8))


def test_what_is_repeated_is_so_to_the_letter() -> None:
    pairs = of_kind(REPEATED)
    assert len(pairs) > COUNT / 20
    assert all(before.prompt == after.prompt for before, after in pairs)


def test_what_is_restyled_states_the_same() -> None:
    pairs = of_kind(RESTYLED)
    assert len(pairs) > COUNT / 20
    assert all(before.scene == after.scene and before.prompt != after.prompt for before, after in pairs)


def test_what_is_edited_states_something_else_in_one_word_or_phrase() -> None:
    pairs = of_kind(EDITED)
    assert len(pairs) > COUNT / 20
    for before, after in pairs:
        assert (before.scene.objects, before.scene.background) != (after.scene.objects, after.scene.background)
        assert len(before.scene.objects) == len(after.scene.objects)
        one, other = before.scene.caption.lower().split(), after.scene.caption.lower().split()
        assert abs(len(one) - len(other)) <= 2


def test_the_caption_of_every_request_is_read_back_as_its_scene() -> None:
    assert all(parse(each.scene.caption) == each.scene for each in drawn(count=300))


def test_without_sessions_every_request_is_new() -> None:
    none = Sessions(repeated=0, restyled=0, edited=0, median_gap=4, gap_spread=1)
    assert {each.kind for each in drawn(none, 200)} == {NEW}


def test_gaps_have_the_median_that_is_asked_for() -> None:
    gaps = [at - each.source for at, each in enumerate(drawn()) if each.source is not None]
    assert np.median(gaps) == pytest.approx(DIFFUSIONDB.median_gap, abs=1.5)


@pytest.mark.skipif(not (SHARED / "data" / "prompts").is_dir(), reason="needs the real prompts of ../shared/data")
def test_prompts_repeat_as_often_as_real_ones_do_to_which_they_were_not_fitted() -> None:
    lines = (SHARED / "data" / "prompts" / "diffusiondb.txt").read_text().splitlines()
    real, ours = alike(lines[2000:3200]), alike([each.prompt for each in drawn()])
    assert ours == pytest.approx(real, abs=0.12)


def test_the_command_writes_one_prompt_a_line() -> None:
    answer = CliRunner().invoke(main, ["--count", "7", "--seed", "2"])
    assert answer.exit_code == 0, answer.output
    lines = answer.output.splitlines()
    assert len(lines) == 7
    assert all(line.strip() for line in lines)
