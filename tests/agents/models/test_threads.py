"""Judges of one prompt or one small image take one thread of torch."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agents.discriminator.scorers import open_scorer
from agents.models.threads import one_thread
from tests.agents.lab.training.judging import an_examiner, save_discriminator
from tests.builders import a_discriminator

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_within_there_is_one_and_afterwards_as_many_as_before() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_a_discriminator_that_was_loaded_to_serve_judges_on_one(tmp_path: Path) -> None:
    folder = save_discriminator(tmp_path / "look", "look", an_examiner("look"))
    open_scorer(a_discriminator(engine="learned", folder=str(folder)))
    assert torch.get_num_threads() == 1
