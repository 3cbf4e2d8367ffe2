"""The oracle outside of the product: lines of a file held against keys of a topic."""

import ast
import pathlib

import pytest

from replay.verify.chaos import oracle
from replay.verify.chaos.oracle import Acknowledged, Counted, count


@pytest.fixture
def told(tmp_path: pathlib.Path) -> pathlib.Path:
    file = Acknowledged(tmp_path / "acknowledged.jsonl")
    for offset, name in enumerate(["once", "never", "twice", "purged"]):
        file.acknowledged(name, "prompts", 0, offset)
    file.close()
    return tmp_path / "acknowledged.jsonl"


def test_each_request_that_was_told_needs_one_result(told: pathlib.Path) -> None:
    found = count(told, {"once": [5], "twice": [3, 9], "a stranger": [99]}, but=frozenset({"purged"}))
    assert found == Counted(acknowledged=3, lost=("never",), doubled=("twice",), last_end_ms=5)
    assert found.broken() == (
        "a plain consumer found 1 of 3 acknowledged requests without a result and 1 with several (never, twice)"
    )


def test_a_run_in_which_each_has_one_broke_no_promise(told: pathlib.Path) -> None:
    found = count(told, {name: [1] for name in ("once", "never", "twice", "purged")})
    assert (found.acknowledged, found.broken()) == (4, None)


def test_a_repetition_that_was_told_twice_is_one_request(told: pathlib.Path) -> None:
    file = Acknowledged(told)
    file.acknowledged("once", "prompts", 1, 7)
    file.close()
    assert count(told, {name: [1] for name in ("once", "never", "twice", "purged")}).acknowledged == 4


def test_the_oracle_imports_nothing_of_the_product() -> None:
    tree = ast.parse(pathlib.Path(oracle.__file__).read_text())
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert not {name.split(".")[0] for name in imported} & {"schemas", "planner", "streams", "agents", "replay"}
