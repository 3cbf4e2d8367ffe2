"""The house rules that a reader relies on: who imports whom, what planner never touches, where policies are named."""

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from planner.policies import POLICIES
from tests.imports import (
    behind,
    imported_names,
    imports_of,
    module_of,
    project_imports,
    project_modules,
    sources,
)
from tests.paths import ROOT

MAY_IMPORT = {
    "schemas": {"schemas"},
    "planner": {"planner", "schemas"},
    "streams": {"streams", "planner", "schemas", "pochade"},
    "agents": {"agents", "planner", "streams", "schemas"},
    "replay": {"replay", "planner", "streams", "schemas"},
    "pochade": {"pochade"},
}
ROOMS = ("schemas", "planner", "streams", "agents", "replay", "streams/client", "infra", "tests")
NEVER_IN_PLANNER = {
    "time", "random", "datetime", "os", "pathlib", "logging", "threading", "asyncio", "socket", "subprocess",
    "confluent_kafka", "faust", "torch", "diffusers", "transformers", "boto3", "pymilvus", "pydantic",
}  # fmt: skip
LOCKS = ("requirements.lock", "requirements-serving.lock", "requirements-worker.lock", "requirements-test.lock")
SITE_LOCK = "requirements-site.lock"  # of an environment of its own
LABORATORY = ("agents.lab", "replay.bench", "replay.verify.chaos")
ONLY_STANDARD_LIBRARY_AND_FASTAVRO = {"fastavro"}
HEAVY_AT_START = {
    "torch",
    "diffusers",
    "transformers",
    "faust",
    "confluent_kafka",
    "pydantic",
    "numpy",
    "pymilvus",
    "grpc",
}

ROLES = (
    "agents.classifier.role", "agents.router.role", "agents.worker.role", "agents.discriminator.role",
    "agents.ledger.role", "agents.planner.loop", "agents.indexer.role", "agents.gateway.server",
    "agents.console.server",    "agents.runtime.assembly",
)  # fmt: skip
LAUNCHERS = (
    "streams.broker.embedded", "streams.broker.java", "streams.broker.docker", "streams.broker.registry_server",
    "streams.vectors.lite_server",
)  # fmt: skip


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(room)
        for line, name in imports_of(path)
        if (top := name.split(".")[0]) in MAY_IMPORT and top not in MAY_IMPORT[room]
    ]
    assert not wrong


def test_no_module_imports_itself_by_way_of_others() -> None:
    waiting = {name: {found for _, found in project_imports(path)} for name, path in project_modules().items()}
    while free := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in free:
            del waiting[name]
    assert not waiting, "modules of an import circle, and those that import one of them"


def test_the_product_imports_no_laboratory() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {found}"
        for room in ("schemas", "planner", "streams", "agents", "replay", "infra")
        for path in sources(room)
        if not module_of(path).startswith(LABORATORY)
        for line, found in project_imports(path)
        if found.startswith(LABORATORY)
    ]
    assert not wrong


def test_no_role_names_a_feature_that_stands_beside_it() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for room in ("schemas", "planner", "streams", "agents", "replay")
        for path in sources(room)
        if path.parent != ROOT / "agents" / "features"
        for line, name in imports_of(path)
        if name.startswith("agents.features")
    ]
    assert not wrong


@pytest.mark.parametrize("role", ROLES)
def test_no_role_reaches_what_launches_a_broker(role: str) -> None:
    """A role finds a broker that runs; to start one takes Java, Docker and the registry, which are not its business."""
    reached = behind(role)
    chains = [" <- ".join(chain_of(name, reached)) for name in LAUNCHERS if name in reached]
    assert not chains


def chain_of(name: str, reached: Mapping[str, str]) -> Iterator[str]:
    """A module, who imports it, who imports that one, up to where it began."""
    yield name
    while reached[name] != name:
        name = reached[name]
        yield name


def test_what_launches_a_broker_is_where_the_test_above_looks_for_it() -> None:
    assert set(LAUNCHERS) <= behind("streams.commands.broker").keys()


def test_planner_has_no_clock_no_dice_no_files_and_no_clients() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources("planner")
        for line, name in imports_of(path)
        if name.split(".")[0] in NEVER_IN_PLANNER
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
        "LICENSE", "CHANGELOG.md", "SECURITY.md", "Makefile", *LOCKS, SITE_LOCK,
    }  # fmt: skip
    made_here = {"build", "dist", "__pycache__"}
    found = {p.name for p in ROOT.iterdir() if not p.name.startswith(".") and not p.name.endswith(".egg-info")}
    assert found - made_here <= allowed


def test_topic_names_are_typed_once() -> None:
    quoted = re.compile(r"""["'](?:prompts|classified|images|outcomes|results|ended|events|plan|fleet|dlq)\.v1["']""")
    ours = [room for room in MAY_IMPORT if room != "pochade"]  # which knows nothing of ours; its tests use the table
    outside = [p for room in ours for p in sources(room) if p != ROOT / "schemas" / "topics.py"]
    assert not [str(p.relative_to(ROOT)) for p in outside if quoted.search(p.read_text())]


def test_no_role_asks_a_groups_coordinator_by_a_client_of_the_admin() -> None:
    """It ends the process where the coordinator goes away (librdkafka's issue 5040, pull request 5397).

    A Consumer asks for offsets, and a process of its own for the description of a group.
    """
    of_coordinators = r"\.((list|alter)_consumer_group_offsets|(describe|delete)_consumer_groups)\b"
    asking = [
        str(path.relative_to(ROOT))
        for room in ("streams", "agents", "replay")
        for path in sources(room)
        if re.search(of_coordinators, path.read_text())
    ]
    assert asking == ["streams/kafka/groups/description.py"]


def test_a_process_of_roles_has_one_http_server() -> None:
    """Health and metrics share it; the schema registry's is in a process of its own."""
    serving = {name for name, path in project_modules().items() if "http.server" in {n for _, n in imports_of(path)}}
    assert serving == {"streams.observing.health", "streams.broker.registry_server"}
    assert serving & behind("agents.runtime.assembly").keys() == {"streams.observing.health"}


def test_the_client_of_milvus_is_loaded_only_where_a_milvus_is_opened() -> None:
    """It takes 0.6 s: exact search, who starts Milvus Lite, and whoever only names a store do without."""
    modules = project_modules()
    tops = {name: {found.split(".")[0] for _, found in imports_of(path)} for name, path in modules.items()}
    clients = {name for name, found in tops.items() if found & {"pymilvus", "grpc", "milvus_lite"}}
    assert clients == {"streams.vectors.milvus"}
    openers = {n for n, path in modules.items() if clients & {found for _, found in project_imports(path)}}
    assert openers == {"streams.vectors.open"}


def test_no_file_of_a_model_brings_code() -> None:
    runs = re.compile(
        r"trust_remote_code|allow_pickle=True|weights_only=False|use_safetensors=False|\bpickle\.loads?\b"
    )
    rooms = ("planner", "streams", "agents", "replay")
    assert [
        str(path.relative_to(ROOT)) for room in rooms for path in sources(room) if runs.search(path.read_text())
    ] == []


def test_images_are_opened_by_named_readers_alone() -> None:
    """Others of PIL's start programs, or take minutes; the laboratory opens what it has made itself."""
    opens = re.compile(r"Image\.open\((?!.*formats=)")
    assert [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for room in ("streams", "agents", "replay")
        for path in sources(room)
        if not {"lab", "bench", "chaos"} & set(path.parts)
        for line in path.read_text().splitlines()
        if opens.search(line)
    ] == []


# the second tries properties out
OPENS_CONSUMERS = {
    "streams.kafka.consumers.consumer_factory",
    "streams.security.properties",
    "pochade.cluster",  # a client, which uses nothing of the product
    "replay.verify.chaos.oracle",  # it uses nothing of the product
    "replay.verify.chaos.faults.foreign",  # a stranger in our groups
}


def test_consumers_are_opened_in_one_place() -> None:
    """Their names, their commits and what they read are decided once; Faust opens its own."""
    opening = {
        module
        for module, path in project_modules().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Consumer"
    }
    assert opening == OPENS_CONSUMERS


def test_commands_import_nothing_heavy_at_the_top() -> None:
    files = [
        ROOT / "streams" / "cli.py",
        *(p for r in ("streams", "agents", "replay") for p in sources(f"{r}/commands")),
    ]
    wrong = []
    for path in files:
        at_the_top = imported_names(ast.parse(path.read_text()).body)
        wrong += [f"{path.relative_to(ROOT)}: {name}" for _, name in at_the_top if name.split(".")[0] in HEAVY_AT_START]
    assert not wrong


def test_no_index_address_or_machine_path_is_recorded() -> None:
    tracked = [
        *(ROOT / name for name in (*LOCKS, SITE_LOCK)),
        *(ROOT / folder / "pyproject.toml" for folder in ("", "infra", "agents/lab", "streams/client")),
        ROOT / "Makefile",
        *ROOT.glob(".ci/*"),
    ]
    for path in tracked:
        text = path.read_text()
        assert "index-url" not in text
        assert not re.search(r"https?://(?!www\.apache\.org)", text), path
        assert not re.search(r"/(home|root|work)/", text), path


def test_the_client_needs_only_the_standard_library_and_what_it_declares() -> None:
    import sys

    declared = {"pochade", "httpx", "confluent_kafka", "fastavro"}
    typing_alone = {"typing_extensions"}  # which httpx brings for older Pythons
    wrong = {
        name
        for path in sources("pochade")
        for _, name in imports_of(path)
        if name.split(".")[0] not in sys.stdlib_module_names | declared | typing_alone
    }
    assert not wrong


def test_the_client_imports_nothing_heavy_before_its_first_call() -> None:
    heavy = {*HEAVY_AT_START, "httpx", "fastavro", "asyncio", "logging", "concurrent", "email", "importlib"}
    wrong = [
        f"{path.name}: {name}"
        for path in sources("pochade")
        for _, name in imported_names(ast.parse(path.read_text()).body)
        if name.split(".")[0] in heavy
    ]
    assert not wrong


def test_schemas_need_only_the_standard_library_and_fastavro() -> None:
    import sys

    wrong = {
        name
        for path in sources("schemas")
        for _, name in imports_of(path)
        if name.split(".")[0] not in sys.stdlib_module_names | {"schemas"} | ONLY_STANDARD_LIBRARY_AND_FASTAVRO
    }
    assert not wrong
