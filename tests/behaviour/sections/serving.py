"""What serving processes load, and in which files functions run for one escalated request: live, information only.

A broker, six roles in six processes, and one request after the other until one is escalated. Once on the engine
`profile` without any feature, once on the tiny models with reuse, components, tenants, safety and scaling configured.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from replay.bench.environment.site import Site, open_site
from streams import catalogs
from streams.settings import load
from tests.behaviour.tree import ROOT, Tree
from tests.imports import project_modules
from tests.patience import PATIENCE_S

ALWAYS = {"planner.policy": "diffserve-static", "planner.load_shedding": "false", "admission.max_backlog_s": "3600"}
SITUATIONS = {
    "features off": {"catalog": "profile"},
    "features on": {
        "catalog": "tiny", "vectors.url": "exact", "safety.checker": "mushroom", "planner.scale.max_workers": "2",
        "tenants.default.rate_rps": "1000",
    },
}  # fmt: skip
PROCESSES = {
    "router": ["router"],
    "ledger": ["ledger"],
    "classifier and discriminator": ["classifier", "discriminator"],
    "worker": ["worker"],
    "worker-2": ["worker"],
}
FOLDERS = ("agents.router", "agents.ledger")
IMPORT = """
import importlib, sys
from tests.behaviour.watched import Windows, write
for name in sys.argv[2:]:
    importlib.import_module(name)
write(sys.argv[1], Windows())
"""
WINDOW_S = 6.0  # of a request, and of none: longer than the planner's period
PROMPT = "four purple butterflies above a yellow house"  # which the light tiny model seldom gets right
SEEN_S = 0.5  # until each process has seen that a window is open, or closed
MAX_REQUESTS = 20  # of which one is escalated


def record(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """Situation -> files and lines of the project that each process has loaded, and that ran."""
    with open_site(load({"home": ROOT / ".pochade"})) as site:
        live = {name: _recorded(tree, site, values) for name, values in track(list(SITUATIONS.items()))}
    return live | {f"all of {folder}, imported alone": _imported(tree, folder) for folder in FOLDERS}


def _imported(tree: Tree, folder: str) -> dict[str, int]:
    """What a process loads that imports every module of a folder."""
    out = tree.work / "imported.json"
    names = [name for name in project_modules() if f"{name}.".startswith(f"{folder}.")]
    ended = tree.python("-c", IMPORT, str(out), *names)
    assert ended.returncode == 0, ended.stderr
    return _counted(json.loads(out.read_text())["loaded"])


def _recorded(tree: Tree, site: Site, values: Mapping[str, str]) -> dict[str, Any]:
    settings = site.fresh("serving", sorted(catalogs.load(values["catalog"]).served))
    given = ALWAYS | values | {"kafka.prefix": settings.kafka.prefix}
    asked = [part for key, each in given.items() for part in ("--set", f"{key}={each}")]
    options = ["--home", str(settings.home), *asked]
    with _served(tree, options) as outs:
        _path(tree, options)  # the first loads what the others need
        for number in range(MAX_REQUESTS):
            with _window(tree, name := f"request {number}"):
                path = _path(tree, options)
            if len(path) > 1:
                break
        else:
            raise RuntimeError(f"none of {MAX_REQUESTS} requests was escalated")
        with _window(tree, "none"):
            pass
    found = {name: json.loads(out.read_text()) for name, out in outs.items()}
    with_it, without = (
        {file for each in found.values() for file in each["windows"][which]} for which in (name, "none")
    )
    return {
        "loaded": {name: _counted(each["loaded"]) for name, each in found.items()},
        "functions ran with an escalated request": _counted(with_it),
        "functions ran only because of it": _counted(with_it - without),
    }


@contextlib.contextmanager
def _served(tree: Tree, options: Sequence[str]) -> Iterator[dict[str, pathlib.Path]]:
    """Serve the roles. Yields the file that each watched process writes in the end."""
    outs = {name: tree.work / f"{name}.json" for name in PROCESSES}
    commands = {
        name: [
            sys.executable, "-m", "tests.behaviour.watched", str(outs[name]), str(tree.work / "window"), *options,
            "--set", f"worker.id={name}", "serve", *roles,
        ]
        for name, roles in PROCESSES.items()
    }  # fmt: skip
    commands["planner"] = [sys.executable, str(tree.work / "bin" / "pochade"), *options, "serve", "planner"]
    with contextlib.ExitStack() as stack:
        for name, command in commands.items():
            stack.enter_context(_child(tree, name, command))
        yield outs


@contextlib.contextmanager
def _child(tree: Tree, name: str, command: Sequence[str]) -> Iterator[None]:
    with (tree.work / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(command, cwd=tree.work, env=tree.environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            child.terminate()
            child.wait(PATIENCE_S)


@contextlib.contextmanager
def _window(tree: Tree, name: str) -> Iterator[None]:
    """Let the watched processes note which functions run in the block, and for a while after it."""
    end = time.monotonic() + WINDOW_S
    (tree.work / "window").write_text(name)
    time.sleep(SEEN_S)
    yield
    time.sleep(max(0.0, end - time.monotonic()))
    (tree.work / "window").write_text("")
    time.sleep(SEEN_S)


def _path(tree: Tree, options: Sequence[str]) -> list[Any]:
    """Send a request and wait: the stages of its way."""
    asked = ("submit", PROMPT, "--quality", "medium", "--wait", "--timeout", "300", "-o", "json")
    stages: list[Any] = json.loads(tree.pochade(*options, *asked))["result"]["path"]
    return stages


def _counted(files: Iterable[str]) -> dict[str, int]:
    chosen = sorted(files)
    return {"files": len(chosen), "lines": sum(len((ROOT / file).read_text().splitlines()) for file in chosen)}
