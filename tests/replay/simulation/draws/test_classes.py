"""Simulated requests have the classes that the live classifier would predict, as far as it was profiled."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from planner.catalog.measured import Measured
from planner.catalog.model import Catalog, classes_of
from replay.simulation.draws.classes import CUT, PROFILED, classes_at, origin_of
from replay.simulation.draws.recorded import Recorded
from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.session import report_of, simulate
from tests.builders import a_catalog
from tests.replay.simulation.draws.test_recorded import TABLE
from tests.replay.simulation.runs import a_setup, arrivals, timed

SHARES = ({"light": 0.9, "heavy": 0.1}, {"light": 0.25, "middle": 0.5, "heavy": 0.25})
COUNT = 8000


def profiled() -> Catalog:
    measured = Measured(bounds=(0.0, 0.5, 1.0), quality={}, predicted={"models": SHARES})
    return dataclasses.replace(a_catalog(), measured=measured)


def test_classes_are_drawn_by_the_shares_that_the_classifier_predicts_in_a_band_of_hardness() -> None:
    chunk = SyntheticOutcomes(profiled(), 1)(0, COUNT)
    hardness = np.array(chunk.hardness)
    for band, shares in enumerate(SHARES):
        mine = (hardness >= 0.5) == band
        found = Counter(own["models"] for own, is_mine in zip(chunk.classes, mine, strict=True) if is_mine)
        assert {name: count / mine.sum() for name, count in found.items()} == pytest.approx(shares, abs=0.03)


def test_a_class_belongs_to_its_request_however_many_are_drawn_at_once() -> None:
    source = SyntheticOutcomes(profiled(), 1)
    assert source(0, 100).classes[40:] == source(40, 60).classes


def test_without_a_profiled_classifier_classes_are_cut_from_hardness() -> None:
    catalog = a_catalog()
    chunk = SyntheticOutcomes(catalog, 1)(0, 100)
    assert chunk.classes == classes_at(catalog, np.array(chunk.hardness))
    assert chunk.classes == [classes_of(catalog, hardness) for hardness in chunk.hardness]


def test_a_recorded_prompt_has_the_class_that_was_predicted_of_it() -> None:
    table = dataclasses.replace(TABLE, strategies=("models",), classes=np.array([["heavy"], ["middle"]]))
    chunk = Recorded(profiled(), table, 1)(0, 200)
    reported = {(hardness, own["models"]) for hardness, own in zip(chunk.hardness, chunk.classes, strict=True)}
    assert reported == {(0.1, "heavy"), (0.9, "middle")}


@pytest.mark.parametrize(("catalog", "origin"), [(profiled(), PROFILED), (a_catalog(), CUT)])
def test_a_report_tells_where_classes_come_from(catalog: Catalog, origin: str) -> None:
    assert origin_of(catalog) == {"models": origin}
    trace = timed(arrivals(20, 50))
    runs = simulate(a_setup(catalog=catalog), trace, 1, lambda _requests: None)
    assert report_of(trace, {"random-split": runs})["setup"]["classes"] == {"models": origin}
