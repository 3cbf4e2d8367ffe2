"""Environments with wheels of this repository and nothing else but what they ask for, made without an index.

What they ask for is linked from the environment that the tests run in, so that making one copies nothing.
"""

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from packaging.requirements import Requirement

from tests.paths import ROOT

OWN = "pochade"  # and what begins with it
FILES = {
    "pochade": "pyproject.toml",
    "pochade-client": "streams/client/pyproject.toml",
    "pochade-tiny": "infra/pyproject.toml",
    "pochade-lab": "agents/lab/pyproject.toml",
}


class Environment(NamedTuple):
    """A Python with wheels installed."""

    python: pathlib.Path
    packages: pathlib.Path  # its site-packages

    @property
    def pochade(self) -> pathlib.Path:
        """The command."""
        return self.python.with_name("pochade")

    def run(self, *command: "str | pathlib.Path", cwd: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command that knows nothing of the environment of the tests."""
        there = cwd or self.packages  # not the repository, whose folders would be found first
        return subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, env=clean(), cwd=there
        )

    def said(self, script: str, *arguments: str) -> str:
        """What a script prints there; says why where it fails."""
        done = self.run(self.python, "-c", script, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def size_bytes(self, without: Sequence[str] = ()) -> int:
        """All that is installed, without bytecode and without folders below site-packages."""
        files = (each for each in self.packages.rglob("*") if each.is_file() and each.suffix != ".pyc")
        left_out = tuple(without)
        kept = (each for each in files if not str(each.relative_to(self.packages)).startswith(left_out))
        return sum(each.stat().st_size for each in kept)


def clean() -> dict[str, str]:
    """The variables of this process without those that lead Python elsewhere."""
    unwanted = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def built(folder: pathlib.Path, *names: str) -> dict[str, pathlib.Path]:
    """Distribution -> its wheel, built as a release is; none named: all."""
    done = subprocess.run(
        [str(ROOT / "infra/bin/build-wheels"), str(folder), *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    wheels = {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in folder.glob("*.whl")}
    assert set(names or FILES) <= wheels.keys()
    return wheels


def make(home: pathlib.Path, wheels: Iterable[pathlib.Path], asked: Iterable[str]) -> Environment:
    """Install wheels with what they require; `asked`: their requirements, such as `pochade[worker]`."""
    _run("-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    (packages,) = (home / "lib").glob("python*/site-packages")
    for name in needed(asked):
        _link(name, packages)
    _run("-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", "--no-compile", *wheels)
    return Environment(python, packages)


def needed(asked: Iterable[str]) -> set[str]:
    """The distributions of others that these requirements bring, of those that are installed here."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    open_ends = [Requirement(text) for text in asked]
    while open_ends:
        requirement = open_ends.pop()
        name = requirement.name.lower().replace("_", "-")
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            if not name.startswith(OWN):
                found.add(name)
            texts = requirements_of(name)
            wanted = (Requirement(text) for text in texts)
            open_ends += [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": extra})]
    return found


def requirements_of(name: str) -> list[str]:
    """The requirements of an installed distribution; of one of ours as its pyproject.toml states them now."""
    if name not in FILES:
        return importlib.metadata.distribution(name).requires or []
    project = tomllib.loads((ROOT / FILES[name]).read_text())["project"]
    extras = project.get("optional-dependencies", {})
    optional = [_of_extra(text, extra) for extra, texts in extras.items() for text in texts]
    return [*project.get("dependencies", []), *optional]


def _of_extra(text: str, extra: str) -> str:
    package, _, marker = text.partition(";")
    condition = f"extra == '{extra}'"
    return f"{package}; ({marker.strip()}) and {condition}" if marker else f"{package}; {condition}"


def _link(name: str, packages: pathlib.Path) -> None:
    """Link the files of an installed distribution, its bytecode among them."""
    for file in importlib.metadata.distribution(name).files or ():
        there = packages / file
        if ".." not in file.parts and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(str(file.locate()))


def _run(*arguments: "str | pathlib.Path") -> None:
    done = subprocess.run([sys.executable, "-P", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stderr[-2000:]}"
