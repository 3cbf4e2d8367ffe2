"""Memory that threads have freed goes back to the operating system."""

import platform
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from agents.runtime import assembly, process
from streams.cli import main
from streams.processes import freed_memory

GLIBC = platform.libc_ver()[0] == "glibc"
pytestmark = pytest.mark.skipif(not GLIBC, reason="the C library is not glibc")

ARENAS = """
import ctypes, os, re, tempfile, threading
from streams.processes.freed_memory import limit_arenas

limit_arenas()
libc, all_here = ctypes.CDLL(None), threading.Barrier(9)
libc.fdopen.restype = ctypes.c_void_p
def allocate():
    libc.malloc(1000)
    all_here.wait()
    all_here.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
[each.start() for each in threads]
all_here.wait()
with tempfile.TemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fdopen(os.dup(file.fileno()), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    file.seek(0)
    print(len(re.findall(b"<heap nr=", file.read())))
all_here.wait()
"""

HELD = """
import ctypes, psutil, threading
from streams.processes import freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(10_000) for _ in range(5_000)]
[ctypes.memset(block, 1, 10_000) for block in blocks]
[libc.free(block) for block in blocks[:-1]]  # the last one keeps the end of the arena
held = psutil.Process().memory_info().rss
stopping, given = threading.Event(), freed_memory.give_back
freed_memory.give_back = lambda: (given(), stopping.set())
freed_memory.give_back_until(stopping, 0.01)
print((held - psutil.Process().memory_info().rss) // 10**6)
"""


def printed(code: str, **environment: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment or None
    )
    return int(done.stdout)


@pytest.mark.parametrize(("said", "arenas"), [({}, 2), ({"MALLOC_ARENA_MAX": "4"}, 4)])
def test_threads_share_two_arenas_or_as_many_as_the_environment_says(said: dict[str, str], arenas: int) -> None:
    assert printed(ARENAS, PYTHONPATH=":".join(sys.path), **said) == arenas


def test_what_is_free_below_a_block_in_use_is_given_back_again_and_again_until_the_process_stops() -> None:
    assert printed(HELD, PYTHONPATH=":".join(sys.path)) > 40


def test_a_process_of_roles_limits_its_arenas_before_its_threads_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(freed_memory, "limit_arenas", lambda: done.append("arenas"))
    monkeypatch.setattr(
        assembly, "assemble", lambda *_: done.append("roles") or nullcontext(SimpleNamespace(threaded={}, hosts=[]))
    )
    monkeypatch.setattr(process, "run_process", lambda *_: None)
    ran = CliRunner().invoke(main, ["serve", "ledger"])
    assert ran.exit_code == 0, ran.output
    assert done == ["arenas", "roles"]
