"""Lists of a component's files: their digest, and what they refuse."""

import pathlib
import subprocess

import pytest

from schemas.errors import PochadeError
from streams.weights.manifest import ComponentFile, InvalidManifest, Manifest, describe, parse
from tests.streams.weights.components import made

FILE = ComponentFile(path="a", bytes=1, sha256="0" * 64)


def test_the_digest_is_that_of_what_sha256sum_prints(tmp_path: pathlib.Path) -> None:
    _, listed = made(tmp_path)
    source = tmp_path / "source-1"
    command = "find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    printed = subprocess.run(["sh", "-c", command], cwd=source, capture_output=True, text=True, check=True).stdout
    assert printed.split()[0] == listed.digest


def test_a_list_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    _, listed = made(tmp_path)
    assert parse(listed.as_json(), "here", listed.digest) == listed


def test_hidden_files_are_no_part_of_a_component(tmp_path: pathlib.Path) -> None:
    (tmp_path / "weights").write_text("x")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "lock").write_text("x")
    assert [file.path for file in describe("base:test", tmp_path).files] == ["weights"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a//b", "", "a/./b", "component.json", "a\\b"])
def test_a_path_out_of_the_folder_is_refused(path: str) -> None:
    with pytest.raises(InvalidManifest, match="must lie in its folder"):
        ComponentFile(path=path, bytes=1, sha256="0" * 64)


@pytest.mark.parametrize("files", [(), (FILE, FILE)])
def test_a_list_has_files_and_none_twice(files: tuple[ComponentFile, ...]) -> None:
    with pytest.raises(InvalidManifest, match="one or more"):
        Manifest(component="base:test", files=files)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"component": "x", "files": [], "more": 1}', '{"component": 1}'])
def test_a_text_that_is_no_list_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(PochadeError, match=r"s3://weights/component\.json"):
        parse(text, "s3://weights/component.json")
