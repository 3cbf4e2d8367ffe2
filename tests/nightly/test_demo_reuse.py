"""The demo of a reusing policy: sources beside images, the switch of a frozen store. With the engine without models."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.left_over import left_over
from tests.paths import ROOT

pytestmark = pytest.mark.broker
POCHADE = "from streams.cli import main; main(prog_name='pochade')"

REUSING = """
[reuse]
heavy = [{ k = 6, cost_share = 0.8, quality = 0.99 }, { k = 12, cost_share = 0.55, quality = 0.95 }]

[reuse_profile]
neighbours = [{ similarity = -1.0, share = 1.0 }]
"""


def test_a_demo_of_a_reusing_policy_shows_sources_and_the_switch_of_a_frozen_store(
    new_home: Callable[[], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    home = new_home()
    catalog = tmp_path / "reusing.toml"
    catalog.write_text((ROOT / "infra" / "catalogs" / "profile.toml").read_text() + REUSING)
    options = [
        "--policy",
        "argus",
        "--workers",
        "1",
        "--rate",
        "3",
        "--count",
        "50",
        "--freeze-store",
        "60",
        "--catalog",
        str(catalog),
    ]
    done = subprocess.run(
        [sys.executable, "-c", POCHADE, "--home", str(home), "--set", "planner.period_ms=1000", "demo", *options],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((home / "demo" / "report.json").read_text())
    assert report["outcomes"] == {"COMPLETED": 50}
    reuse = report["reuse"]
    assert reuse["hits"] > 0
    assert 6 * reuse["hits"] <= reuse["saved_steps"] <= 12 * reuse["hits"]
    assert reuse["hits"] + sum(reuse["misses"].values()) == reuse["jobs"] == 50
    assert {"timeout", "breaker"} & set(reuse["misses"]), "the store was frozen"
    assert report["switch"].startswith("left reuse"), report["timeline"]
    assert "from reuse to models" in done.stdout
    page = (home / "demo" / "gallery.html").read_text()
    assert page.count('<figure class="source">') == reuse["hits"]
    assert page.count("steps skipped, with the image of") >= 0.9 * reuse["hits"], "nearly every source is found"
    assert left_over(home) == []
