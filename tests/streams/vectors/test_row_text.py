"""A row as text: all of it comes back, and nothing that a store may have damaged is taken for a row."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.vectors.port import Source, UnusableRow, row_id
from streams.vectors.row_text import MAX_BYTES, as_row, as_text
from tests.streams.vectors.rows import EAST, a_row

ANY_TEXT = st.text(st.characters())  # with lone surrogates, quotes and control characters


@given(tenant=ANY_TEXT, prompt=ANY_TEXT, score=st.floats(0, 1))
def test_every_row_comes_back_whole_by_way_of_plain_ascii(tenant: str, prompt: str, score: float) -> None:
    source = Source(request_id="r", image_uri="u", prompt=prompt, facts=prompt, score=score)
    row = a_row(tenant=tenant, source=source)
    text = as_text(row)
    assert text.isascii()
    assert as_row(text, EAST) == row


def test_a_row_too_large_for_a_stores_field_is_refused() -> None:
    row = a_row()
    with pytest.raises(UnusableRow, match=f"at most {MAX_BYTES}"):
        as_text(replace(row, source=replace(row.source, prompt="ü" * 20_000)))


@pytest.mark.parametrize("name", json.loads(as_text(a_row())))
@pytest.mark.parametrize("value", [None, 1.5, True, [], "\x00" * 200])
def test_a_damaged_field_is_no_row(name: str, value: object) -> None:
    content = json.loads(as_text(a_row()))
    if (name, value) in (("tenant", "\x00" * 200), ("model", "\x00" * 200)):
        return  # a name of any text
    with pytest.raises(UnusableRow):
        as_row(json.dumps(content | {name: value}), EAST)
    del content[name]
    with pytest.raises(UnusableRow):
        as_row(json.dumps(content), EAST)


@pytest.mark.parametrize("text", [None, 7, "", "null", "[]", "{", '{"id": "x"}', "[" * 100_000, b"{}"])
def test_what_is_no_text_of_a_row_is_no_row(text: object) -> None:
    with pytest.raises(UnusableRow):
        as_row(text, EAST)


@pytest.mark.parametrize("vector", [(), (float("nan"),) * 8, ("a",) * 8, None])
def test_a_damaged_vector_is_no_row(vector: tuple[float, ...]) -> None:
    with pytest.raises(UnusableRow):
        as_row(as_text(a_row()), vector)


def test_tenants_with_the_same_image_have_rows_of_their_own() -> None:
    ids = {row_id("alice", "image"), row_id("bob", "image"), row_id("alice", "image"), row_id("\ud800", "image")}
    assert len(ids) == 3
    assert all(a_row(id=each).id == each for each in ids)
