"""Requests that are prompts of a profile."""

import dataclasses

import numpy as np
import pytest

from planner.catalog.prompt_table import PromptTable
from replay.simulation.draws.recorded import Recorded
from tests.builders import a_catalog
from tests.replay.simulation.runs import a_setup, arrivals, ran

TABLE = PromptTable(
    prompts=("easy", "hard"), seeds=np.array([1, 2]), hardness=np.array([0.1, 0.9]), levels=("light", "heavy"),
    cost_ms=np.array([20.0, 200.0]), quality=np.array([[1.0, 1.0], [0.2, 0.9]]),
    facts=np.ones((2, 2)), judged=("look: light > heavy",),
    confidence=np.array([[0.9], [0.1]]), over_rows=np.array([1]), over_k=np.array([5]), over_quality=np.array([[0.8]]),
)  # fmt: skip


def test_what_was_measured_of_a_prompt_stays_together() -> None:
    chunk = Recorded(a_catalog(), TABLE, 1)(0, 1000)
    light, heavy, over = chunk.quality("light", 0), chunk.quality("heavy", 0), chunk.quality("heavy", 5)
    rows = zip(chunk.hardness, chunk.confidence("light", "look"), light or [], heavy or [], strict=True)
    assert set(rows) == {(0.1, 0.9, 1.0, 1.0), (0.9, 0.1, 0.2, 0.9)}
    assert sum(chunk.hardness) / 1000 == pytest.approx(0.5, abs=0.05)
    assert set(np.round(over or [], 6)) == {0.9, 0.8}  # .1 less, as on the one that was refined


def test_what_was_not_recorded_is_drawn_from_the_catalog() -> None:
    catalog = dataclasses.replace(a_catalog(), cascades=())
    chunk = Recorded(catalog, TABLE, 1)(0, 50)
    assert len(set(chunk.confidence("heavy", "look"))) == 50


def test_a_discriminator_that_knows_the_hard_ones_makes_a_run_better_than_its_mean() -> None:
    setup = a_setup(policy="diffserve-static", parameters={"threshold": 0.5}, prompts=TABLE, drops=False)
    tally = ran(setup, arrivals(8, 400)).tally
    assert tally.quality_sum / tally.quality_count == pytest.approx(0.95, abs=0.02)
    assert tally.escalated == pytest.approx(200, abs=40)
