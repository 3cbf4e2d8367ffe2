"""What a model's classes are is read from its index, so that they can be imported before it is loaded."""

import pathlib
import sys

import pytest

from schemas.errors import PochadeError
from streams.shipped import MODELS
from streams.weights.classes import classes_of, import_named


def test_the_classes_of_a_shipped_model_are_named() -> None:  # that they can be imported: tests/agents/models
    named = classes_of(MODELS / "light")
    assert "diffusers:UNet2DConditionModel" in named
    assert "transformers:CLIPTextModel" in named


def test_a_module_or_an_attribute_of_one_is_imported_by_its_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazy_library.py").write_text("asked = []\n\n\ndef __getattr__(name):\n    asked.append(name)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_named("lazy_library")
    library = sys.modules["lazy_library"]
    assert "Pipeline" not in library.asked
    import_named("lazy_library:Pipeline")
    assert "Pipeline" in library.asked, "a library imports such a part when it is asked for"
    assert sys.modules["lazy_library"] is library
    del sys.modules["lazy_library"]


def test_a_folder_that_is_no_model_says_so(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match=r"is .* a diffusers model"):
        classes_of(tmp_path)


def test_a_class_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError):
        import_named("json:Nothing")
