"""Starts and stops the Milvus Lite of a deployment: one process on the loopback address, with its rows in one file.

The wheel's program is started itself, without its Python package: that would import `pkg_resources`, which setuptools
no longer has, and its launcher leaves a server behind when it is killed.
"""

import importlib.metadata
import importlib.util
import pathlib
import socket
import time
from collections.abc import Sequence

import psutil

from schemas.errors import PochadeError
from streams.broker.node import HOST, free_lasting_ports, is_free
from streams.broker.process import Process, Say, reasons, spawn
from streams.broker.record import locked
from streams.settings import Settings
from streams.vectors.lite import LiteRecord, read, vectors_home, write

VERSION = "2.5.1"  # 3 walks all rows in Python: 170 ms a search of 10,000 where this takes 1
INSTALL_HINT = "pip install 'pochade[milvus-lite]' (55 MB, 170 MB unpacked; Linux and macOS)"
ROWS = "rows.db"
READY_LIMIT_S = 60.0
STOP_LIMIT_S = 10.0
POLL_S = 0.02


def ensure(settings: Settings, say: Say = lambda _: None) -> str:
    """The address of the Milvus Lite of this home, started unless it runs.

    Raises PochadeError: it is not installed, or does not start, and what to do.
    """
    home = vectors_home(settings)
    with locked(home):
        known = read(home)
        if known is None or not _listens_soon(known):
            say(f"starting Milvus Lite {VERSION} ...")
            known = _start(home, known)
            if not _listens_soon(known):
                why = reasons(home / "lite.log") or "nothing"
                raise PochadeError(f"Milvus Lite ended while starting; {home / 'lite.log'} says:\n{why}")
    return known.url


def stop(settings: Settings) -> bool:
    """End the Milvus Lite of this home; whether it ran. Rows and port stay."""
    home = vectors_home(settings)
    if read(home) is None:
        return False
    with locked(home):
        known = read(home)
        recorded = [known.process] if known and known.process else []
        ran = [each for each in (*recorded, *_running(home)) if each.is_alive()]
        for each in ran:
            each.stop(STOP_LIMIT_S)
        if known:
            write(home, LiteRecord(port=known.port))
    return bool(ran)


def program() -> pathlib.Path:
    """The server's program.

    Raises PochadeError: it is not installed, or in another version than the one that is quick.
    """
    try:
        version = importlib.metadata.version("milvus-lite")
    except importlib.metadata.PackageNotFoundError:
        raise PochadeError(f"vectors.url is lite, and milvus-lite {VERSION} is not installed: {INSTALL_HINT}") from None
    if version != VERSION:
        raise PochadeError(
            f"milvus-lite is {version}, and {VERSION} is needed, as 3 is a hundred times slower: {INSTALL_HINT}"
        )
    found = importlib.util.find_spec("milvus_lite")
    assert found is not None, "milvus-lite is installed and has no package milvus_lite"
    assert found.submodule_search_locations, "milvus_lite is no package"
    return pathlib.Path(found.submodule_search_locations[0]) / "lib" / "milvus"


def _start(home: pathlib.Path, before: LiteRecord | None) -> LiteRecord:
    """Start it, on the port that it had before if that is free, and record it."""
    milvus = program()
    for each in _running(home):  # its parent was killed before it was recorded, or it is ending
        each.stop(STOP_LIMIT_S)
    port = before.port if before and is_free(before.port) else next(free_lasting_ports())
    libraries = str(milvus.parent)
    process = spawn(
        [str(milvus), str(home / ROWS), f"{HOST}:{port}", "ERROR"],
        home / "lite.log",
        {"LD_LIBRARY_PATH": libraries, "DYLD_LIBRARY_PATH": libraries},
    )
    known = LiteRecord(port=port, process=process)
    write(home, known)  # before it listens: if we are killed now, it is found
    return known


def _running(home: pathlib.Path) -> Sequence[Process]:
    """The servers of a home, recorded or not."""
    rows = str(home / ROWS)
    found = psutil.process_iter(["cmdline", "create_time"])
    return [Process(each.pid, each.info["create_time"]) for each in found if rows in (each.info["cmdline"] or ())]


def _listens_soon(known: LiteRecord) -> bool:
    """Wait until it listens; False if it does not run, or ends meanwhile, as one does that was killed just now.

    Raises PochadeError: it runs and does not listen.
    """
    until_s = time.monotonic() + READY_LIMIT_S
    while known.process is not None and known.process.is_alive():
        if _listens(known.port):
            return True
        if time.monotonic() > until_s:
            raise PochadeError(f"Milvus Lite runs and does not listen on port {known.port}: `pochade down`, then `up`")
        time.sleep(POLL_S)
    return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
