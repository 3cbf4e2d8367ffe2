"""Strings that name a module, a file or a `python -m` command, and whether the named thing exists.

The number of mentions is information. A mention that leads nowhere is listed with its file, without the folder.
"""

import ast
import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.behaviour.invoking import invoked
from tests.behaviour.tree import ROOT, Tree, module_path, rooms, tracked

TEXTS = (".py", ".toml", ".md", ".sh", ".cfg", ".txt", ".jinja", ".html", ".properties")
LOCKS = ("requirements.lock", "requirements-serving.lock", "requirements-worker.lock", "requirements-test.lock")
SITE_LOCK = "requirements-site.lock"
LEFT_OUT = (*LOCKS, SITE_LOCK, "CHANGELOG.md", "prompts.txt")  # other packages, earlier releases, prompts
DOTTED_ENDS = {"toml", "json", "py", "md", "log", "txt", "v1", "csv", "html", "npz", "lock", "yaml", "yml"}
MAKES_HELP = re.compile(r"\b(argparse|click)\b")
HELP_TIMEOUT_S = 300
WITH_OPTION = re.compile(r"""["']-m["'],\s*f?["']([\w.]+)["']""")
MODULE_RUN = re.compile(r"""python[0-9.]*"?\s+(?:-[A-Za-z]\s+)*-m\s+([\w.]+)""")
PLACEHOLDER = "NAME"  # stands for any name: tests/nightly/test_NAME.py
OWN_FILE = re.compile(r"`([\w.-]+\.py)`")  # a file named without its folder


class Named(NamedTuple):
    """One mention."""

    file: str
    kind: str
    name: str


def record(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """Number of mentions by kind, and the mentions that lead nowhere."""
    settings = {row["name"] for row in json.loads(invoked("config", "show", "-o", "json").stdout)}
    mentions = [each for name in track(_texts()) for each in _mentions(name) if PLACEHOLDER not in each.name]
    is_there = {
        "module": lambda name: _is_module(name) or _is_setting(name, settings),
        "path": lambda name: (ROOT / name).exists() or any(file.endswith("/" + name) for file in tracked()),
        "file": lambda name: any(file.rpartition("/")[2] == name for file in tracked()),
        "python -m": lambda name: name.split(".")[0] not in (*rooms(), "tests") or not _trouble(tree, name),
    }
    known = {(kind, name): is_there[kind](name) for kind, name in {(each.kind, each.name) for each in mentions}}
    lost = [f"{each.kind} {each.name} in {_base(each.file)}" for each in mentions if not known[each.kind, each.name]]
    return {
        "mentions (information)": dict(sorted(Counter(each.kind for each in mentions).items())),
        "leads nowhere": dict(sorted(Counter(lost).items())),
    }


def _base(file: str) -> str:
    return file.rpartition("/")[2]


def _texts() -> list[str]:
    """Files that are searched: code, settings, scripts, the Makefile, READMEs."""
    return [
        name
        for name in tracked()
        if _base(name) not in LEFT_OUT
        and (name.endswith(TEXTS) or name.startswith(("infra/bin/", ".ci/")) or _base(name) == "Makefile")
    ]


def _mentions(file: str) -> Iterator[Named]:
    text = (ROOT / file).read_text(errors="replace")
    top = "|".join((*rooms(), "tests"))
    for string in _strings(file, text):
        for dotted in re.findall(rf"(?<![\w./@-])((?:{top})(?:\.[A-Za-z_]\w*)+)(?![\w/-]|\.\w)", string):
            if dotted.rpartition(".")[2] not in DOTTED_ENDS:
                yield Named(file, "module", dotted)
        for path in re.findall(
            rf"(?<![\w./{{}}-])((?:{top})/[\w./-]*\w\.(?:py|md|json|toml|jinja|html|txt))\b", string
        ):
            yield Named(file, "path", path)
        if file.endswith(".md"):
            yield from (Named(file, "file", name) for name in OWN_FILE.findall(string))
    yield from (Named(file, "python -m", name) for name in MODULE_RUN.findall(text) + WITH_OPTION.findall(text))


def _strings(file: str, text: str) -> Iterator[str]:
    """Strings and comments of Python code; the whole text of any other file."""
    if not file.endswith(".py"):
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    yield from re.findall(r"(?m)(?:^|\s)# .*$", text)


def _is_module(name: str) -> bool:
    """Whether the name is that of a module or of an attribute of a module."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        if module_path(module) is not None:
            return _has(module, parts[count:])
    return False


def _has(module: str, rest: Sequence[str]) -> bool:
    if not rest:
        return True
    found: Any = importlib.import_module(module)
    for part in rest:
        if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
            return False
        found = getattr(found, part, None)
    return True


def _is_setting(name: str, settings: set[str]) -> bool:
    """Whether the name is that of a setting, as `planner.period_ms`, whose section is called like a package."""
    return any(each == name or each.startswith(name + ".") for each in settings)


def _trouble(tree: Tree, module: str) -> str:
    """Why `python -m MODULE --help` fails; "" if it succeeds, or if the module has no options and can be imported."""
    path = module_path(module)
    if path is not None and path.is_dir():
        path = path / "__main__.py"
    if path is None or not path.is_file():
        return "there is no such module"
    if path.name == "__init__.py":
        path = path.with_name("__main__.py")
    if not MAKES_HELP.search(path.read_text()):
        ended = tree.python("-c", f"import importlib; importlib.import_module({module!r})", timeout_s=HELP_TIMEOUT_S)
    else:
        ended = tree.python("-m", module, "--help", timeout_s=HELP_TIMEOUT_S)
    return "" if ended.returncode == 0 else ended.stderr[-500:]
