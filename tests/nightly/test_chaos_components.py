"""Chaos with components and a fleet that scales: kills within fetches, loads, fusions and scale-ups, wrong weights.

`TEST_CHAOS_OUT`: a folder in which each run leaves its report, and in which an interrupted part goes on.
"""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from replay.verify.chaos.kinds import COMPONENT_KINDS, SCALE_KINDS
from tests.chaos.running import chaos, reported

pytestmark = pytest.mark.broker

MINUTES = float(os.environ.get("TEST_CHAOS_MINUTES", "4"))
OUT = os.environ.get("TEST_CHAOS_OUT", "")
COMPONENTS = ("--components", "--engine", "diffusers")
RATES = {"components": 1, "scale": 4}  # requests per second of `pochade chaos`
A_MINUTE = {"components": 4, "scale": 6}  # faults
SHORT_REQUESTS, SHORT_FAULTS, SHORT_SEED = 150, 12, 3
NewHome = Callable[[], pathlib.Path]


def run(name: str, new_home: NewHome, *asked: str) -> dict[str, Any]:
    """The report of a run, or the one that it left before."""
    kept = pathlib.Path(OUT) / f"{name}.json" if OUT else None
    if kept is not None and kept.exists():
        report: dict[str, Any] = json.loads(kept.read_text())
        return report
    report = chaos(new_home(), *asked, limit_s=3500)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(report, indent=2))
    print(json.dumps(figures(report), indent=2))
    return report


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the log wants to know."""
    names = ("accepted", "outcomes", "lost", "duplicates", "components", "failed_for", "too_slow", "seconds")
    return {**{name: report[name] for name in names}, "faults": [each["told"] for each in report["faults"]]}


def only(kinds: Any) -> list[str]:
    return [part for kind in kinds for part in ("--only", kind)]


def met(report: dict[str, Any]) -> set[str]:
    """The kinds of faults that met something."""
    return {each["kind"] for each in report["faults"] if each["told"] in reported(report)}


def assert_kept(report: dict[str, Any], count: int) -> None:
    """Every promise, as the audit has it."""
    assert report["accepted"] == sum(report["outcomes"].values()) == count
    assert (report["lost"], report["duplicates"], report["late_commits"], report["open"]) == (0, 0, 0, 0)
    assert (report["pictures"]["broken"], report["orphans_left"]) == ([], 0)
    assert report["outcomes"]["COMPLETED"] > count / 2


def assert_right(report: dict[str, Any]) -> None:
    """Of what was completed nothing was made with other weights than were asked, and what failed says why."""
    found = report["components"]
    assert (found["misnamed"], found["unlike"], found["untold"]) == ([], [], [])
    assert found["images"] >= found["requests"] > report["accepted"] / 3
    assert found["tiers"]["exceeded"] == []
    assert all(found["tiers"]["moved_bytes"].get(tier, 0) > 0 for tier in ("volume", "host", "device"))


@pytest.mark.timeout(1200)
def test_no_image_is_of_wrong_weights_whatever_is_killed_cut_or_altered_while_components_move(
    new_home: NewHome,
) -> None:
    asked = ["--requests", str(SHORT_REQUESTS), "--faults", str(SHORT_FAULTS), "--seed", str(SHORT_SEED)]
    report = run("components-short", new_home, *COMPONENTS, *asked, *only(COMPONENT_KINDS))
    assert_kept(report, SHORT_REQUESTS)
    assert_right(report)
    assert len(met(report)) >= len(COMPONENT_KINDS) - 1
    assert {"fetch-kill", "load-kill", "fuse-kill"} <= met(report)


@pytest.mark.timeout(1200)
def test_nothing_is_lost_as_workers_and_their_supervisor_are_killed_while_the_fleet_grows_and_shrinks(
    new_home: NewHome,
) -> None:
    asked = ["--requests", "720", "--faults", "10", "--seed", str(SHORT_SEED)]
    report = run("scale-short", new_home, "--scale", *asked, *only(SCALE_KINDS))
    assert_kept(report, 720)
    assert len(met(report)) >= len(SCALE_KINDS) - 1


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("what", ["components", "scale"])
def test_every_promise_holds_under_every_fault(new_home: NewHome, what: str, seed: int) -> None:
    count, faults = round(60 * RATES[what] * MINUTES), round(A_MINUTE[what] * MINUTES)
    asked = ["--requests", str(count), "--faults", str(faults), "--seed", str(seed)]
    report = run(f"{what}-{seed}", new_home, *(COMPONENTS if what == "components" else ("--scale",)), *asked)
    assert_kept(report, count)
    if what == "components":
        assert_right(report)
    assert met(report) & set(COMPONENT_KINDS if what == "components" else SCALE_KINDS)
