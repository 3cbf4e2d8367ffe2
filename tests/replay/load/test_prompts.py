"""Prompt files, and the prompts that ship."""

import gzip
import pathlib

import pytest

from agents.lab.world import captions
from replay.load.prompts import builtin_prompts, read_prompts
from streams.codec.prompt_lists import InvalidPrompts
from tests.replay.traces.files import a_file


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_prompts_are_lines_and_blank_ones_are_skipped(tmp_path: pathlib.Path, is_packed: bool) -> None:
    path = a_file(tmp_path, "\ufeff a red heart \r\n\n \nein schöner\u2028Baum\n", is_packed=is_packed)
    assert read_prompts(path) == ["a red heart", "ein schöner\u2028Baum"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "write one a line"),
        (" \n\n", "write one a line"),
        (b"a cat\n\xff\xfe", r"given:2: not UTF-8"),
        (gzip.compress(b"a cat\n" * 100, mtime=0)[:-8], r"given:\d+: cannot be read on"),
        (b"a cat\n" + b"x" * (1 << 21), r"given:2: a line has at most"),
    ],
)
def test_a_prompt_file_without_prompts_says_where_and_what_to_do(
    tmp_path: pathlib.Path, content: str | bytes, complaint: str
) -> None:
    with pytest.raises(InvalidPrompts, match=complaint):
        read_prompts(a_file(tmp_path, content))


@pytest.mark.parametrize(
    "content",
    ['["a cat", {"prompt": "a dog", "seed": 5}]', "prompt,hardness\na cat,.5\na dog,1\n", "a cat\na dog\n"],
    ids=["array", "table", "text"],
)
def test_a_prompt_file_may_have_any_format_of_prompt_lists(tmp_path: pathlib.Path, content: str) -> None:
    assert read_prompts(a_file(tmp_path, content)) == ["a cat", "a dog"]


def test_a_missing_prompt_file_says_what_to_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidPrompts, match="one prompt a line"):
        read_prompts(tmp_path / "nowhere.txt")


def test_our_prompts_are_all_images_the_tiny_world_can_generate() -> None:
    ours = set(builtin_prompts(1000))
    scenes = {prompt: captions.parse(prompt) for prompt in ours}
    assert [prompt for prompt, scene in scenes.items() if scene is None] == []
    assert {len(scene.objects) for scene in scenes.values() if scene} == {1, 2, 3, 4, 5, 6}
    assert len(ours) > 50


def test_our_prompts_come_once_each_before_any_comes_again() -> None:
    known = len(set(builtin_prompts(1000)))
    assert len(set(builtin_prompts(known, seed=4))) == known
    assert len(builtin_prompts(known + 7, seed=4)) == known + 7
    assert builtin_prompts(0) == []


def test_our_prompts_belong_to_their_seed() -> None:
    assert builtin_prompts(20, seed=1) == builtin_prompts(20, seed=1)
    assert builtin_prompts(20, seed=1) != builtin_prompts(20, seed=2)


def test_a_negative_number_of_prompts_is_refused() -> None:
    with pytest.raises(InvalidPrompts, match="0 or more: got -1"):
        builtin_prompts(-1)
