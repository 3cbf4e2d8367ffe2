"""A prompt that comes again is as hard again, and its image from the same noise as good."""

import dataclasses

import numpy as np

from planner.catalog.reuse import Neighbours
from planner.reuse.guard import Verdict
from replay.simulation.draws.neighbours import NeighbourDraws
from replay.simulation.draws.recorded import Recorded
from replay.simulation.draws.repeats import Repeats, repeats_of
from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.session import simulate
from replay.traces.trace import NOT_GIVEN, Trace
from streams.catalogs import measured, recorded_prompts
from tests.builders import a_catalog
from tests.replay.simulation.runs import a_setup, arrivals, timed
from tests.replay.simulation.test_reuse import a_reuse_setup, reuse_of

# requests 0 and 3 have one prompt and seed, 5 the prompt with another seed; 2 and 6 a prompt without seeds
REPEATS = Repeats(np.array([7, 1, 2, 7, 3, 7, 2, NOT_GIVEN]), np.array([5, 5, NOT_GIVEN, 5, 5, 6, NOT_GIVEN, 5]))


def of_prompts(prompt: np.ndarray) -> Trace:
    trace = timed(arrivals(8, len(prompt)))
    return dataclasses.replace(trace, prompt=prompt, texts=tuple(f"prompt {n}" for n in range(int(prompt.max()) + 1)))


def test_the_first_request_with_a_prompt_and_with_its_image_is_known() -> None:
    assert REPEATS.prompt.tolist() == [0, 1, 2, 0, 4, 0, 2, 7]
    assert REPEATS.image.tolist() == [0, 1, 2, 0, 4, 5, 6, 7]
    assert [REPEATS.is_repeated(number) for number in (0, 3, 7)] == [False, True, False]


def test_a_repeated_prompt_is_as_hard_and_with_its_seed_as_good() -> None:
    draws = SyntheticOutcomes(a_catalog(), 3, repeats=REPEATS)(0, 8)
    confidences = draws.confidence("light", "look")
    assert draws.hardness[0] == draws.hardness[3] == draws.hardness[5] != draws.hardness[1]
    assert draws.classes[0] == draws.classes[3] == draws.classes[5]
    assert confidences[0] == confidences[3] != confidences[5]
    assert confidences[2] != confidences[6], "seeds follow from ids where none is given"


def test_a_repeated_prompt_is_the_same_recorded_prompt() -> None:
    draws = Recorded(measured("tiny"), recorded_prompts("tiny"), 3, REPEATS)(0, 8)
    quality = draws.quality("light", 0)
    assert quality is not None
    assert quality[0] == quality[3] == quality[5]
    assert len({draws.hardness[number] for number in (0, 1, 2, 4, 7)}) == 5


def test_without_repeats_nothing_is_drawn_otherwise() -> None:
    assert repeats_of(of_prompts(np.arange(6))) is None
    one_each = Repeats(np.arange(50), np.full(50, NOT_GIVEN))
    plain, keyed = (SyntheticOutcomes(a_catalog(), 3, repeats=each)(0, 50) for each in (None, one_each))
    assert plain.hardness == keyed.hardness
    assert plain.confidence("light", "look") == keyed.confidence("light", "look")


def test_who_repeats_a_prompt_finds_it_and_nobody_else_finds_an_equal_one() -> None:
    rows = (Neighbours(0.5, 0.5), Neighbours(1.0, 0.5))
    draws = NeighbourDraws(rows, 3, Repeats(np.array([0, 0, *range(1, 400)]), np.full(401, NOT_GIVEN)))
    repeated = draws.at(1)
    assert repeated is not None
    assert (repeated.similarity, repeated.verdict) == (1.0, Verdict.EQUAL.value)
    found = [draws.at(number) for number in range(2, 401)]
    assert {None if each is None else each.similarity for each in found} == {0.5}


def test_a_stream_that_repeats_its_prompts_has_more_hits() -> None:
    setup = a_reuse_setup()
    setup = dataclasses.replace(
        setup,
        catalog=dataclasses.replace(
            setup.catalog,
            reuse_profile=dataclasses.replace(setup.catalog.reuse_profile, neighbours=(Neighbours(0.5, 1.0),)),
        ),
    )
    rates = []
    for prompts in (400, 200, 40):
        (run,) = simulate(setup, of_prompts(np.arange(400) % prompts), 1, lambda _requests: None)
        rates.append(reuse_of(run)["hit_rate"])
    assert rates == [0.0, 0.5, 0.9]


def test_one_image_is_kept_or_rejected_each_time_in_a_simulation() -> None:
    times = arrivals(14, 300)
    same = dataclasses.replace(timed(times), prompt=np.zeros(300, np.int64), seed=np.ones(300, np.int64), texts=("a",))
    setup = a_setup(policy="diffserve-static", workers=3, drops=False, slo_ms=1e9)
    escalated = [simulate(setup, each, 1, lambda _n: None)[0].tally.escalated for each in (same, timed(times))]
    assert escalated[0] in (0, 300)
    assert 0 < escalated[1] < 300
