"""A short chaos run, as `pochade chaos` does it: broken at on purpose, and every promise kept.

With reuse: `make nightly PART=chaos_reuse`.
"""

import pathlib
from collections.abc import Callable

import pytest

from tests.chaos.running import chaos, reported

pytestmark = pytest.mark.broker

REQUESTS, FAULTS, SEED = 100, 7, 9


@pytest.mark.timeout(400)
def test_a_deployment_that_is_broken_at_loses_nothing_and_answers_nothing_twice(
    new_home: Callable[[], pathlib.Path],
) -> None:
    home = new_home()
    asked = ["--requests", str(REQUESTS), "--faults", str(FAULTS), "--seed", str(SEED)]
    report = chaos(home, *asked, limit_s=380)
    assert report["accepted"] == sum(report["outcomes"].values()) >= REQUESTS
    assert report["oracle"]["told"] == report["accepted"]
    assert (report["lost"], report["duplicates"], report["late_commits"], report["open"]) == (0, 0, 0, 0)
    assert report["outcomes"]["COMPLETED"] > REQUESTS / 2
    assert (report["pictures"]["broken"], report["orphans_left"]) == ([], 0)
    assert len(report["faults"]) == FAULTS
    assert len(reported(report)) >= FAULTS - 2
    assert f"--seed {SEED}" in report["again"]
    assert not list((home / "chaos").glob(f"*-{SEED}")), "a run that went well leaves its report, no more"
