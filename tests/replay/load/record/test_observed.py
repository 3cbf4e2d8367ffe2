import numpy as np
import pytest

from replay.load.record.observed import Observed, columns
from replay.simulation.draws.synthetic import SyntheticOutcomes
from tests.builders import a_catalog

CATALOG = a_catalog()
HARDNESS = np.array([0.1, np.nan, 0.9])
KEY = ("light", "look")


def source() -> Observed:
    return Observed(CATALOG, 0, HARDNESS, columns([{KEY: 0.25}, {}, {KEY: 0.875}]), ["heavy", None, None])


def test_what_was_seen_is_so_again_and_the_rest_is_drawn() -> None:
    chunk, drawn = source()(0, 3), SyntheticOutcomes(CATALOG, 0)(0, 3)
    assert chunk.hardness == [0.1, drawn.hardness[1], 0.9]
    confidence = chunk.confidence(*KEY)
    assert [confidence[0], confidence[2]] == pytest.approx([0.25, 0.875], abs=1e-3)
    assert confidence[1] == drawn.confidence(*KEY)[1]


def test_classes_are_those_that_were_given() -> None:
    assert [each["models"] for each in source()(0, 3).classes][::2] == ["heavy", "heavy"]


def test_a_later_stretch_has_its_own() -> None:
    assert source()(2, 1).hardness == [0.9]
    assert source()(2, 1).confidence(*KEY) == pytest.approx([0.875], abs=1e-3)
