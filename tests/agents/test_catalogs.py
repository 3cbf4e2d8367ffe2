"""Catalogs are found by name or by file, and what is missing is named."""

import pathlib

import pytest

from agents import catalogs
from schemas.errors import PochadeError, Unknown


@pytest.mark.parametrize("name", ["tiny", "profile"])
def test_every_shipped_catalog_is_whole(name: str) -> None:
    catalog = catalogs.load(name)
    assert catalog.name == name
    assert {"light", "heavy"} <= catalog.variants.keys()


def test_a_catalog_of_the_users_is_read_from_its_file(tmp_path: pathlib.Path) -> None:
    shipped = pathlib.Path(catalogs.__file__).parents[1] / "infra" / "catalogs" / "profile.toml"
    own = tmp_path / "mine.toml"
    own.write_text(shipped.read_text())
    assert catalogs.load(str(own)).name == "mine"
    assert catalogs.load(str(own)).variants == catalogs.load("profile").variants


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(Unknown, match=r"profile.*tiny.*did you mean 'tiny'"):
        catalogs.load("tinny")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(PochadeError, match=r"nowhere/mine\.toml cannot be read"):
        catalogs.load("nowhere/mine.toml")
