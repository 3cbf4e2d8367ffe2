"""A catalog's profile is found beside it, or among those that ship."""

import pathlib

import pytest

from schemas.errors import PochadeError, Unknown
from streams.catalogs import profile_file


def test_a_shipped_catalog_s_profile_ships_with_it_where_it_was_measured() -> None:
    found = profile_file.find("tiny")
    assert found is not None
    assert '"catalog": "tiny"' in found.text
    assert {"quality", "confidence"} <= found.arrays.keys()
    assert profile_file.find("profile") is None


def test_the_user_s_profile_lies_beside_the_user_s_catalog_with_or_without_its_table(tmp_path: pathlib.Path) -> None:
    assert profile_file.find(str(tmp_path / "mine.toml")) is None
    (tmp_path / "mine.json").write_text("{}")
    found = profile_file.find(str(tmp_path / "mine.toml"))
    assert found is not None
    assert (found.file, found.text, found.arrays) == (str(tmp_path / "mine.json"), "{}", {})


@pytest.mark.parametrize(("name", "data"), [("mine.json", b"\xff\xfe"), ("mine-quality.npz", b"no archive")])
def test_a_profile_that_cannot_be_read_is_named(tmp_path: pathlib.Path, name: str, data: bytes) -> None:
    (tmp_path / "mine.json").write_text("{}")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(PochadeError, match=r"profile .*mine\.json cannot be read.*pochade profile"):
        profile_file.find(str(tmp_path / "mine.toml"))


def test_an_unknown_catalog_lists_the_shipped_ones() -> None:
    with pytest.raises(Unknown, match="tiny"):
        profile_file.find("tinny")
