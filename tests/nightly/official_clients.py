"""Official clients of the APIs that the gateway speaks, each in an environment of its own.

They pin what the product has in other versions.
"""

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

from tests.paths import ROOT

CLIENTS = {"openai": "openai==3.57.0", "replicate": "replicate==1.0.7", "litellm": "litellm==1.109.1"}
KEPT = ROOT / ".pochade" / "tests" / "clients"  # as the wheels of other tests


class Where(NamedTuple):
    """A gateway, and the key for it."""

    address: str
    key: str


def said(client: str, script: str, where: Where, *more: str) -> Any:
    """What a script prints, run with a client's own environment."""
    home = KEPT / CLIENTS[client].replace("==", "-")
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", CLIENTS[client]], check=True)
        (home / "installed").touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["NO_PROXY"] = environment["no_proxy"] = "127.0.0.1"
    command = [str(python), "-c", script, *where, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)
