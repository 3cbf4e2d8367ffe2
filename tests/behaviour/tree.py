"""The tree that is recorded, and child processes that run its code and its entry points.

An editable installation names the tree that it was made in. Here a throw-away distribution is written from this tree's
`pyproject.toml` and put first on the path, so that commands are found even where modules have moved since.
"""

import contextlib
import functools
import importlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_S = 600  # of one child process
COLUMNS = 100  # width of help texts


@functools.cache
def project() -> dict[str, Any]:
    """`pyproject.toml`."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@functools.cache
def rooms() -> tuple[str, ...]:
    """The top packages that are shipped."""
    patterns = project()["tool"]["setuptools"]["packages"]["find"]["include"]
    return tuple(pattern.rstrip("*") for pattern in patterns)


@functools.cache
def tracked() -> tuple[str, ...]:
    """Files of the tree that git knows or would add, relative to the root, without build outputs."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return tuple(sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()))


def module_path(name: str) -> pathlib.Path | None:
    """The file of a project module, or the folder of a package without one; None: there is no such module."""
    place = ROOT.joinpath(*name.split("."))
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            return file
    return place if place.is_dir() and any(place.rglob("*.py")) else None


@dataclass(frozen=True)
class Tree:
    """A folder of temporary files in which child processes run, and their environment."""

    work: pathlib.Path
    environment: dict[str, str]

    def run(
        self, command: Sequence[str], *, timeout_s: float = TIMEOUT_S, input: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end in the work folder."""
        return subprocess.run(
            command, cwd=self.work, env=self.environment, input=input, timeout=timeout_s, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    def python(self, *arguments: str, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """Run Python on this tree."""
        return self.run([sys.executable, *arguments], timeout_s=timeout_s)

    def pochade(self, *arguments: str) -> str:
        """The standard output of a `pochade` command of this tree. Raises RuntimeError where it fails."""
        ended = self.python(str(self.work / "bin" / "pochade"), *arguments)
        if ended.returncode:
            raise RuntimeError(f"pochade {' '.join(arguments)} ended with {ended.returncode}: {ended.stderr[-2000:]}")
        return ended.stdout


@contextlib.contextmanager
def prepared() -> Iterator[Tree]:
    """Put the tree's own metadata first on the path, for this process and its children, in a temporary folder.

    Raises:
        RuntimeError: this process does not run the tree's own code.
    """
    with tempfile.TemporaryDirectory(prefix="pochade-behaviour-") as folder:
        work = pathlib.Path(folder)
        _write_metadata(work / "site")
        _write_script(work / "bin" / "pochade")
        sys.path[:0] = [str(work / "site"), str(ROOT)]
        try:
            importlib.invalidate_caches()
            _check_own()
            yield Tree(work, _environment(work))
        finally:
            del sys.path[:2]


def _write_metadata(site: pathlib.Path) -> None:
    about = project()["project"]
    folder = site / f"{about['name']}-{about['version']}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    groups = {"console_scripts": about["scripts"], **about["entry-points"]}
    parts = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups.items()]
    (folder / "entry_points.txt").write_text("\n".join(parts))


def _write_script(path: pathlib.Path) -> None:
    module, _, function = project()["project"]["scripts"]["pochade"].partition(":")
    path.parent.mkdir()
    path.write_text(
        "import sys\n"
        "from tests.behaviour.solving import without_time_limit\n"
        f"from {module} import {function}\n"
        f"with without_time_limit():\n    sys.exit({function}())\n"
    )


def _check_own() -> None:
    for room in rooms():
        found = importlib.import_module(room).__file__ or ""
        if not pathlib.Path(found).is_relative_to(ROOT):
            raise RuntimeError(f"{room} is imported from {found}, not from {ROOT}: run this in the tree's root")


def _environment(work: pathlib.Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not re.match("POCHADE_|PYTHON|PYTEST|COLUMNS", name)}
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(work / "site"), str(ROOT)]),
        "PATH": os.pathsep.join([str(work / "bin"), os.environ.get("PATH", "")]),
        "COLUMNS": str(COLUMNS),
        "TERM": "dumb",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
    }
