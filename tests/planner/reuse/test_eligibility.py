"""Eligibility: who may begin from a stored image, and whose image may be stored."""

from typing import Any

import pytest

from planner.reuse.eligibility import Asked, Consent, Refusal, lookup_refusal, storage_refusal
from schemas.messages import GenerateOptions


def asked(**changes: Any) -> Asked:
    return Asked(**({"own_steps": 20, "own_guidance": 4.0, "own_size": (48, 48)} | changes))


def test_an_ordinary_request_is_looked_up_and_its_image_stored() -> None:
    assert lookup_refusal(asked()) is None
    assert storage_refusal(asked()) is None


def test_who_says_off_is_neither_looked_up_nor_stored() -> None:
    assert lookup_refusal(asked(consent=Consent.OFF)) is Refusal.OPTED_OUT
    assert storage_refusal(asked(consent=Consent.OFF)) is Refusal.OPTED_OUT


def test_an_explicit_seed_is_off_by_default_and_on_where_the_request_says_own() -> None:
    assert lookup_refusal(asked(has_seed=True)) is Refusal.SEED
    assert lookup_refusal(asked(has_seed=True, consent=Consent.OWN)) is None
    assert storage_refusal(asked(has_seed=True)) is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"n": 2}, Refusal.MANY_IMAGES),
        ({"negative_prompt": "moon"}, Refusal.NEGATIVE_PROMPT),
        ({"controls": ("edges",)}, Refusal.CONTROLS),
        ({"adapters": ("comic",)}, Refusal.ADAPTERS),
    ],
)
def test_what_the_prompt_does_not_say_is_neither_looked_up_nor_stored(options: dict[str, Any], why: Refusal) -> None:
    one = asked(options=GenerateOptions(**options))
    assert (lookup_refusal(one), storage_refusal(one)) == (why, why)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"steps": 5}, Refusal.STEPS),
        ({"guidance": 9.0}, Refusal.GUIDANCE),
        ({"width": 64}, Refusal.SIZE),
        ({"height": 64}, Refusal.SIZE),
    ],
)
def test_unusual_steps_guidance_and_sizes_are_looked_up_but_not_stored(options: dict[str, Any], why: Refusal) -> None:
    one = asked(options=GenerateOptions(**options))
    assert (lookup_refusal(one), storage_refusal(one)) == (None, why)


def test_options_that_state_what_the_variant_does_anyway_are_stored() -> None:
    options = GenerateOptions(steps=20, guidance=4.0, width=48, height=48)
    assert storage_refusal(asked(options=options)) is None


def test_strict_runs_in_full_but_is_stored() -> None:
    one = asked(options=GenerateOptions(strict=True))
    assert (lookup_refusal(one), storage_refusal(one)) == (Refusal.STRICT, None)


def test_a_draft_is_refined_rather_than_a_neighbour() -> None:
    assert lookup_refusal(asked(has_draft=True)) is Refusal.DRAFT


@pytest.mark.parametrize(("flag", "why"), [("is_private", Refusal.PRIVATE), ("is_flagged", Refusal.FLAGGED)])
def test_private_and_flagged_requests_leave_no_trace(flag: str, why: Refusal) -> None:
    one = asked(consent=Consent.OWN, **{flag: True})
    assert (lookup_refusal(one), storage_refusal(one)) == (why, why)
