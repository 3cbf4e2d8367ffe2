"""The roles of a deployment on this machine, and why they are not ready, by which `doctor` recognises a start.

Each process with an address for its health leaves it in a file under HOME while it runs. A process that was killed
leaves its file, which counts for nothing; the next process removes it. One that lives and does not answer counts for a
gateway, which no consumer group shows to hang.
"""

import contextlib
import http.client
import json
import logging
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

import psutil

from streams.security.private_folder import create_private

log = logging.getLogger(__name__)

FOLDER: Final = "serving"
ANSWER_S: Final = 1.0
GATEWAY: Final = "gateway"
NO_ANSWER: Final = "does not answer"


@contextlib.contextmanager
def announced(home: pathlib.Path, prefix: str, roles: Iterable[str], address: str) -> Iterator[None]:
    """Keep roles and address of this process under `home` for the length of the block.

    `prefix`: of the topics, as several deployments may have one home. `address` "": it has none, and nothing is kept.
    """
    if not address:
        yield
        return
    file = home / FOLDER / str(os.getpid())
    try:
        create_private(file.parent)
        for old in file.parent.iterdir():
            if old.name.isdecimal() and not psutil.pid_exists(int(old.name)):
                old.unlink(missing_ok=True)
        file.write_text(json.dumps({"prefix": prefix, "address": address, "roles": sorted(roles)}))
    except OSError as error:  # such as a home that is read-only: roles serve without it
        log.warning("`pochade doctor` cannot see that roles start here: %s", error)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def readiness(home: pathlib.Path, prefix: str) -> dict[str, str]:
    """Return role -> why a process of it is not ready, "" if each is; of processes that answer, and gateways."""
    found: dict[str, str] = {}
    for file in sorted((home / FOLDER).glob("*")):
        try:
            kept = json.loads(file.read_text())
            if kept["prefix"] != prefix:
                continue
            reasons = _reasons(kept["address"])
            for role in [*map(str, kept["roles"]), *reasons]:
                found[role] = found.get(role) or str(reasons.get(role, ""))
        except (OSError, http.client.HTTPException):  # it has ended or hangs, or another program has its port
            if GATEWAY in kept["roles"] and _lives(file):
                found[GATEWAY] = NO_ANSWER
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def running(home: pathlib.Path) -> list[str]:
    """Return the roles whose processes live under this home, of any prefix."""
    found = set[str]()
    for file in filter(_lives, (home / FOLDER).glob("[0-9]*")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # it has ended since, or is half written
            found.update(json.loads(file.read_text())["roles"])
    return sorted(found)


def _lives(file: pathlib.Path) -> bool:
    """Whether the process that wrote a file lives, and no later one has its id."""
    try:
        return bool(psutil.Process(int(file.name)).create_time() <= file.stat().st_mtime)
    except (psutil.Error, OSError):
        return False


def _reasons(address: str) -> dict[str, str]:
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=ANSWER_S)
    with contextlib.closing(connection):
        connection.request("GET", "/readyz")
        reasons: dict[str, str] = json.loads(connection.getresponse().read())["reasons"]
        return reasons
