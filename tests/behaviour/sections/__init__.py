"""The sections of a record by name. Each records one thing that must not change."""

import pathlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from tests.behaviour.sections import (
    benches,
    commands,
    imports,
    messages,
    metrics,
    names,
    plans,
    processor,
    reports,
    serving,
    size,
    tests,
    traces,
    wheel,
)
from tests.behaviour.tree import Tree

Track = Callable[[Sequence[Any]], Iterable[Any]]
Section = Callable[[Tree, Track], Any]

NAMES = (
    "messages", "help", "config", "metrics", "size", "imports", "names", "plans", "wheel", "tests", "reports",
)  # fmt: skip
LONG = ("traces", "million", "serving", "benches", "processor")  # where asked for; the last three need a broker


def sections(junit: Sequence[pathlib.Path] = ()) -> dict[str, Section]:
    """All sections, the quick ones first. `junit`: reports of test runs, for the section `tests`."""
    made: dict[str, Section] = {
        "messages": messages.record,
        "help": commands.record_help,
        "config": commands.record_config,
        "metrics": metrics.record,
        "size": size.record,
        "imports": imports.record,
        "names": names.record,
        "plans": plans.record,
        "wheel": wheel.record,
        "tests": partial(tests.record, junit=junit),
        "reports": reports.record,
        "traces": traces.record,
        "million": traces.record_million,
        "serving": serving.record,
        "benches": benches.record,
        "processor": processor.record,
    }
    assert tuple(made) == NAMES + LONG
    return made
