"""The bash blocks of a page, and a run of them by hand: in a folder with a deployment of its own."""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable

from tests.paths import ROOT

OPERATORS = ("streams/operator/OPERATING.md", "replay/BEFORE_A_CHANGE.md", "streams/operator/UPGRADE.md")
RESTORE = "streams/operator/RESTORE.md"  # whose blocks `make nightly PART=restore` runs


def blocks(page: str) -> list[str]:
    """The bash blocks of a page, in its order."""
    return re.findall(r"^```bash\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


MAKE = [block for block in blocks("README.md") if block.startswith("make ")]
*STARTED, STOPPED = [block for block in blocks("README.md") if not block.startswith("make ")]


def run_by_hand(home: pathlib.Path, parts: Iterable[str]) -> tuple[str, pathlib.Path]:
    """Run blocks as they stand in one shell that ends at the first error; return its output and its folder."""
    place = home.parent / f"{home.name}-place"
    place.mkdir()
    (place / ".pochade").symlink_to(home)
    (place / ".venv").symlink_to(ROOT / ".venv") if (ROOT / ".venv").exists() else None
    body = "\n".join(parts)
    if not (ROOT / ".venv").exists():
        body = body.replace("source .venv/bin/activate\n", "")
    script = f"set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait; pochade down' EXIT\nset -x\n{body}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("POCHADE_")}
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script], cwd=place, env=environment, capture_output=True, text=True, timeout=550, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-5000:]
    return ran.stdout, place
