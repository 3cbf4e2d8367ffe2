"""All tests by file and name, without folders, and their outcomes in the test runs whose reports are given."""

import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.behaviour.collecting import COLLECTED
from tests.behaviour.tree import ROOT, Tree

ENDS = ("failure", "error", "skipped")


def record(tree: Tree, _track: object, junit: Sequence[pathlib.Path] = ()) -> dict[str, Any]:
    """Test -> how often it was collected, and how often each outcome occurred in the given reports."""
    found: dict[str, Counter[str]] = {}
    for test in collected(tree):
        found.setdefault(test, Counter())["collected"] += 1
    for test, end in ended(junit):
        found.setdefault(test, Counter())[end] += 1
    return {
        "ids": {test: dict(counts) for test, counts in sorted(found.items())},
        "collected (information)": sum(counts["collected"] for counts in found.values()),
        "ended (information)": dict(sum((Counter(_without(counts)) for counts in found.values()), Counter[str]())),
    }


def _without(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name != "collected"}


def collected(tree: Tree) -> list[str]:
    """Ids of all tests, `nightly` included. An id that two folders have in common is listed twice."""
    out = tree.work / "collected.json"
    nightly = ROOT / "tests" / "nightly"
    asked = [str(folder) for folder in (ROOT / "tests", nightly) if folder.is_dir()]
    child = Tree(ROOT, tree.environment | {COLLECTED: str(out)})
    finished = child.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "tests.behaviour.collecting", "-p",
         "no:cacheprovider", *asked]
    )  # fmt: skip
    if finished.returncode:
        raise RuntimeError(f"pytest could not collect: {finished.stdout[-2000:]}{finished.stderr[-2000:]}")
    return [without_folders(test) for test in json.loads(out.read_text())]


def without_folders(test: str) -> str:
    """Shorten `tests/agents/router/test_role.py::test_x[a/b]` to `test_role.py::test_x[a/b]`."""
    path, colons, name = test.partition("::")
    return path.rpartition("/")[2] + colons + name


def ended(junit: Iterable[pathlib.Path]) -> list[tuple[str, str]]:
    """Test and outcome of each case in reports that pytest wrote with `--junitxml`."""
    found = []
    for path in junit:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            ends = [kind for kind in ENDS if case.find(kind) is not None]
            found.append((_id_of(case.get("classname", ""), case.get("name", "")), ends[0] if ends else "passed"))
    return found


def _id_of(place: str, name: str) -> str:
    """The test id for a class name, in whose dotted form pytest writes a path."""
    *_, module, rest = ["", *_split(place)]
    return "::".join([f"{module}.py", *rest, name])


def _split(place: str) -> tuple[str, list[str]]:
    parts = place.split(".")
    at = max((n for n, part in enumerate(parts) if part.startswith("test_")), default=len(parts) - 1)
    return parts[at], parts[at + 1 :]
