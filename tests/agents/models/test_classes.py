"""The classes that a shipped model names: a worker's fork server imports them before any model is loaded."""

import sys

import pytest

from streams.shipped import MODELS
from streams.weights.classes import classes_of, import_named

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("model", ["light", "heavy", "poster"])
def test_every_class_that_a_shipped_model_names_can_be_imported(model: str) -> None:
    named = classes_of(MODELS / model)
    assert named
    for name in named:
        import_named(name)
        assert name.partition(":")[0] in sys.modules
