"""The house rules that a reader relies on: who imports whom, what planner never touches, where policies are named."""

import ast
import pathlib
import re
from collections.abc import Container, Iterator

import pytest

from planner.policies import POLICIES
from tests.paths import ROOT

MAY_IMPORT = {
    "schemas": {"schemas"},
    "planner": {"planner", "schemas"},
    "streams": {"streams", "planner", "schemas"},
    "agents": {"agents", "planner", "streams", "schemas"},
    "replay": {"replay", "planner", "streams", "schemas"},
}
ROOMS = (*MAY_IMPORT, "infra", "tests")
NEVER_IN_PLANNER = {
    "time", "random", "datetime", "os", "pathlib", "logging", "threading", "asyncio", "socket", "subprocess",
    "confluent_kafka", "faust", "torch", "diffusers", "transformers", "boto3", "pymilvus", "pydantic",
}  # fmt: skip
ONLY_STANDARD_LIBRARY_AND_FASTAVRO = {"fastavro"}
HEAVY_AT_START = {
    "torch",
    "diffusers",
    "transformers",
    "spacy",
    "faust",
    "confluent_kafka",
    "pydantic",
    "numpy",
}


def sources(room: str) -> list[pathlib.Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imports(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """The line of each import, those inside functions too, and the top-level package that it names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


def module_of(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_imported(path: pathlib.Path, known: Container[str]) -> Iterator[tuple[int, str]]:
    """The line of each import, those inside functions too, and the module of this project that it names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found = name if name in known else node.module
                if found in known:
                    yield node.lineno, found


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(room)
        for line, name in imports(path)
        if name in MAY_IMPORT and name not in MAY_IMPORT[room]
    ]
    assert not wrong


def test_no_module_imports_itself_by_way_of_others() -> None:
    paths = {module_of(path): path for room in MAY_IMPORT for path in sources(room)}
    waiting = {name: {found for _, found in modules_imported(path, paths)} for name, path in paths.items()}
    while free := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in free:
            del waiting[name]
    assert not waiting, "modules of an import circle, and those that import one of them"


def test_only_commands_and_the_lab_itself_import_the_lab() -> None:
    paths = {module_of(path): path for path in sources("agents")}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {found}"
        for name, path in paths.items()
        if not name.startswith(("agents.lab", "agents.commands"))
        for line, found in modules_imported(path, paths)
        if found.startswith("agents.lab")
    ]
    assert not wrong


def test_planner_has_no_clock_no_dice_no_files_and_no_clients() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources("planner")
        for line, name in imports(path)
        if name in NEVER_IN_PLANNER
    ]
    assert not wrong
    opened = [p for p in sources("planner") if re.search(r"\bopen\(|read_text\(|importlib\.resources", p.read_text())]
    assert not opened, f"planner reads files: {opened}"


@pytest.mark.parametrize("room", ["schemas", "streams", "agents", "replay"])
def test_no_policy_is_named_outside_planner_policies_and_configuration(room: str) -> None:
    names = "|".join(re.escape(name) for name in POLICIES)
    wrong = [
        f"{path.relative_to(ROOT)}:{n} {line.strip()}"
        for path in sources(room)
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(rf"""["'`]({names})["'`]""", line)
    ]
    assert not wrong


def test_planner_names_policies_only_in_the_policies_folder() -> None:
    names = "|".join(re.escape(name) for name in POLICIES)
    rest = [p for p in sources("planner") if "policies" not in p.parts]
    assert not [p for p in rest if re.search(rf"""["']({names})["']""", p.read_text())]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_readme(room: str) -> None:
    lines = (ROOT / room / "README.md").read_text().splitlines()
    assert len(lines) >= 5


def test_the_top_level_is_what_the_user_laid_out() -> None:
    allowed = {
        "pyproject.toml", "streams", "agents", "planner", "schemas", "infra", "replay", "tests", "README.md",
        "LICENSE", "CHANGELOG.md", "Makefile", "requirements.lock",
    }  # fmt: skip
    made_here = {"build", "dist", "__pycache__"}
    found = {p.name for p in ROOT.iterdir() if not p.name.startswith(".") and not p.name.endswith(".egg-info")}
    assert found - made_here <= allowed


def test_topic_names_are_typed_once() -> None:
    quoted = re.compile(r"""["'](?:prompts|classified|images|outcomes|results|ended|events|plan|fleet|dlq)\.v1["']""")
    outside = [p for room in MAY_IMPORT for p in sources(room) if p != ROOT / "schemas" / "topics.py"]
    assert not [str(p.relative_to(ROOT)) for p in outside if quoted.search(p.read_text())]


def test_no_client_of_the_admin_asks_for_a_groups_offsets() -> None:
    """It ends the process where the group's coordinator moves (librdkafka's issue 5040): a Consumer asks."""
    asking = [
        str(path.relative_to(ROOT))
        for room in ("streams", "agents", "replay")
        for path in sources(room)
        if re.search(r"\.list_consumer_group_offsets\b", path.read_text())
    ]
    assert not asking


def test_commands_import_nothing_heavy_at_the_top() -> None:
    files = [
        ROOT / "streams" / "cli.py",
        *(p for r in ("streams", "agents", "replay") for p in sources(f"{r}/commands")),
    ]
    wrong = []
    for path in files:
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{path.relative_to(ROOT)}: {n}" for n in names if n.split(".")[0] in HEAVY_AT_START]
    assert not wrong


def test_no_index_address_or_machine_path_is_recorded() -> None:
    tracked = [ROOT / "requirements.lock", ROOT / "pyproject.toml", ROOT / "Makefile", *ROOT.glob(".ci/*")]
    for path in tracked:
        text = path.read_text()
        assert "index-url" not in text
        assert not re.search(r"https?://(?!www\.apache\.org)", text), path
        assert not re.search(r"/(home|root|work)/", text), path


def test_schemas_need_only_the_standard_library_and_fastavro() -> None:
    import sys

    wrong = {
        name
        for path in sources("schemas")
        for _, name in imports(path)
        if name not in sys.stdlib_module_names | {"schemas"} | ONLY_STANDARD_LIBRARY_AND_FASTAVRO
    }
    assert not wrong
