"""Debian's Prometheus and promtool, fetched without root where they are not on the PATH."""

import os
import pathlib
import shutil
import subprocess

import pytest

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pochade" / "prometheus"
FETCH_LIMIT_S = 300


def binary(name: str) -> str:
    """Return the path of `prometheus` or `promtool`: on the PATH, else of Debian's package (19 MB), fetched once.

    `TEST_PROMTOOL`, `TEST_PROMETHEUS`: a file of its own.
    """
    if found := os.environ.get(f"TEST_{name.upper()}") or shutil.which(name):
        return found
    there = CACHE / "usr" / "bin" / name
    if not there.is_file():
        _fetch()
    return str(there)


def _fetch() -> None:
    part = CACHE.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for command in (["apt-get", "download", "prometheus"], ["sh", "-c", "dpkg -x prometheus_*.deb ."]):
        try:
            done = subprocess.run(command, cwd=part, capture_output=True, text=True, timeout=FETCH_LIMIT_S, check=False)
            why = done.stderr.strip()[-300:] if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if why:
            pytest.fail(
                f"`{' '.join(command)}` failed ({why}): unpack Debian's package `prometheus` elsewhere, without root, "
                "and put its usr/bin on the PATH"
            )
    shutil.rmtree(CACHE, ignore_errors=True)
    part.rename(CACHE)
