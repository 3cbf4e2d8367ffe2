"""What chance decides: it must be what the catalog's curves say, and the same for the same request."""

import dataclasses

import numpy as np
import pytest

from planner.catalog.entries import deferred_share, highest_threshold
from planner.catalog.measured import CascadeBands, Measured
from planner.catalog.validate import InvalidCatalog
from replay.simulation.draws.chance import uniform
from replay.simulation.draws.synthetic import SyntheticOutcomes
from tests.builders import a_catalog, a_discriminator

MANY = 8000
CURVE = ((0.0, 0.0), (0.2, 0.5), (0.6, 0.5), (0.9, 0.8), (1.0, 1.0))


def curved() -> SyntheticOutcomes:
    from planner.catalog.entries import DeferralPoint

    look = a_discriminator(deferral=tuple(DeferralPoint(*point) for point in CURVE))
    return SyntheticOutcomes(a_catalog(discriminators={"look": look}), seed=4)


def test_numbers_are_uniform_and_belong_to_their_request_seed_and_salt() -> None:
    numbers = uniform(1, "a", 0, 20_000)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert np.abs(np.histogram(numbers, bins=20, range=(0, 1))[0] - 1000).max() < 130  # four standard deviations
    assert np.array_equal(uniform(1, "a", 500, 10), numbers[500:510])
    for other in (uniform(2, "a", 0, 20_000), uniform(1, "b", 0, 20_000)):
        assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.03


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.75, 0.95])
def test_a_share_f_of_t_of_the_confidences_lies_below_t(threshold: float) -> None:
    source = curved()
    confidences = np.array(source(0, MANY).confidence("light", "look"))
    share = deferred_share(source.catalog.discriminator("look"), threshold)
    assert (confidences < threshold).mean() == pytest.approx(share, abs=0.02)


def test_a_confidence_is_the_threshold_that_its_rank_allows() -> None:
    source = curved()
    ranks = uniform(4, "light", 0, 50)
    look = source.catalog.discriminator("look")
    reported = source(0, MANY).confidence("light", "look")[:50]
    assert reported == pytest.approx([highest_threshold(look, float(rank)) for rank in ranks])


def test_quality_is_the_level_s_own_and_of_a_scale_that_is_no_mean_nothing() -> None:
    catalog = a_catalog()
    chunk = SyntheticOutcomes(catalog, 0)(0, 3)
    assert chunk.quality("light", 0) == [0.8] * 3
    assert SyntheticOutcomes(dataclasses.replace(catalog, scale="fid"), 0)(0, 3).quality("light", 0) is None


def banded() -> SyntheticOutcomes:
    """Hard prompts are deferred more, and light's images of high confidence are better there."""
    bands = CascadeBands(
        thresholds=(0.0, 0.5, 1.0),
        deferred=((0.0, 0.2, 1.0), (0.0, 0.6, 1.0)),
        kept=((0.8, 0.9, 0.9), (0.5, 0.7, 0.7)),
        again={0: ((0.9, 0.9, 0.95), (0.8, 0.8, 0.85))},
    )
    catalog = a_catalog()
    measured = Measured(bounds=(0.0, 0.5, 1.0), quality={}, cascades={catalog.cascades[0].key: bands})
    return SyntheticOutcomes(dataclasses.replace(catalog, measured=measured), 9)


def test_confidence_and_quality_go_with_the_band_of_hardness() -> None:
    chunk = banded()(0, MANY)
    hard = np.array(chunk.hardness) >= 0.5
    below = np.array(chunk.confidence("light", "look")) < 0.5
    assert below[hard].mean() == pytest.approx(0.6, abs=0.03)
    assert below[~hard].mean() == pytest.approx(0.2, abs=0.03)


def test_the_kept_images_of_a_band_are_as_good_as_was_measured_and_so_are_those_generated_again() -> None:
    chunk = banded()(0, MANY)
    hard = np.array(chunk.hardness) >= 0.5
    kept = np.array(chunk.confidence("light", "look")) >= 0.5
    light, heavy = chunk.quality("light", 0), chunk.quality("heavy", 0)
    assert light is not None
    assert heavy is not None
    assert np.array(light)[hard & kept].mean() == pytest.approx(0.7, abs=0.005)
    assert np.array(light)[hard].mean() == pytest.approx(0.5, abs=0.01)
    assert np.array(heavy)[hard & ~kept].mean() == pytest.approx(0.8, abs=0.005)
    assert np.array(heavy)[~hard].mean() == pytest.approx(0.95, abs=0.01)


def test_hardness_that_is_known_counts_and_the_rest_is_drawn() -> None:
    known = np.array([0.9, np.nan, 0.1, np.nan])
    drawn, given = SyntheticOutcomes(a_catalog(), 3)(0, 4), SyntheticOutcomes(a_catalog(), 3, known)(0, 4)
    assert given.hardness == [0.9, drawn.hardness[1], 0.1, drawn.hardness[3]]
    assert SyntheticOutcomes(a_catalog(), 3, known)(2, 2).hardness == given.hardness[2:]
    assert given.confidence("light", "look") == drawn.confidence("light", "look")


@pytest.mark.parametrize("correlation", [-0.4, -0.03, 0.0, 0.6])
def test_confidence_goes_with_hardness_as_far_as_the_catalog_says_and_f_of_t_stays(correlation: float) -> None:
    look = a_discriminator(hardness_correlation=correlation)  # f(t) = t
    draws = SyntheticOutcomes(a_catalog(discriminators={"look": look}), seed=4)(0, MANY)
    confidences, hardness = np.array(draws.confidence("light", "look")), np.array(draws.hardness)
    assert np.corrcoef(confidences, hardness)[0, 1] == pytest.approx(correlation, abs=0.03)
    for threshold in (0.1, 0.5, 0.9):
        assert (confidences < threshold).mean() == pytest.approx(threshold, abs=0.015)


def test_a_correlation_beyond_one_is_refused() -> None:
    with pytest.raises(InvalidCatalog, match="hardness_correlation must be in"):
        a_discriminator(hardness_correlation=-1.2)
