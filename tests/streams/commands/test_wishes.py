"""Options of submit become the fields of a request, and nothing else."""

import click
import pytest

from schemas.errors import InvalidRequest
from streams.codec.prompt_file import request_of
from streams.commands.wishes import fields_of


def test_what_was_not_given_is_left_to_the_request() -> None:
    given = {"seed": None, "tenant": "default", "n": None, "adapters": (), "strict": False, "size": None}
    assert fields_of(given) == {"tenant": "default"}


def test_what_was_given_becomes_a_request_that_reads() -> None:
    given = {"quality": "high", "n": 2, "adapters": ("ink",), "strict": True, "size": "64x48", "guidance": 1.5}
    request = request_of({**fields_of(given), "prompt": "a red heart"}, 5)
    options = request.options
    assert (request.quality, options.n, options.adapters, options.strict) == ("high", 2, ("ink",), True)
    assert (options.width, options.height, options.guidance) == (64, 48, 1.5)
    assert request.request_id


def test_an_empty_id_would_be_everybodys_and_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="request_id must not be empty"):
        request_of({"prompt": "a red heart", "request_id": ""}, 5)


@pytest.mark.parametrize("size", ["64", "x48", "64x", "axb", "64:48"])
def test_a_size_that_is_none_is_a_usage_error(size: str) -> None:
    with pytest.raises(click.BadParameter, match="WIDTHxHEIGHT"):
        fields_of({"size": size})
