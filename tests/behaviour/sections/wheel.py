"""The content of the wheel, with every data file opened after the wheel is installed."""

import hashlib
import json
import pathlib
import shutil
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.behaviour.tree import ROOT, Tree, rooms, tracked

SHIPPED_OUTSIDE = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "setup.py", "setup.cfg")
OPEN = """
import hashlib, importlib.resources, json, sys
opened = {}
for name in json.load(sys.stdin):
    room, _, rest = name.partition("/")
    try:
        opened[name] = hashlib.sha256(importlib.resources.files(room).joinpath(rest).read_bytes()).hexdigest()
    except (OSError, ModuleNotFoundError) as error:
        opened[name] = f"{type(error).__name__}: {error}"
json.dump(opened, sys.stdout)
"""


def record(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """Data files with their hashes, the number of modules, requirements, commands, and files that cannot be opened.

    Only files of `infra` are listed with their folder; elsewhere a file may move with its module.
    """
    source, installed = tree.work / "source", tree.work / "installed"
    steps: list[Callable[[], Any]] = [
        lambda: _copy(source), lambda: _build(tree, source), lambda: _install(tree, source, installed),
    ]  # fmt: skip
    for step in track(steps):
        step()
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
        lines = sum(len(archive.read(name).splitlines()) for name in contents if name.endswith(".py"))
        about = {name.rpartition("/")[2]: archive.read(name).decode() for name in contents if ".dist-info/" in name}
    own = [name for name in contents if name.split("/")[0] in rooms()]
    data = [name for name in own if not name.endswith(".py")]
    opened = _opened(tree, installed, data)
    shutil.rmtree(source)
    shutil.rmtree(installed)
    return {
        "data": dict(Counter(f"{_place(name)} {contents[name]}" for name in data)),
        "modules (information)": len(own) - len(data),
        "lines of Python (information)": lines,
        "requires": sorted(line for line in about["METADATA"].splitlines() if line.startswith("Requires-Dist")),
        "commands": sorted(
            line.split("=")[0].strip() for line in about["entry_points.txt"].splitlines() if "=" in line
        ),
        "cannot be opened": {name: found for name, found in opened.items() if found != contents[name]},
    }


def _place(name: str) -> str:
    return name if name.startswith("infra/") else name.rpartition("/")[2]


def _copy(source: pathlib.Path) -> None:
    """Copy the files that git knows. A build in the tree itself would leave folders there and ship stray files."""
    for name in tracked():
        if name.split("/")[0] in (*rooms(), *SHIPPED_OUTSIDE):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)


def _build(tree: Tree, source: pathlib.Path) -> None:
    _checked_output(
        tree, "-P", "-m", "build", "--wheel", "--no-isolation", "--outdir", str(source / "dist"), str(source)
    )


def _install(tree: Tree, source: pathlib.Path, installed: pathlib.Path) -> None:
    (wheel,) = (source / "dist").glob("*.whl")
    _checked_output(
        tree, "-P", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target",
        str(installed), str(wheel),
    )  # fmt: skip


def _opened(tree: Tree, installed: pathlib.Path, names: Sequence[str]) -> dict[str, str]:
    output = _checked_output(
        Tree(tree.work, tree.environment | {"PYTHONPATH": str(installed)}), "-P", "-c", OPEN, input=json.dumps(names)
    )
    found: dict[str, str] = json.loads(output)
    return found


def _checked_output(tree: Tree, *arguments: str, input: str | None = None) -> str:
    ended = tree.run([sys.executable, *arguments], input=input)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(arguments)[:200]} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.stdout
