"""Digests of the code that decides results: one of the code that all cells share, one for each policy.

A policy's own code is its module, those of the policies that it imports, and a folder of its name among the solvers.
So a change of one policy makes only its own cells run again, and those of policies that contain it.
"""

import ast
import functools
import hashlib
import pathlib
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Final

from planner import policies
from streams.shipped import INFRA

ROOT: Final = pathlib.Path(__file__).parents[3]
SHARED: Final = (
    "planner",
    "replay/simulation",
    "replay/traces",
    "schemas",
    "streams/catalogs.py",
    "streams/settings.py",
)
POLICIES, SOLVERS = ROOT / "planner" / "policies", ROOT / "planner" / "solvers"


def digest_of(limit: int | None, folder: pathlib.Path | None = None) -> str:
    """Return a digest of the code and catalogs that all results share, and of which traces they are of.

    `limit`: first requests that traces are cut to; `folder`: of the published traces; None for made ones.
    """
    own = {path for name in policies.POLICIES for path in own_files(name)}
    places = [ROOT / source for source in SHARED] + [INFRA / "catalogs", INFRA / "profiles"]
    shared = [path for place in places for path in _files(place) if path not in own]
    return _digest(f"{limit} {folder is None}", shared)


@functools.cache
def policy_digest(name: str) -> str:
    """Return a digest of the code that belongs to a policy. Raises Unknown."""
    return _digest(name, own_files(name))


@functools.cache
def own_files(name: str) -> tuple[pathlib.Path, ...]:
    """Return the files that belong to a policy, sorted. Raises Unknown."""
    modules = set(_contained(_module_of(policies.named(name))))
    found = [file for module in modules for place in _places(module) for file in _files(place)]
    return tuple(sorted(found))


def _module_of(policy: policies.Policy) -> str:
    modules = (each for each in vars(policies).values() if isinstance(each, ModuleType))
    return next(m.__name__.rpartition(".")[2] for m in modules if getattr(m, "plan", None) is policy)


def _contained(module: str) -> Iterator[str]:
    yield module
    for node in ast.walk(ast.parse((POLICIES / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == policies.__name__:
            for alias in node.names:
                yield from _contained(alias.name)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{policies.__name__}."):
            yield from _contained(str(node.module).rpartition(".")[2])


def _places(module: str) -> list[pathlib.Path]:
    return [place for place in (POLICIES / f"{module}.py", SOLVERS / module) if place.exists()]


def _files(place: pathlib.Path) -> list[pathlib.Path]:
    if place.is_file():
        return [place]
    return sorted(path for path in place.rglob("*") if path.suffix in (".py", ".toml", ".json", ".npz"))


def digest_of_files(paths: Iterable[pathlib.Path]) -> str:
    """Return a digest of files, by their names and contents."""
    return _digest("", paths)


def _digest(what: str, paths: Iterable[pathlib.Path]) -> str:
    found = hashlib.sha256(what.encode())
    for path in paths:
        found.update(path.name.encode())
        found.update(path.read_bytes())
    return found.hexdigest()
