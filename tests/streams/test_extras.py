"""Which packages roles need of a catalog, said before they start."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from planner.catalog.entries import Classifier
from streams import extras, shipped
from tests.builders import a_catalog


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (None, ("tokenizers",)),
        ({}, ("tokenizers",)),
        ({"kind": "words"}, ()),
        ({"kind": "bert"}, ("torch", "transformers")),
    ],
)
def test_a_learned_classifier_needs_what_its_kind_does(
    config: dict[str, str] | None, wanted: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    asked: list[str] = []
    monkeypatch.setattr(extras, "need", lambda *modules: asked.extend(modules))
    monkeypatch.setattr(shipped, "INFRA", tmp_path)
    entry = Classifier("mine", "learned", ".", "models", ("light", "heavy"))
    settings = SimpleNamespace(store=SimpleNamespace(url=""), vectors=SimpleNamespace(url=""))
    extras.check_roles(settings, a_catalog(classifiers={"mine": entry}), ["classifier"])  # type: ignore[arg-type]
    assert tuple(asked) == wanted
