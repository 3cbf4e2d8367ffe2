"""Who judges images, by the catalog's names."""

import numpy as np
import pytest

from agents.discriminator.scorers import open_scorers
from planner.catalog.entries import DeferralPoint, deferred_share
from schemas.errors import PochadeError
from tests.builders import a_catalog, a_discriminator, a_request


def test_confidences_without_looking_follow_the_deferral_curve() -> None:
    curve = (DeferralPoint(0.2, 0.5), DeferralPoint(0.6, 0.9))
    entry = a_discriminator(engine="profile", folder="", deferral=curve)
    scorer, image = (
        open_scorers(a_catalog(discriminators={entry.name: entry}))[entry.name],
        np.zeros((8, 8, 3), np.uint8),
    )
    scores = np.array(scorer.score([a_request(request_id=f"r-{n}") for n in range(2000)], [image] * 2000))
    for threshold in (0.1, 0.2, 0.4, 0.6, 0.8):
        assert (scores < threshold).mean() == pytest.approx(deferred_share(entry, threshold), abs=0.03)
    assert scorer.score([a_request(request_id="r-7")], [image]) == [scores[7]], (
        "a job that runs again is judged the same"
    )


def test_a_discriminator_without_its_folder_is_an_error_that_says_what_to_do() -> None:
    entry = a_discriminator(engine="learned", folder="models/discriminators/nothing")
    with pytest.raises(PochadeError, match="does not exist: train it or fix the catalog"):
        open_scorers(a_catalog(discriminators={entry.name: entry}))
