"""What a model's classes are is read from its index, so that they can be imported before it is loaded."""

import pathlib

import pytest

from schemas.errors import PochadeError
from streams.shipped import MODELS
from streams.weights.classes import classes_of, import_named


def test_the_classes_of_a_shipped_model_are_named() -> None:  # that they can be imported: tests/agents/models
    named = classes_of(MODELS / "light")
    assert "diffusers:UNet2DConditionModel" in named
    assert "transformers:CLIPTextModel" in named


def test_a_module_or_an_attribute_of_one_is_imported_by_its_name() -> None:
    import_named("json")
    import_named("json:dumps")


def test_a_folder_that_is_no_model_says_so(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match=r"is .* a diffusers model"):
        classes_of(tmp_path)


def test_a_class_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError):
        import_named("json:Nothing")
