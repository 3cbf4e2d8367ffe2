"""What an unknown name is answered with."""

import pytest

from schemas.errors import Unknown

KNOWN = ("height", "model", "n", "negative_prompt", "reuse", "seed", "steps", "strict", "tier", "unpin", "width")


@pytest.mark.parametrize(
    ("name", "near"),
    [("sede", "seed"), ("stesp", "steps"), ("tiers", "tier"), ("modl", "model"), ("negativ_promt", "negative_prompt")],
)
def test_a_name_that_is_a_mistake_or_two_away_is_suggested(name: str, near: str) -> None:
    assert str(Unknown("field", name, KNOWN)).startswith(f"unknown field {name!r}: did you mean {near!r}? known")


@pytest.mark.parametrize("name", ["style", "start", "user", "m", "negative", "", "x" * 100_000])
def test_a_name_that_only_looks_alike_gets_no_suggestion(name: str) -> None:
    assert str(Unknown("field", name, KNOWN)).endswith(", unpin, width")


def test_a_name_of_another_product_is_answered_with_all_that_stand_for_it_here() -> None:
    synonyms = {"size": ("size", "width", "height")}
    assert str(Unknown("field", "size", KNOWN, synonyms)).startswith(
        "unknown field 'size': did you mean 'width' and 'height'? "
    )
