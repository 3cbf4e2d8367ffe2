"""What the benches of router, ledger, planner and overhead measure: information only, since each turn differs.

Each bench states the median and the spread of its turns, and how busy the machine was.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.behaviour.tree import ROOT, Tree

ASKED = {
    "router": ("--repeats", "5"),
    "ledger": ("--repeats", "5"),
    "planner": ("--solves", "40", "--seconds", "5", "--baselines", "3"),
    "overhead": (),
}
POCHADE = "from streams.cli import main; main(prog_name='pochade')"  # with the solvers' own time limits
LEFT_OUT = ("versions", "settings")


def record(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """Bench -> its report."""
    found = {}
    for bench, asked in track(list(ASKED.items())):
        home = ("--home", str(ROOT / ".pochade"))  # Kafka's jars are fetched once for all records of a tree
        ended = tree.python("-c", POCHADE, *home, "bench", bench, *asked, "-o", "json")
        if not ended.stdout:  # a status of 1 may say that a figure is bad, which is information too
            raise RuntimeError(f"bench {bench} ended with {ended.returncode}: {ended.stderr[-2000:]}")
        report = json.loads(ended.stdout)
        found[bench] = {name: value for name, value in report.items() if name not in LEFT_OUT}
    return found
