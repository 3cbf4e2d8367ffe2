"""Lists of prompts are recognised by their content; what belongs to another format is never a prompt."""

import json

import pytest

from streams.codec.prompt_lists import entries


def fields(text: str) -> list[dict[str, object]]:
    found = list(entries(text.splitlines(keepends=True), "p"))
    assert [entry.fault for entry in found] == [""] * len(found)
    return [entry.fields for entry in found]


def faults(text: str) -> dict[str, str]:
    return {where: fault for where, _, fault in entries(text.splitlines(keepends=True), "p") if fault}


TWO = [{"prompt": "a red heart"}, {"prompt": "a blue star", "seed": 5}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(TWO),
        json.dumps(TWO, indent=2),
        '\n["a red heart",\n {"prompt": "a blue star", "seed": 5}]\n',
        "prompt,seed\na red heart,\n\n a blue star ,5\n",
        "\ufeffSeed;Prompt\r\n;a red heart\r\n5;a blue star\r\n",
        "prompt\tseed\na red heart\t\na blue star\t5\n",
        'a red heart\n\n{"prompt": "a blue star", "seed": 5}\n',
    ],
    ids=["array", "pretty array", "mixed array", "commas", "semicolons", "tabs", "lines"],
)
def test_each_format_gives_the_same_requests(text: str) -> None:
    assert fields(text) == TWO


def test_cells_become_what_their_field_is_and_may_hold_the_separator_and_line_ends() -> None:
    text = 'prompt,adapters,strict,guidance,tenant\n"a red heart,\nbig","[""candy""]",TRUE,2.5,7\n'
    wanted = {"prompt": "a red heart,\nbig", "adapters": ["candy"], "strict": True, "guidance": 2.5, "tenant": "7"}
    assert fields(text) == [wanted]


@pytest.mark.parametrize(
    "prompt",
    [
        "[blue] heart",
        "(red:1.3) heart, big",
        "<lora:candy:0.8>",
        "cat,dog",
        "seed",
        "-- a dash",
        "--- x",
        "prompt: a cat",
    ],
)
def test_prompts_that_resemble_another_format_stay_prompts(prompt: str) -> None:
    assert fields(f"{prompt}\n{prompt}\n") == [{"prompt": prompt}] * 2


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("# my prompts\na red heart\n", "p:1", "a comment"),
        ("a red heart\n  # more\n", "p:2", "a comment"),
        ("prompt\na cat\n#a dog\n", "p:3", "a comment"),
        ('a cat\n--prompt "a cat" --steps 20\n', "p:2", "options of a command"),
        ("caption,seed\na cat,5\n", "p:1", "without a column 'prompt'"),
        ("arrival_ms\n0\n", "p:1", "without a column 'prompt'"),
        ("prompt,seed\na cat,5,6\n", "p:2", "expected 2 cells (prompt,seed), got 3"),
        ('prompt,seed\n"a\ncat",5\na dog\n', "p:4", "got 1"),
        ('prompt,seed\n"a cat"x,5\n', "p:2", "not a row of CSV"),
        ('["a cat", 7]', "p: entry 2", "got 7"),
        ('["a cat"\n"a dog"]\n', "p:1", "begins as a JSON array, but it is none"),
        ('[{"prompt": "a cat", "seed": 1, "seed": 2}]', "p:1", "'seed' stands twice"),
        ('a cat\n["a dog"]\n', "p:2", "a JSON array, which must be all of a file"),
        ('{"prompt": "a cat", "seed": 1, "seed": 2}\n', "p:1", "'seed' stands twice"),
        ("{\n", "p:1", "not JSON"),
    ],
)
def test_what_belongs_to_another_format_is_a_fault_with_its_place(text: str, where: str, why: str) -> None:
    found = faults(text)
    assert list(found) == [where]
    assert why in found[where]


def test_an_array_nested_without_end_is_a_fault() -> None:
    assert "none" in faults("[\n" + "[" * 100_000)["p:1"]
