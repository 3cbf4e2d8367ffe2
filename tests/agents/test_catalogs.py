"""Catalogs are found by name or by file, and what is missing is named."""

import pathlib

import pytest

from agents import catalogs
from schemas.errors import PochadeError, Unknown

SHIPPED = pathlib.Path(catalogs.__file__).parents[1] / "infra" / "catalogs"


@pytest.mark.parametrize("name", ["tiny", "profile"])
def test_every_shipped_catalog_is_whole(name: str) -> None:
    catalog = catalogs.load(name)
    assert catalog.name == name
    assert {"light", "heavy"} <= catalog.variants.keys()


@pytest.mark.parametrize("name", sorted(path.stem for path in SHIPPED.glob("*.toml")))
def test_every_shipped_catalog_can_be_planned_with_and_has_a_cascade(name: str) -> None:
    catalog = catalogs.measured(name)
    assert catalog.name == name
    assert catalog.cheaper_than(catalog.best().name)
    assert catalog.pair().light != catalog.best().name


def test_the_planner_s_catalog_knows_bands_where_a_profile_ships() -> None:
    assert catalogs.load("tiny").measured is None
    tiny = catalogs.measured("tiny")
    assert tiny.measured is not None
    assert tiny.measured.bounds == (0, 0.25, 0.5, 0.75, 1)
    bands = tiny.measured.cascades[tiny.pair().key]
    assert len(bands.kept) == len(bands.again) == 4
    assert catalogs.measured("profile").measured is None


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
