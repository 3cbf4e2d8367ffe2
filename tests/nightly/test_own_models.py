"""The page *Your own models*, block by block: from two folders of random weights to an image by heavy."""

import pathlib
import re
from collections.abc import Callable

import pytest

from tests.integration.pages import blocks, run_by_hand
from tests.toys import Toys

pytestmark = pytest.mark.broker


@pytest.mark.timeout(600)
def test_two_folders_are_served_by_the_commands_of_the_page(
    toys: Toys, new_home: Callable[[], pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    folders = f"cp -r {toys('sdxl')} my-turbo\ncp -r {toys('sdxl', 1)} my-xl"
    said, place = run_by_hand(new_home(), [folders, *blocks("agents/engines/OWN_MODELS.md")])
    assert "catalog.toml: written; an image takes" in said
    assert "workers\theavy 2" in said
    assert said.count("COMPLETED") == 2
    assert len(list((place / "images").glob("*.png"))) == 1
    assert re.search(r"^warn +quality ", said, re.M)  # and no check of doctor fails, or the shell would have ended
    assert "export POCHADE_CATALOG=" in said
