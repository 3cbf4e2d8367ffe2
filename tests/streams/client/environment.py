"""An environment with the client's wheel and nothing else but what it asks for, made without an index."""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import NamedTuple

from tests.paths import ROOT

SOURCES = ROOT / "streams" / "client"


class Environment(NamedTuple):
    """Where the wheel lies, and the Python that has it installed."""

    wheel: pathlib.Path
    python: pathlib.Path
    packages: pathlib.Path  # its site-packages

    def said(self, script: str, *arguments: str) -> str:
        """What a script prints there; says why where it fails."""
        unwanted = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
        clean = {name: value for name, value in os.environ.items() if name not in unwanted}
        done = subprocess.run(
            [str(self.python), "-c", script, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=clean,
            cwd=self.packages,  # elsewhere than the repository, whose folders would be found first
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def size_bytes(self) -> int:
        """All that is installed, without bytecode."""
        files = (each for each in self.packages.rglob("*") if each.is_file() and each.suffix != ".pyc")
        return sum(each.stat().st_size for each in files)


def make(folder: pathlib.Path) -> Environment:
    """Build the wheel from a copy of its sources, and install it."""
    staged, home = folder / "staged", folder / "venv"
    shutil.copytree(SOURCES, staged, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__", "build", "dist"))
    shutil.copy2(ROOT / "LICENSE", staged / "LICENSE")
    _run("-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", staged)
    (wheel,) = (folder / "dist").glob("*.whl")
    _run("-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    _run("-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", "--no-compile", wheel)
    (packages,) = (home / "lib").glob("python*/site-packages")
    for name in needed(["httpx"]):
        _copy(name, packages)
    return Environment(wheel, python, packages)


def needed(names: Iterable[str]) -> set[str]:
    """These distributions of this environment, and all that they require without extras."""
    found: set[str] = set()
    open_ends = [*names]
    while open_ends:
        name = open_ends.pop().lower()
        if name not in found:
            found.add(name)
            required = importlib.metadata.distribution(name).requires or ()
            plain = (each for each in required if ";" not in each or _holds(each.partition(";")[2]))
            open_ends += [re.split(r"[ ;<>=!~\[(]", each)[0] for each in plain]
    return found


def _holds(marker: str) -> bool:
    from pip._vendor.packaging.markers import Marker

    return Marker(marker).evaluate({"extra": ""})


def _copy(name: str, packages: pathlib.Path) -> None:
    """Copy the files of an installed distribution."""
    for file in importlib.metadata.distribution(name).files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            (packages / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(file.locate()), packages / file)


def _run(*arguments: "str | pathlib.Path") -> None:
    done = subprocess.run([sys.executable, "-P", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stderr[-2000:]}"
