"""The commands of the README and of the operator's page, run as they stand: a block that no longer works fails here."""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.paths import ROOT


def blocks(page: str) -> list[str]:
    """The bash blocks of a page, in its order."""
    return re.findall(r"^```bash\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


MAKE = [block for block in blocks("README.md") if block.startswith("make ")]
*STARTED, STOPPED = [block for block in blocks("README.md") if not block.startswith("make ")]
BY_HAND = [*STARTED, *blocks("streams/operator/OPERATING.md"), STOPPED]


def test_the_two_commands_are_targets_that_set_up_and_run() -> None:
    (block,) = MAKE
    for command in block.split("\n"):
        if command:
            planned = subprocess.run([*command.split(), "-n"], cwd=ROOT, capture_output=True, text=True, check=False)
            assert planned.returncode == 0, planned.stderr
            assert "pochade demo" in planned.stdout or "infra/bin/check" in planned.stdout


@pytest.mark.integration
@pytest.mark.timeout(600)
def test_the_deployment_by_hand_works_block_by_block(new_home: Callable[[], pathlib.Path]) -> None:
    home = new_home()
    place = home.parent / f"{home.name}-place"
    place.mkdir()
    (place / ".pochade").symlink_to(home)
    (place / ".venv").symlink_to(ROOT / ".venv") if (ROOT / ".venv").exists() else None
    body = "\n".join(BY_HAND)
    if not (ROOT / ".venv").exists():
        body = body.replace("source .venv/bin/activate\n", "")
    script = f"set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait; pochade down' EXIT\nset -x\n{body}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("POCHADE_")}
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script], cwd=place, env=environment, capture_output=True, text=True, timeout=550, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-5000:]
    assert ran.stdout.count("COMPLETED") >= 3
    assert '"url":"http://localhost:8760/v1/files/' in ran.stdout
    assert '"model":"pochade/auto"' in ran.stdout
    assert "clipper-heavy" in ran.stdout
    assert {"mine-1 COMPLETED", "mine-2 COMPLETED"} <= {" ".join(line.split()[:2]) for line in ran.stdout.splitlines()}
    assert (place / ".pochade" / "cat.png").read_bytes()[:4] == b"\x89PNG"
