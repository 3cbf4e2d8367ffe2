"""Short chaos runs, as `pochade chaos` does them: broken at on purpose, and every promise kept. For longer ones:
`tests/nightly/test_chaos_reuse.py`."""

import pathlib
from collections.abc import Callable

import pytest

from tests.chaos.running import chaos, reported

pytestmark = pytest.mark.integration

REQUESTS, FAULTS, SEED = 100, 7, 9
REUSE_REQUESTS, REUSE_FAULTS, REUSE_SEED = (
    56,
    6,
    43,
)  # faults of every kind, and each meets something
REUSE_KINDS = ("vectors-kill", "vectors-freeze", "vectors-empty", "vectors-lie", "indexer-kill")


@pytest.mark.timeout(400)
def test_a_deployment_that_is_broken_at_loses_nothing_and_answers_nothing_twice(
    new_home: Callable[[], pathlib.Path],
) -> None:
    home = new_home()
    asked = ["--requests", str(REQUESTS), "--faults", str(FAULTS), "--seed", str(SEED)]
    report = chaos(home, *asked, limit_s=380)
    assert report["accepted"] == sum(report["outcomes"].values()) == REQUESTS
    assert (report["lost"], report["duplicates"], report["late_commits"], report["open"]) == (0, 0, 0, 0)
    assert report["outcomes"]["COMPLETED"] > REQUESTS / 2
    assert (report["pictures"]["broken"], report["orphans_left"]) == ([], 0)
    assert len(report["faults"]) == FAULTS
    assert len(reported(report)) >= FAULTS - 2
    assert f"--seed {SEED}" in report["again"]
    assert not list((home / "chaos").glob(f"*-{SEED}")), "a run that went well leaves its report, no more"


@pytest.mark.timeout(400)
def test_images_begin_from_their_own_tenants_latents_whatever_the_vector_store_says(
    new_home: Callable[[], pathlib.Path],
) -> None:
    home = new_home()
    only = [part for kind in REUSE_KINDS for part in ("--only", kind)]
    asked = ["--reuse", "--requests", str(REUSE_REQUESTS), "--faults", str(REUSE_FAULTS), "--seed", str(REUSE_SEED)]
    report = chaos(home, *asked, "--workers", "2", *only, limit_s=380)
    assert report["accepted"] == sum(report["outcomes"].values()) == REUSE_REQUESTS
    assert (report["lost"], report["duplicates"], report["late_commits"], report["open"]) == (0, 0, 0, 0)
    assert report["outcomes"]["COMPLETED"] > REUSE_REQUESTS / 2
    assert (report["reuse_sourceless"], report["reuse_contradictory"], report["orphans_left"]) == (0, 0, 0)
    images = report["pictures"]
    assert (images["broken"], images["foreign"]) == ([], [])
    assert images["marks_checked"] == report["reuse"]["hit"] > 0
    told = " ".join(reported(report))
    assert "rows that lie" in told
    assert "collections dropped" in told
    assert "SIGKILL of the vector store" in told
