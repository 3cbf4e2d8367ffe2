"""What holds for all tests: nothing is timed, on a loaded machine neither, and no process is left behind.

Where a package of an extra is not installed, files whose tests are all marked as needing it are not collected.
`--shard 1/2` leaves every second file to another process.
"""

import gc
import importlib.util
import pathlib
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.left_over import end_left_over

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

gc.set_threshold(20_000, 20, 20)  # collections took up to 14 % of a file's processor time, of many live objects
collect_ignore = ["nightly"]  # only what is named: `make nightly PART=...`
FOLDER = pathlib.Path(__file__).parent
LABORATORY = tuple(
    FOLDER / folder
    for folder in ("agents/lab", "replay/bench", "replay/verify/chaos", "chaos", "integration/test_bench.py")
)
NEEDS = {"torch": "torch", "milvus": "pymilvus", "lab": "torch"}  # marker -> a module without which nothing can be done
MISSING = {marker for marker, module in NEEDS.items() if importlib.util.find_spec(module) is None}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", help="Which part of the files to collect, such as 1/2.")


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Leave out files of another shard, and those that cannot be imported here."""
    if not collection_path.name.startswith("test_") or not collection_path.is_file():
        return None
    number, parts = map(int, config.getoption("--shard").split("/"))
    if zlib.crc32(str(collection_path.relative_to(FOLDER)).encode()) % parts != number - 1:
        return True
    marked = re.search(r"^pytestmark = .*?\n\n", collection_path.read_text(), re.M | re.S)
    needs = {marker for marker in NEEDS if marked and f"mark.{marker}" in marked[0]}
    needs |= {"lab"} if is_of_the_laboratory(collection_path) else set()
    return True if needs & MISSING else None


def is_of_the_laboratory(path: pathlib.Path) -> bool:
    """Whether a file tests pochade-lab."""
    return any(path.is_relative_to(folder) for folder in LABORATORY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the laboratory."""
    for item in items:
        if is_of_the_laboratory(item.path):
            item.add_marker(pytest.mark.lab)


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of later collections."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let extension modules be collected at the end, which report leaks otherwise."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail a session that leaves a process in its temporary folder; the first fixture, so that it ends last."""
    folder = tmp_path_factory.getbasetemp()
    yield
    left = end_left_over(folder)
    assert not left, "these processes were left behind, and have been killed:\n" + "\n".join(left)


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Toys of diffusers' families: `toys("flux-dev")` is the path of a folder that a variant's `model` may name."""
    from tests.toys import Toys  # needs torch

    return Toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture(scope="session")
def wheels_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, pathlib.Path]]:
    """Returns the wheels of the named distributions, or of all, by name: each is built once a session."""
    from tests.environments import FILES, built

    made: dict[str, pathlib.Path] = {}

    def wheels(*names: str) -> dict[str, pathlib.Path]:
        wanted = names or tuple(FILES)
        if missing := [name for name in wanted if name not in made]:
            made.update(built(tmp_path_factory.mktemp("dist"), *missing))
        return {name: made[name] for name in wanted}

    return wheels
