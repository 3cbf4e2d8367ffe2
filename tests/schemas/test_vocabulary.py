"""Other names of a request's fields say the same through every door, and never beside the field itself."""

from typing import Any

import pytest

from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions, GenerateRequest
from schemas.vocabulary import ALIASES, DECLARED, READ, SCHEMAS, aliased, in_own_words
from streams.codec.prompt_file import request_of, requests_in

NOW_MS = 1_760_000_000_000


def read(**fields: Any) -> GenerateRequest:
    return request_of({"request_id": "r-1", "prompt": "a red heart", **fields}, NOW_MS)


@pytest.mark.parametrize(
    ("stated", "own"),
    [
        ({"num_outputs": 2}, {"n": 2}),
        ({"num_inference_steps": 4, "guidance_scale": 1.5}, {"steps": 4, "guidance": 1.5}),
        ({"size": "64x48"}, {"width": 64, "height": 48}),
        ({"priority": "batch"}, {"tier": "batch"}),
        ({"deadline_in_ms": 5000}, {"deadline_ms": NOW_MS + 5000}),
        ({"created_ms": NOW_MS - 60, "deadline_in_ms": 50}, {"created_ms": NOW_MS - 60, "deadline_ms": NOW_MS - 10}),
        ({"adapter": "candy"}, {"adapters": ["candy"]}),
        ({"adapter": "candy:0.8"}, {"adapters": ["candy"], "adapter_weights": [0.8]}),
        ({"adapter": ["candy", "mint:-1"]}, {"adapters": ["candy", "mint"], "adapter_weights": [1.0, -1.0]}),
        ({"adapters": ["candy:0.8"]}, {"adapters": ["candy"], "adapter_weights": [0.8]}),
        ({"adapter": "candy", "adapter_weights": [0.5]}, {"adapters": ["candy"], "adapter_weights": [0.5]}),
        ({"control": "outline=a=b"}, {"controls": ["outline"], "control_images": ["a=b"]}),
        ({"control": "outline:0.5=a"},
         {"controls": ["outline"], "control_images": ["a"], "control_weights": [0.5]}),
        ({"priority": "batch", "tier": None}, {"tier": "batch"}),
    ],
)  # fmt: skip
def test_an_alias_makes_the_same_request_as_its_field(stated: dict[str, Any], own: dict[str, Any]) -> None:
    assert read(**stated) == read(**own)


@pytest.mark.parametrize(
    ("stated", "field", "said"),
    [
        ({"num_outputs": 2, "n": 2}, "num_outputs", "states n, which is there as well: give one of them"),
        ({"size": "64x48", "height": 48}, "size", "states height"),
        ({"deadline_in_ms": 9, "deadline_ms": NOW_MS + 9}, "deadline_in_ms", "states deadline_ms"),
        ({"adapter": "candy", "adapters": ["mint"]}, "adapter", "states adapters"),
        ({"adapter": "candy:1", "adapter_weights": [1]}, "adapter", "states adapter_weights"),
        ({"adapters": ["candy:1"], "adapter_weights": [1]}, "adapters", "states adapter_weights"),
        ({"adapter": "candy:much"}, "adapter", "NAME:WEIGHT with a number, such as candy:0.8"),
        ({"adapter": 7}, "adapter", "must be a list of strings: got 7"),
        ({"control": "outline"}, "control", "must be NAME=URI"),
        ({"size": "big"}, "size", "must be WIDTHxHEIGHT"),
        ({"deadline_in_ms": 0}, "deadline_in_ms", "1 or more: got 0"),
        ({"deadline_in_ms": True}, "deadline_in_ms", "1 or more: got True"),
        ({"deadline_in_ms": 2**63}, "deadline_in_ms", "must fit into 64 bits"),
    ],
)
def test_what_is_stated_twice_or_has_no_form_is_refused_by_its_name(
    stated: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        read(**stated)
    assert refused.value.field == field


def test_the_same_words_are_read_in_files_whose_fields_go_before_what_the_command_states() -> None:
    lines = ['{"prompt": "a", "num_outputs": 3, "deadline_in_ms": 70}', '{"prompt": "b"}']
    defaults = {"n": 2, "deadline_ms": NOW_MS + 9}
    found = requests_in(lines, "mine", now_ms=NOW_MS, check=str, defaults=defaults)
    assert [(each["n"], each["deadline_ms"]) for each in found] == [(3, NOW_MS + 70), (2, NOW_MS + 9)]
    table = ["prompt,num_outputs,priority,adapter", "a,3,batch,candy:0.8"]
    (row,) = requests_in(table, "mine", now_ms=NOW_MS, check=str, defaults={})
    assert row == {"prompt": "a", "n": 3, "tier": "batch", "adapters": ["candy"], "adapter_weights": [0.8]}


def test_no_alias_is_a_field_and_each_form_is_described() -> None:
    fields = GenerateRequest.__dataclass_fields__.keys() | GenerateOptions.__dataclass_fields__.keys()
    assert not ALIASES.keys() & fields
    assert READ.keys() == SCHEMAS.keys()
    assert in_own_words(dict.fromkeys(DECLARED), 0) == dict.fromkeys(DECLARED)
    assert aliased({"n": {"type": "integer"}})["num_outputs"] == {
        "type": "integer", "description": "The same as `n`.",
    }  # fmt: skip
