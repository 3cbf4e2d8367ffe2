"""An observation as JSON."""

import pytest

from planner.observation.deferral import observed_deferral
from planner.observation.observation import InvalidObservation, Observation, Queue, Served
from planner.observation.reuse import ObservedHits
from schemas.errors import Unknown
from schemas.messages import Cascade
from streams.parsing.observation import parse, text_of
from tests.builders import a_plan, a_worker, an_observation, lookups


def test_what_is_written_is_read_back_the_same() -> None:
    judging = a_plan(
        cascades=(Cascade(level="light", next_level="heavy", discriminator="look", threshold=0.4, refine_from_step=3),)
    )
    seen = an_observation(
        hardness=(0.5, 0.5), classes={"models": {"light": 1.0}, "reuse": {}}, slo_ms=5000.0,
        forecast_rps=12.5, counts=(9, 11), tiers={"interactive": 0.25, "batch": 0.75},
        workers=(a_worker("a", allocated="heavy", worker_type="l40s"), a_worker("b")), queues=(Queue("light", 3, 1.5),),
        deferral=(observed_deferral("light", "look", [(0.2, 0.4)] * 100, (0.0, 0.5, 1.0)),),
        served=Served(10, 0.9, None), ignored=2, in_force=judging,
        reuse=lookups(hits={"heavy~k4": ObservedHits(40, 0.25)}),
    )  # fmt: skip
    assert parse(text_of(seen), "seen.json") == seen
    assert parse(text_of(an_observation()), "seen.json") == an_observation()


def test_what_release_0_1_wrote_of_retrievals_was_nothing_and_is_passed_over() -> None:
    assert parse('{"demand_rps": 3, "retrieval_ms": null}', "x.json") == Observation(now_ms=0, demand_rps=3)


def test_the_demand_alone_is_an_observation_and_a_worker_needs_only_its_id() -> None:
    assert parse('{"demand_rps": 3}', "x.json") == Observation(now_ms=0, demand_rps=3)
    seen = parse('{"demand_rps": 3, "workers": [{"worker_id": "b"}, {"worker_id": "a"}], "slo_ms": null}', "x.json")
    assert [worker.worker_id for worker in seen.workers] == ["a", "b"]
    assert parse('{"demand_rps": 3, "served": {"requests": 5, "quality": null}}', "x").served == Served(5)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("{", r"observation x\.json is not JSON"),
        ('{"demand_rps": NaN}', "demand_rps of an observation"),
        ('{"demand_rps": 1, "workers": [{"worker_id": "w-1", "remaining_ms": NaN}]}', "remaining_ms of w-1"),
        ('{"demand_rps": 1, "hardness": [0.5]}', "shares that sum to 1"),
        ('{"demand_rps": 1, "deferral": [{"level": "a", "discriminator": "b", "curves": [[[0.5, 1.5]]]}]}', "shares"),
        ('{"demand_rps": 1, "deferral": [{"level": "a", "discriminator": "b", "curves": []}]}', "a curve between two"),
    ],
)
def test_numbers_that_are_no_rates_and_no_shares_are_refused(text: str, reported: str) -> None:
    with pytest.raises(InvalidObservation, match=reported):
        parse(text, "x.json")


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("{}", r"observation x\.json: demand_rps must be given"),
        ("[]", r"observation x\.json must be a table"),
        ('{"demand_rps": "3"}', "demand_rps must be a number: got '3'"),
        ('{"demand_rps": 3, "workers": [{}]}', r"workers\[0\]\.worker_id must be given"),
        ('{"demand_rps": 3, "counts": [1.5]}', r"counts\[0\] must be a whole number"),
        ('{"demand_rps": 3, "queues": [["light"]]}', r"queues\[0\]\.waiting must be given"),
    ],
)
def test_what_is_missing_or_of_another_type_is_named(text: str, reported: str) -> None:
    with pytest.raises(InvalidObservation, match=reported):
        parse(text, "x.json")


def test_a_misspelt_key_names_the_nearest() -> None:
    with pytest.raises(Unknown, match="did you mean 'demand_rps'"):
        parse('{"demand_rp": 3}', "x.json")
