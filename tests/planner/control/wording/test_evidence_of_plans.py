"""What a plan says of the measurements that it rests on."""

import dataclasses

import pytest

from planner.catalog.measured import CascadeBands, Difference, Measured
from planner.control.proposal import PlanProposal
from planner.control.wording.evidence import UNKNOWN, with_evidence
from schemas.messages import Expected, Route
from tests.builders import a_cascade, a_catalog

KEY = a_catalog().pair().key
SURE, UNSURE, NONE = Difference(0.2, 0.01, 800), Difference(0.01, 0.02, 800), Difference(0.0, 0.0, 800)
EXPECTED = Expected(demand_rps=1.0, utilization=0.5, heavy_share=0.5, quality=0.9)


def a_proposal(level: str = "light", **changes: object) -> PlanProposal:
    cascades = (a_cascade(level="light", next_level="heavy", discriminator="look", threshold=0.5, refine_from_step=3),)
    plain = PlanProposal(
        routes=(Route(levels={level: 1.0}),), cascades=cascades, expected=EXPECTED, allocation={}, batch={}, reason=""
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def evidence(proposal: PlanProposal, gain: Difference = SURE, prompts: tuple[int, ...] = (400, 400)) -> Expected:
    bands = CascadeBands((0.0, 0.5, 1.0), ((0.0, 0.5, 1.0),) * 2, losses=(SURE, UNSURE, NONE), changes={3: UNSURE})
    measured = Measured(
        bounds=(0.0, 0.5, 1.0), quality={}, cascades={KEY: bands}, prompts=prompts, gains={("light", "heavy"): gain}
    )
    found = with_evidence(proposal, a_catalog(measured=measured)).expected
    assert found is not None
    return found


def test_the_expected_quality_has_an_interval_by_the_number_of_prompts() -> None:
    found = evidence(a_proposal())
    assert found.quality_prompts == 800
    assert (found.quality_low, found.quality_high) == (pytest.approx(0.877, abs=0.001), pytest.approx(0.919, abs=0.001))


def test_each_choice_names_what_it_rests_on() -> None:
    levels, keeping, refining = evidence(a_proposal()).evidence.split("; ")
    assert levels == "heavy gains +0.200 [+0.180, +0.220] of quality (800 prompts) over light"
    assert keeping.startswith("keeping images of light from a confidence of 0.5 on costs +0.010 [-0.029, +0.049]")
    assert refining.startswith("refining drafts from step 3 changes +0.010")


def test_a_difference_that_rounds_to_nothing_has_no_sign() -> None:
    found = evidence(a_proposal(), Difference(-0.0004, 0.01, 800)).evidence
    assert found.startswith("no gain of heavy over light is shown: 0 [-0.020, +0.019] of quality")


def test_a_gain_that_is_not_shown_is_said_to_be_none() -> None:
    assert evidence(a_proposal(), UNSURE).evidence.startswith("no gain of heavy over light is shown: +0.010")


def test_levels_are_compared_as_they_were_measured_whatever_their_times_are_now() -> None:
    catalog = a_catalog(
        measured=Measured(bounds=(0.0, 1.0), quality={}, prompts=(800,), gains={("light", "heavy"): SURE})
    )
    light, heavy = catalog.level("light"), catalog.level("heavy")
    swapped = {
        "light": dataclasses.replace(light, latency_ms=heavy.latency_ms),
        "heavy": dataclasses.replace(heavy, latency_ms=light.latency_ms),
    }
    found = with_evidence(a_proposal(cascades=(), level="heavy"), dataclasses.replace(catalog, variants=swapped))
    assert found.expected is not None
    assert found.expected.evidence.startswith("heavy gains +0.200")


def test_a_plan_of_the_cheapest_level_alone_rests_on_no_difference() -> None:
    assert evidence(a_proposal(cascades=())).evidence == ""


def test_published_qualities_are_used_as_they_are_and_said_to_have_unknown_prompts() -> None:
    found = with_evidence(a_proposal(), a_catalog()).expected
    assert found is not None
    assert (found.quality, found.quality_low, found.quality_prompts) == (0.9, None, None)
    assert found.evidence == UNKNOWN


def test_a_plan_that_expects_no_quality_stays_as_it_is() -> None:
    for plain in (a_proposal(expected=None), a_proposal(expected=dataclasses.replace(EXPECTED, quality=None))):
        assert with_evidence(plain, a_catalog()) == plain
