"""Published files in a folder of the user's, plain or gzip."""

import gzip
import pathlib

import pytest

from schemas.errors import PochadeError
from streams.catalogs.published_files import text_of, texts_of


def test_a_file_is_read_plain_or_gzip(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress("ü\n".encode("utf-8-sig")))
    assert text_of(tmp_path, "a.csv") == ("x\n", str(tmp_path / "a.csv"))
    assert texts_of(tmp_path, {"of": "b.csv"}, "mine") == {"of": ("ü\n", str(tmp_path / "b.csv.gz"))}


def test_a_missing_file_is_named_with_what_is_there(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    with pytest.raises(PochadeError, match=r"no b\.csv or b\.csv\.gz in .*: there is a\.csv"):
        text_of(tmp_path, "b.csv")
    with pytest.raises(PochadeError, match="no such folder"):
        text_of(tmp_path / "nowhere", "b.csv")


def test_a_catalog_that_names_no_files_is_told_rather_than_left_as_it_is(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match=r"catalog 'mine' names no published files to take from .*\[published\]"):
        texts_of(tmp_path, {}, "mine")


@pytest.mark.parametrize("data", [b"\xff\xfe\xfa", b"\x1f\x8b broken"])
def test_a_file_that_is_no_text_is_named(tmp_path: pathlib.Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(PochadeError, match=r"a\.csv cannot be read as text"):
        text_of(tmp_path, "a.csv")
