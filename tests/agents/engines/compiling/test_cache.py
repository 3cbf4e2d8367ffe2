"""Compiled code is kept whole, within its budget, and run only where nobody else can have written it."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

from agents.engines.compiling.cache import CodeCache, DamagedCode, Identity, NoRoomForCode
from tests.paths import ROOT

MINE: Identity = {"torch": "2.15", "threads": 1}
OTHER: Identity = {"torch": "2.16", "threads": 1}
ROOM = 1 << 20


def left_by_a_compiler(folder: pathlib.Path, size: int = 1000) -> pathlib.Path:
    (folder / "fx").mkdir(parents=True)
    (folder / "fx" / "kernel.so").write_bytes(b"\x7fELF" + bytes(size))
    (folder / "entry").write_bytes(b"entry")
    (folder / "link").symlink_to("/etc/passwd")
    return folder


def kept(tmp_path: pathlib.Path, budget_bytes: int = ROOM) -> CodeCache:
    cache = CodeCache(tmp_path / "compiled", budget_bytes, lock_timeout_s=0.0, wait=lambda _: None)
    cache.save(MINE, left_by_a_compiler(tmp_path / "left"))
    return cache


def test_what_a_compiler_left_comes_back_without_its_links(tmp_path: pathlib.Path) -> None:
    cache, into = kept(tmp_path), tmp_path / "into"
    assert cache.load(MINE, into) == cache.path(MINE).stat().st_size == cache.used_bytes() > 1000
    assert {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()} == {"entry", "fx/kernel.so"}
    assert (into / "fx" / "kernel.so").read_bytes() == b"\x7fELF" + bytes(1000)


def test_there_is_none_for_another_identity(tmp_path: pathlib.Path) -> None:
    assert kept(tmp_path).load(OTHER, tmp_path / "into") == 0


def truncated(path: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def with_another_byte(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[-600] ^= 1
    path.write_bytes(data)


def without_a_first_line(path: pathlib.Path) -> None:
    path.write_bytes(b"\x00" * 100)


def empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


def writable_by_all(path: pathlib.Path) -> None:
    path.chmod(0o666)


def a_link(path: pathlib.Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def of_another_identity(path: pathlib.Path) -> None:
    cache = CodeCache(path.parent, ROOM)
    cache.save(OTHER, path.parent.parent / "left")
    shutil.move(cache.path(OTHER), path)


BROKEN = {
    truncated: "bytes of code, and states",
    with_another_byte: "another sha-256",
    without_a_first_line: "states another identity",
    empty: "states another identity",
    writable_by_all: "mode 666",
    a_link: "cannot be opened",
    of_another_identity: "states another identity",
}


@pytest.mark.parametrize("breaks", BROKEN)
def test_a_file_that_is_not_trusted_is_refused_and_removed(tmp_path: pathlib.Path, breaks: object) -> None:
    cache, into = kept(tmp_path), tmp_path / "into"
    breaks(cache.path(MINE))  # type: ignore[operator]
    with pytest.raises(DamagedCode, match=BROKEN[breaks]):
        cache.load(MINE, into)
    assert not into.exists(), "none of it is used"
    assert cache.load(MINE, into) == 0, "it was removed"


def test_a_file_of_another_user_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, me = kept(tmp_path), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(DamagedCode, match=f"owned by user {me}"):
        cache.load(MINE, tmp_path / "into")


def test_what_was_used_least_recently_makes_room_and_too_much_is_not_kept(tmp_path: pathlib.Path) -> None:
    cache = kept(tmp_path, budget_bytes=40_000)
    cache.save(OTHER, tmp_path / "left")
    os.utime(cache.path(OTHER), (1, 1))
    os.utime(cache.path(MINE), (0, 0))
    cache.load(MINE, tmp_path / "into")  # which is a use
    third: Identity = {"torch": "2.17", "threads": 1}
    cache.save(third, left_by_a_compiler(tmp_path / "larger", 15_000))
    assert cache.used_bytes() <= 40_000
    assert [cache.path(each).exists() for each in (MINE, OTHER, third)] == [True, False, True]
    with pytest.raises(NoRoomForCode, match="all of it may have 40000"):
        cache.save(OTHER, left_by_a_compiler(tmp_path / "largest", 50_000))
    assert cache.load(MINE, tmp_path / "again"), "what was there stays"


def test_a_writer_that_is_killed_leaves_nothing_half(tmp_path: pathlib.Path) -> None:
    cache = kept(tmp_path)
    (tmp_path / "left" / "entry").write_bytes(b"newer")
    dying = f"""
        import os, pathlib, signal
        from agents.engines.compiling import cache as module
        module.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        cache = module.CodeCache(pathlib.Path({str(cache.folder)!r}), {ROOM})
        cache.save({MINE!r}, pathlib.Path({str(tmp_path / "left")!r}))
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(dying)], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(cache.folder.glob("*.partial")), "it was killed while it wrote"
    cache.load(MINE, tmp_path / "into")
    assert (tmp_path / "into" / "entry").read_bytes() == b"entry", "what was whole before"
    cache.save(OTHER, tmp_path / "left")
    assert not list(cache.folder.glob("*.partial")), "the next writer removes it"


def test_one_process_compiles_for_an_identity_while_another_waits(tmp_path: pathlib.Path) -> None:
    cache, waited = kept(tmp_path), list[float]()
    patient = CodeCache(cache.folder, ROOM, lock_timeout_s=0.0, wait=waited.append)
    with cache.compiling(MINE) as first, patient.compiling(MINE) as second, patient.compiling(OTHER) as another:
        assert (first, second, another) == (True, False, True)
    with patient.compiling(MINE) as now:
        assert now
