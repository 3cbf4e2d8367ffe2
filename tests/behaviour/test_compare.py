"""The comparer finds a change in each section, describes it, and treats information as no difference."""

import copy
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from tests.behaviour.compare import INFORMATIVE_SECTIONS, main
from tests.behaviour.sections import LONG, NAMES

RECORD: dict[str, Any] = {
    "messages": {"encoded": {"pochade.Event": {"schema id": 7, "full 0": "00" * 300}}, "written": {"a job": []}},
    "help": {"pochade": "Usage: pochade\n\n  Text to image.\n", "pochade up": "Usage: pochade up\n"},
    "config": {"worker.threads": {"value": "1", "origin": "default"}},
    "metrics": {"pochade_shed": {"kind": "counter", "labels": ["tier"], "help": "Requests turned away"}},
    "size": {"router": {"lines": 6472}},
    "imports": {"submit": {"packages of others": ["click"], "modules of the project (information)": 12}},
    "names": {"mentions (information)": {"module": 9}, "leads nowhere": {}},
    "plans": {"tiny": {"joint": {"8/s": {"feasible": True, "expected": {"quality": 0.99}}}}},
    "wheel": {"data": {"registry.json ab": 1}, "cannot be opened": {}, "modules (information)": 600},
    "tests": {
        "ids": {"test_a.py::test_x": {"collected": 2, "passed": 2}, "test_a.py::test_y": {"collected": 1}},
        "collected (information)": 3,
    },
    "reports": {"tiny": {"plain": {"sha256": "ab", "policies": {"joint": {"quality": 0.99, "by_level": {"a": 1}}}}}},
    "traces": {"ramp": {"sha256": "ab", "policies": {"joint": {"late": 3}}}},
    "million": {"sha256": "ab", "took (information)": {"cpu_s": 95.0}},
    "serving": {"features off": {"loaded": {"router": {"files": 126}}}},
    "processor": {"router": {"median_ms": 3.6}},
    "benches": {"router": {"records_per_s": {"median": 2064.0}}},
}  # fmt: skip
CHANGES: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "messages": (lambda r: r["encoded"]["pochade.Event"].update({"full 0": "00" * 250 + "01" * 50}), ["at 501"]),
    "help": (lambda r: r.update({"pochade up": "Usage: pochade up now\n"}), ["before: Usage: pochade up"]),
    "config": (lambda r: r["worker.threads"].update(value="2"), ["worker.threads / value", "before: 1", "after:  2"]),
    "metrics": (lambda r: r["pochade_shed"].update(labels=["tier", "role"]), ["pochade_shed / labels", "role"]),
    "imports": (lambda r: r["submit"]["packages of others"].append("numpy"), ["before: nothing", "numpy"]),
    "names": (lambda r: r["leads nowhere"].update({"module a.b in c.py": 1}), ["module a.b in c.py"]),
    "plans": (lambda r: r["tiny"]["joint"]["8/s"]["expected"].update(quality=0.98), ["quality", "0.99", "0.98"]),
    "wheel": (lambda r: r["data"].pop("registry.json ab"), ["registry.json ab", "after:  nothing"]),
    "tests": (lambda r: r["ids"]["test_a.py::test_x"].update(collected=1, passed=1), ["test_x / collected"]),
    "reports": (lambda r: r["tiny"]["plain"]["policies"]["joint"].update(quality=0.9), ["tiny / plain", "0.99", "0.9"]),
    "traces": (lambda r: r["ramp"]["policies"]["joint"].update(late=4), ["joint / late", "after:  4"]),
    "million": (lambda r: r.update(sha256="ac"), ["million / sha256"]),
}  # fmt: skip


def compared(tmp_path: pathlib.Path, after: dict[str, Any], *options: str) -> tuple[int, str]:
    """Exit status and output of a comparison of `RECORD` with this record."""
    files = tmp_path / "before.json", tmp_path / "after.json"
    for file, sections in zip(files, (RECORD, after), strict=True):
        file.write_text(json.dumps({"commit": file.stem, "sections": sections}))
    ended = CliRunner().invoke(main, [*map(str, files), *options])
    return ended.exit_code, ended.output


def changed(section: str, change: Callable[[Any], object]) -> dict[str, Any]:
    after = copy.deepcopy(RECORD)
    change(after[section])
    return after


def test_every_section_has_an_example_here_and_a_change_or_is_information() -> None:
    assert {*RECORD} == {*NAMES, *LONG}
    assert {*RECORD} - {*CHANGES} == {*INFORMATIVE_SECTIONS}


def test_two_equal_records_do_not_differ(tmp_path: pathlib.Path) -> None:
    status, output = compared(tmp_path, copy.deepcopy(RECORD))
    assert (status, "0 differences, 0 notes" in output) == (0, True)


@pytest.mark.parametrize("section", CHANGES)
def test_a_change_of_a_section_is_described_in_words_unless_it_is_excepted(
    tmp_path: pathlib.Path, section: str
) -> None:
    change, words = CHANGES[section]
    after = changed(section, change)
    status, output = compared(tmp_path, after)
    assert status == 1
    assert [word for word in words if word not in output] == []
    assert compared(tmp_path, after, "--except", section)[0] == 0


@pytest.mark.parametrize("section", NAMES + LONG)
def test_a_section_that_one_record_lacks_is_a_difference(tmp_path: pathlib.Path, section: str) -> None:
    after = {name: content for name, content in RECORD.items() if name != section}
    status, output = compared(tmp_path, after)
    assert (status, f"section {section}" in output) == (1, True)


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("size", lambda r: r["router"].update(lines=4500)),
        ("imports", lambda r: r["submit"].update({"modules of the project (information)": 9})),
        ("million", lambda r: r["took (information)"].update(cpu_s=99.0)),
        ("serving", lambda r: r["features off"]["loaded"]["router"].update(files=60)),
        ("processor", lambda r: r["router"].update(median_ms=3.0)),
        ("benches", lambda r: r["router"]["records_per_s"].update(median=1990.0)),
        ("names", lambda r: r["mentions (information)"].update(module=8)),
    ],
)
def test_information_is_printed_and_is_no_difference(
    tmp_path: pathlib.Path, section: str, change: Callable[[Any], object]
) -> None:
    status, output = compared(tmp_path, changed(section, change))
    assert (status, "note: " in output, "0 differences, 1 notes" in output) == (0, True, True)


def test_a_test_that_moved_with_its_file_is_a_note_and_one_that_ends_otherwise_is_not(tmp_path: pathlib.Path) -> None:
    def move(record: Any, **ends: int) -> None:
        record["ids"]["test_b.py::test_y"] = record["ids"].pop("test_a.py::test_y") | ends

    status, output = compared(tmp_path, changed("tests", move))
    assert (status, "note: tests / 1 of a file: test_a.py -> test_b.py" in output) == (0, True)
    assert compared(tmp_path, changed("tests", lambda record: move(record, skipped=1)))[0] == 1


def test_another_order_of_keys_is_a_difference(tmp_path: pathlib.Path) -> None:
    def turn(record: Any) -> None:
        metric = record["pochade_shed"]
        record["pochade_shed"] = dict(reversed(metric.items()))

    status, output = compared(tmp_path, changed("metrics", turn))
    assert (status, "the order of its keys" in output) == (1, True)


def test_a_section_that_does_not_exist_is_refused(tmp_path: pathlib.Path) -> None:
    assert compared(tmp_path, RECORD, "--except", "helpp")[0] == 2
