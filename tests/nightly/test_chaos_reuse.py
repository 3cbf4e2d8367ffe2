"""Chaos with reuse: the vector store and its writer killed, frozen, emptied and lying beside all other faults.

`nirvana` looks up for every request; `argus` at more than its workers generate in full, so that it reuses, and leaves
reuse while the store is away.
"""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from replay.verify.chaos.kinds import REUSE_KINDS
from tests.chaos.running import chaos, reported

pytestmark = pytest.mark.broker

MINUTES = float(os.environ.get("TEST_CHAOS_MINUTES", "4"))
A_MINUTE = 11  # faults
SHORT_REQUESTS, SHORT_FAULTS, SHORT_SEED = 56, 6, 43  # faults of every kind, and each meets something
SHORT_KINDS = ("vectors-kill", "vectors-freeze", "vectors-empty", "vectors-lie", "indexer-kill")


@pytest.mark.timeout(400)
def test_images_begin_from_their_own_tenants_latents_whatever_the_vector_store_says(
    new_home: Callable[[], pathlib.Path],
) -> None:
    home = new_home()
    only = [part for kind in SHORT_KINDS for part in ("--only", kind)]
    asked = ["--reuse", "--requests", str(SHORT_REQUESTS), "--faults", str(SHORT_FAULTS), "--seed", str(SHORT_SEED)]
    report = chaos(home, *asked, "--workers", "2", *only, limit_s=380)
    assert report["accepted"] == sum(report["outcomes"].values()) == SHORT_REQUESTS
    assert (report["lost"], report["duplicates"], report["late_commits"], report["open"]) == (0, 0, 0, 0)
    assert report["outcomes"]["COMPLETED"] > SHORT_REQUESTS / 2
    assert (report["reuse_sourceless"], report["reuse_contradictory"], report["orphans_left"]) == (0, 0, 0)
    images = report["pictures"]
    assert (images["broken"], images["foreign"]) == ([], [])
    assert images["marks_checked"] == report["reuse"]["hit"] > 0
    told = " ".join(reported(report))
    assert "rows that lie" in told
    assert "collections dropped" in told
    assert "SIGKILL of the vector store" in told


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("policy", "rate"), [("nirvana", 4), ("argus", 7)])
def test_no_image_begins_from_another_tenants_latent_under_every_fault(
    new_home: Callable[[], pathlib.Path], policy: str, rate: int, seed: int
) -> None:
    count = round(60 * rate * MINUTES)
    asked = ["--reuse", "--policy", policy, "--rate", str(rate), "--requests", str(count), "--seed", str(seed)]
    report = chaos(new_home(), *asked, "--faults", str(round(A_MINUTE * MINUTES)), limit_s=3500)
    print(json.dumps(figures(report), indent=2))
    assert report["accepted"] == sum(report["outcomes"].values()) == count
    assert (report["lost"], report["duplicates"], report["late_commits"], report["open"]) == (0, 0, 0, 0)
    assert (report["reuse_sourceless"], report["reuse_contradictory"], report["orphans_left"]) == (0, 0, 0)
    images = report["pictures"]
    assert (images["broken"], images["foreign"]) == ([], [])
    assert images["marks_checked"] > 0, "nothing was reused, so nothing was tried"
    begun = {each["kind"] for each in report["faults"] if each["told"] in reported(report)}
    assert len(begun & set(REUSE_KINDS)) >= len(REUSE_KINDS) - 1


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the log wants to know."""
    names = ("accepted", "outcomes", "lost", "duplicates", "reuse", "lookups", "too_slow", "seconds")
    return {name: report[name] for name in names}
