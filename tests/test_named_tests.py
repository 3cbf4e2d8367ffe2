"""Pages of what is promised and protected, and of a release: the tests, files and orders that they name are there."""

import ast
import pathlib
import re
import subprocess

import pytest

from tests.paths import ROOT

PAGES = ("SECURITY.md", "streams/operator/PROMISE.md", "streams/operator/UPGRADE.md", "streams/security/README.md")
LISTED = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
LINKING = sorted(subprocess.check_output(LISTED, cwd=ROOT, text=True).split())
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([\w-]+))?\)")
NAMED = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`")
PART = re.compile(r"make nightly PART=(\w+)")
ATTACKERS = (
    "producer", "tenant", "worker", "model file", "prompt", "image", "operator", "neighbour on the broker",
    "local user",
)  # fmt: skip


def functions_in(file: pathlib.Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@pytest.mark.parametrize("page", PAGES)
def test_each_test_that_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    named = NAMED.findall(text)
    missing = [f"{path}::{name}" for path, name in named if not _is_there(ROOT / path, name)]
    parts = [part for part in PART.findall(text) if not (ROOT / "tests" / "nightly" / f"test_{part}.py").is_file()]
    assert (missing, parts) == ([], [])
    assert named


def _is_there(path: pathlib.Path, name: str) -> bool:
    return name in functions_in(path) if name and path.is_file() else path.exists() and not name


def test_each_attacker_has_rows_and_each_row_says_what_stops_it_and_names_a_test() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    text = text.partition("## What is protected")[2].partition("## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    assert {row[0] for row in rows[1:]} == set(ATTACKERS)
    assert [row for row in rows[1:] if len(row) != 4 or not all(row) or not NAMED.search(row[3])] == []


@pytest.mark.parametrize("page", LINKING)
def test_each_link_of_a_page_leads_to_a_file_and_to_a_heading_in_it(page: str) -> None:
    file = ROOT / page
    astray = []
    for path, heading in LINK.findall(file.read_text()):
        there = (file.parent / path).resolve() if path else file
        if not there.exists() or (heading and heading not in headings(there)):
            astray.append(f"{path}#{heading}")
    assert astray == []


def headings(file: pathlib.Path) -> set[str]:
    """The headings of a page, as the forge names them in links."""
    found = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_the_order_of_an_upgrade_is_the_one_that_is_tested() -> None:
    from tests.nightly.test_upgrade import ROLES

    told = (ROOT / "streams/operator/UPGRADE.md").read_text().partition("begin: order")[2].partition("end: order")[0]
    assert re.findall(r"^\d+\. (\w+)$", told, re.MULTILINE) == list(dict.fromkeys(r.partition("-")[0] for r in ROLES))
