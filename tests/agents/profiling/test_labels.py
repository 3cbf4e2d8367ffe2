"""A profile that people's labels judge."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np

from agents.profiling.run import Wanted, _Study
from agents.profiling.seeded_prompts import SeededPrompts
from tests.builders import a_catalog


def test_no_draft_is_refined_for_labels_which_are_of_images_from_noise() -> None:
    asked = SeededPrompts(prompts=("a boat", "a cat"), seeds=(1, 2))
    wanted = Wanted(
        catalog=a_catalog(), levels=("light", "heavy"), asked=asked, batches=(1,), models=Path("none"), seed=1,
        scorer="labels:labels.csv",
    )  # fmt: skip
    pool, rankers = Mock(), Mock(missing=[], judged=Mock(return_value=[]))
    swept = _Study(wanted, pool, rankers)._swept("over light", "heavy", Mock(), np.arange(2), is_fresh=True)
    assert swept is None
    assert not pool.generate.called
    assert rankers.missing == ["heavy over light: labels are of images from noise"]
