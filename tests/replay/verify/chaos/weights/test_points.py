"""Points at which workers stop, on real processes of the test's own."""

import ast
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from replay.verify.chaos.weights.points import FETCH, FUSE, LOAD, POINTS, Ambush, is_armed, stop, stopping_at
from tests.integration.waiting import poll_until
from tests.paths import ROOT
from tests.patience import PATIENCE_S

PASSING = (
    "import pathlib, sys; from replay.verify.chaos.weights.points import stop; "
    "stop(pathlib.Path(sys.argv[1])); print('went on', flush=True)"
)


@pytest.fixture
def passing() -> Iterator[list[subprocess.Popen[str]]]:
    """Starts processes that come to the point `fuse`."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for each in started:
        each.kill()
        each.communicate()


def come(started: list[subprocess.Popen[str]], folder: pathlib.Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PASSING, str(folder / "fuse")]
    started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
    return started[-1]


def test_the_first_process_that_comes_to_an_armed_point_waits_and_the_next_ones_pass(
    tmp_path: pathlib.Path, passing: list[subprocess.Popen[str]]
) -> None:
    with Ambush(tmp_path, "fuse") as ambush:
        assert ambush.caught() is None
        first = come(passing, tmp_path)
        poll_until(lambda: ambush.caught() is not None, "a process that waits")
        assert ambush.caught() == first.pid
        assert is_armed(tmp_path, "fuse")
        second = come(passing, tmp_path)
        assert second.communicate(timeout=PATIENCE_S)[0] == "went on\n"
        assert first.poll() is None
    assert first.communicate(timeout=PATIENCE_S)[0] == "went on\n", "nobody killed it, and the fault is over"
    assert not list(tmp_path.iterdir())
    assert not is_armed(tmp_path, "fuse")


def test_a_process_passes_points_that_nobody_armed(tmp_path: pathlib.Path) -> None:
    with Ambush(tmp_path, "load-put") as other:
        stop(tmp_path / "fuse")
        assert other.caught() is None, "a point that is armed stops nobody at another one"
        assert [each.name for each in tmp_path.iterdir()] == ["load-put"], "and nothing is left of having passed"


def test_a_function_stops_before_or_after_its_point(tmp_path: pathlib.Path) -> None:
    done: list[str] = []
    for is_after in (False, True):
        with Ambush(tmp_path, "load-put") as ambush:
            stopping = stopping_at(lambda: done.append("done"), tmp_path / "load-put", is_after=is_after)
            thread = threading.Thread(target=stopping, daemon=True)
            thread.start()
            poll_until(lambda: ambush.caught() is not None, "a thread that waits")
            assert len(done) == 1 if is_after else not done
        thread.join(PATIENCE_S)
        assert done.pop() == "done"


def test_every_point_is_a_function_that_is_there() -> None:
    assert set(POINTS) == {*FETCH, *LOAD, *FUSE}
    for point in POINTS.values():
        module, _, path = point.where.partition(":")
        body = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text()).body
        for name in path.split("."):
            body = next(found for node in body if (found := bound(node, name)) is not None)


def bound(node: ast.stmt, name: str) -> list[ast.stmt] | None:
    """What is within a function or class of this name; nothing is within an imported one."""
    if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
        return []
    return node.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name else None


def test_a_process_stops_at_its_points_once_they_are_put_into_it(tmp_path: pathlib.Path) -> None:
    program = (
        "import operator, importlib, pathlib; from replay.verify.chaos.weights import points; "
        "chosen = {name: points.POINTS[name] for name in (*points.FETCH, 'load-read')}; "
        f"points.stop_at_all(pathlib.Path({str(tmp_path)!r}), chosen); "
        "pairs = [each.where.split(':') for each in chosen.values()]; "
        "print(all(operator.attrgetter(path)(importlib.import_module(module)).__wrapped__ for module, path in pairs))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "True\n", done.stderr
