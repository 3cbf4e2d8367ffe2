"""`pochade` called as an operator calls it."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

POCHADE = str(pathlib.Path(sys.executable).with_name("pochade"))


def pochade(home: pathlib.Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [POCHADE, "--home", str(home), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | variables, cwd=home)


def status(home: pathlib.Path, **variables: str) -> dict[str, Any]:
    done = pochade(home, "status", "-o", "json", **variables)
    assert done.returncode == 0, done.stderr
    reported: dict[str, Any] = json.loads(done.stdout)
    return reported
