"""Whose data a broker may be begun on."""

import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from schemas.errors import PochadeError
from streams.broker.java import _check_unused

WAIT = "import sys; print(flush=True); sys.stdin.read()"
HOLD = f"import fcntl, sys; file = open(sys.argv[1], 'r+b'); fcntl.lockf(file, fcntl.LOCK_EX); {WAIT}"


@pytest.fixture
def run() -> Iterator[Callable[..., Any]]:
    """Starts Python with a program and arguments, and ends it."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        begun.append(child)
        assert child.stdout is not None
        child.stdout.readline()  # it is as far as it shall be
        return child

    yield start
    for child in begun:
        child.communicate()


def test_data_of_nobody_may_be_used(tmp_path: pathlib.Path) -> None:
    _check_unused(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".lock").touch()  # of one that has ended
    _check_unused(tmp_path)


def test_a_broker_that_has_just_begun_and_holds_no_lock_yet_is_seen(
    tmp_path: pathlib.Path, run: Callable[..., Any]
) -> None:
    child = run(WAIT, str(tmp_path / "server.properties"))
    with pytest.raises(PochadeError, match=rf"process {child.pid}\): `kill {child.pid}`, then start again"):
        _check_unused(tmp_path)


def test_a_lock_whose_holder_is_not_known_is_enough(tmp_path: pathlib.Path, run: Callable[..., Any]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".lock").touch()
    run(HOLD, str(tmp_path / "data" / ".lock"))
    with pytest.raises(PochadeError, match=r"whose process is not seen from here\): stop that one"):
        _check_unused(tmp_path)
