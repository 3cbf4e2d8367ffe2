"""`pochade plan solve -o json` of every policy on every shipped catalog, at three demands."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from planner.policies import POLICIES
from tests.behaviour.invoking import invoked
from tests.behaviour.solving import without_time_limit
from tests.behaviour.tree import ROOT, Tree

DEMANDS_RPS = (1, 8, 60)
WORKERS = 10
CLOCKS = ("solve_ms",)


def record(_tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """catalog -> policy -> demand -> the plan, or the error that the command prints."""
    catalogs = [path.stem for path in sorted((ROOT / "infra" / "catalogs").glob("*.toml"))]
    found: dict[str, Any] = {}
    for catalog, policy in track([(catalog, policy) for catalog in catalogs for policy in POLICIES]):
        found.setdefault(catalog, {})[policy] = {f"{rps}/s": _solved(catalog, policy, rps) for rps in DEMANDS_RPS}
    return found


def _solved(catalog: str, policy: str, demand_rps: float) -> Any:
    with without_time_limit():
        ended = invoked(
            "plan", "solve", "--policy", policy, "--catalog", catalog, "--demand", str(demand_rps), "--workers",
            str(WORKERS), "-o", "json",
        )  # fmt: skip
    if ended.exit_code:
        return f"exit {ended.exit_code}: {ended.output}"
    return {name: value for name, value in json.loads(ended.stdout).items() if name not in CLOCKS}
