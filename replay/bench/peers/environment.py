"""The peers' own environment: packages of fixed versions, in a folder that is made once. Pochade never imports them."""

import hashlib
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from schemas.errors import PochadeError

APPS: Final = pathlib.Path(__file__).with_name("apps")
REQUIREMENTS: Final = APPS / "requirements.txt"
DIGEST_FILE: Final = ".made"  # holds the digest of what was installed


def python_of(folder: pathlib.Path, notify: Callable[[str], object]) -> pathlib.Path:
    """Return the Python of the environment in a folder, which is made (about 550 MB) unless it is there.

    Raises PochadeError where packages cannot be installed.
    """
    python, made = folder / "bin" / "python", folder / DIGEST_FILE
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    if made.exists() and made.read_text() == digest:
        return python
    notify(f"installing the peers into {folder}: about 550 MB, minutes on a slow line")
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "-r", str(REQUIREMENTS)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PochadeError(f"cannot install the peers into {folder}: {done.stderr[-500:]}; check pip's index")
    made.write_text(digest)
    return python
