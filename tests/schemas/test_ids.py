"""Ids and draws belong to the request: repeated decisions come out the same."""

from hypothesis import given
from hypothesis import strategies as st

from schemas import ids


@given(st.text(min_size=1), st.text())
def test_a_draw_is_repeatable_and_in_the_unit_interval(request_id: str, salt: str) -> None:
    assert ids.draw(request_id, salt) == ids.draw(request_id, salt)
    assert 0 <= ids.draw(request_id, salt) < 1


def test_draws_are_spread_evenly() -> None:
    draws = [ids.draw(f"r-{n}", "route") for n in range(10_000)]
    share = sum(d < 0.3 for d in draws) / len(draws)
    assert abs(share - 0.3) < 0.02


def test_draws_of_different_salts_are_independent() -> None:
    both = sum(ids.draw(f"r-{n}", "a") < 0.5 and ids.draw(f"r-{n}", "b") < 0.5 for n in range(10_000))
    assert abs(both / 10_000 - 0.25) < 0.02


def test_a_record_without_an_id_gets_the_same_one_at_every_reading() -> None:
    assert ids.request_id_of_record("prompts.v1", 1, 42, 5) == ids.request_id_of_record("prompts.v1", 1, 42, 5)


def test_a_record_has_another_id_than_those_beside_it_and_than_that_at_its_place_on_a_topic_made_again() -> None:
    places = [("prompts.v1", 1, 42, 5), ("prompts.v1", 2, 42, 5), ("prompts.v1", 1, 43, 5), ("prompts.v1", 1, 42, 6)]
    assert len({ids.request_id_of_record(*place) for place in places}) == len(places)


def test_a_job_id_is_a_function_of_request_stage_and_level() -> None:
    assert ids.job_id("r", 0, "light") == ids.job_id("r", 0, "light")
    assert len({ids.job_id("r", s, level) for s in (0, 1) for level in ("light", "heavy")}) == 4


def test_the_noise_for_refining_is_repeatable_and_never_that_of_the_draft() -> None:
    seeds = {ids.refinement_seed(seed, stage) for seed in (7, 8, 2**63 - 1) for stage in (1, 2)}
    assert len(seeds | {7, 8}) == 8
    assert ids.refinement_seed(7, 1) == ids.refinement_seed(7, 1) < 2**31
