"""The recorder still fits the tree: it calls the roles' own parts, which other tests do not call in this way."""

import json
import pathlib
import subprocess
import sys

from tests.paths import ROOT


def test_two_records_of_the_messages_of_this_tree_are_made_and_equal(tmp_path: pathlib.Path) -> None:
    found = []
    for name in ("first", "second"):
        out = tmp_path / f"{name}.json"
        command = [sys.executable, "-m", "tests.behaviour.record", str(out), "--sections", "messages"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(json.loads(out.read_text())["sections"]["messages"])
    assert found[0] == found[1]
    assert found[0]["written"]
