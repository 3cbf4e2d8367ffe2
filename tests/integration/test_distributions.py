"""The wheels of this repository: what is in each, and what can be done where one of them alone is installed."""

import json
import pathlib
import re
import zipfile
from collections import Counter
from collections.abc import Callable

import pytest

from planner.policies import DEFAULT, JUDGES_ALL
from streams.extras import EXTRA_OF, LABORATORY
from tests.environments import Environment, make, requirements_of
from tests.imports import project_modules
from tests.integration.served import served
from tests.left_over import left_over
from tests.paths import ROOT
from tests.test_architecture import LABORATORY as LABORATORY_MODULES

pytestmark = pytest.mark.broker
MAX_LINES = 99_599  # of Python in the wheel; of late 3,333 for daily use, 150 for faults that two reviews found
MAX_BASE_BYTES = 200_000_000  # installed, without the solver that PuLP carries and nobody calls
CBC = "pulp/solverdir/cbc"
ROLES = ("classifier", "router", "worker", "discriminator", "ledger", "planner", "indexer", "gateway", "console")

ASKING = """
import os, sys
os.environ["NO_PROXY"] = "127.0.0.1"
from pochade import Cancelled, Client
with Client(sys.argv[1]) as client:
    handle = client.submit("a red heart", seed=7)
    *_, last = handle.events()
    end = handle.result(60)
    others = [client.submit("a blue boat", n=4) for _ in range(8)]
    for other in others:
        other.cancel()
    cancelled = any(isinstance(other.result(60), Cancelled) for other in others)
    print(type(end).__name__, last.end == end, client.read(end.images[0])[1:4].decode(), cancelled)
"""


@pytest.fixture(scope="module")
def wheels(wheels_of: Callable[..., dict[str, pathlib.Path]]) -> dict[str, pathlib.Path]:
    return wheels_of()


@pytest.fixture(scope="module")
def base(wheels: dict[str, pathlib.Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    home = tmp_path_factory.mktemp("base") / "venv"
    return make(home, [wheels["pochade"], wheels["pochade-client"]], ["pochade"])


@pytest.fixture(scope="module")
def tiny(wheels: dict[str, pathlib.Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    home = tmp_path_factory.mktemp("tiny") / "venv"
    return make(home, [wheels[name] for name in ("pochade", "pochade-client", "pochade-tiny")], ["pochade"])


def files_of(wheel: pathlib.Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if ".dist-info/" not in name]


def test_each_file_belongs_to_one_distribution(wheels: dict[str, pathlib.Path]) -> None:
    owners = Counter(name for wheel in wheels.values() for name in files_of(wheel))
    assert [name for name, count in owners.items() if count > 1] == []


def test_the_wheels_have_every_module_and_all_that_is_shipped_beside_them(wheels: dict[str, pathlib.Path]) -> None:
    """They are made from the sdists, so that these are whole too."""
    there = {name for wheel in wheels.values() for name in files_of(wheel)}
    modules = {str(path.relative_to(ROOT)) for path in project_modules().values()}
    modules = {name.removeprefix("streams/client/") for name in modules}
    data = {
        str(path.relative_to(ROOT))
        for room, kinds in {
            "agents": "jinja tsv css js svg npz", "schemas": "json", "planner": "json", "replay": "jinja html txt toml",
            "infra/models": "json safetensors md", "infra/profiles": "json npz", "infra/catalogs": "toml",
            "infra/observability": "json yaml md", "infra/kafka": "xml toml properties",
        }.items()
        for kind in kinds.split()
        for path in (ROOT / room).rglob(f"*.{kind}")
        if path.name != "pyproject.toml"
    }  # fmt: skip
    assert sorted((modules | data) - there) == []


def test_the_product_has_no_laboratory_and_no_model(wheels: dict[str, pathlib.Path]) -> None:
    product = files_of(wheels["pochade"])
    laboratory = tuple(f"{name.replace('.', '/')}/" for name in LABORATORY_MODULES)
    assert [name for name in product if name.startswith((*laboratory, "infra/models", "tests"))] == []
    assert {name.split("/")[0] for name in files_of(wheels["pochade-tiny"])} == {"infra"}
    with zipfile.ZipFile(wheels["pochade"]) as archive:
        lines = sum(len(archive.read(name).splitlines()) for name in product if name.endswith(".py"))
    print(f"pochade: {lines} lines of Python, {wheels['pochade'].stat().st_size / 1e6:.1f} MB")
    assert lines <= MAX_LINES


def test_each_wheel_states_its_licence_and_version(wheels: dict[str, pathlib.Path]) -> None:
    for name, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            inside = archive.namelist()
            (metadata,) = (archive.read(each).decode() for each in inside if each.endswith("METADATA"))
        assert any(each.endswith("LICENSE") for each in inside), name
        assert f"Name: {name}\nVersion: 0.2.0" in metadata


def test_the_base_is_small(base: Environment) -> None:
    size = base.size_bytes(without=[CBC])
    print(f"site-packages of pochade: {size / 1e6:.1f} MB without {CBC}")
    assert size <= MAX_BASE_BYTES


def test_the_base_loads_every_role_and_every_command(base: Environment) -> None:
    script = """
import importlib, importlib.metadata, sys
for role in sys.argv[1:]:
    importlib.import_module(role)
for command in importlib.metadata.entry_points(group="pochade.commands"):
    command.load()
print(*sorted(set(sys.modules) & {"torch", "diffusers", "transformers", "scipy", "matplotlib", "spacy", "pymilvus"}))
"""
    roles = [f"agents.{role}" for role in ROLES] + ["agents.runtime.assembly"]
    assert base.said(script, *roles).strip() == ""


@pytest.fixture
def home(new_home: Callable[[], pathlib.Path]) -> pathlib.Path:
    return new_home()


def test_a_demo_generates_everything_once_and_leaves_nothing_running(home: pathlib.Path, base: Environment) -> None:
    """Where the product and its client are installed, without torch, models or laboratory."""
    asked = ["--catalog", "profile", "--count", "12", "--rate", "8"]
    done = base.run(base.pochade, "--home", home, "demo", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((home / "demo" / "report.json").read_text())
    assert report["accepted"] == report["outcomes"]["COMPLETED"] == len(report["pictures"]) == 12
    assert (report["lost"], report["duplicates"], report["identical_pictures"]) == (0, 0, 0)
    assert report["policies"] == [DEFAULT, JUDGES_ALL], "a policy is pinned while requests are under way"
    assert "threshold=0.9" in done.stdout + done.stderr, "most first images are below it, and refined"
    page = (home / "demo" / "gallery.html").read_text()
    assert page.count("<article") == 12
    assert page.count("data:image/png;base64,") == 12 + report["escalated"]
    assert left_over(home) == []


def test_the_product_alone_serves_every_role_and_a_client_that_is_alone_asks_it(
    home: pathlib.Path, base: Environment, wheels: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """Nine roles in one process, on models that need none; submitted, followed, cancelled and fetched over HTTP."""
    client = make(tmp_path / "client", [wheels["pochade-client"]], ["pochade-client"])
    values = {"catalog": "profile", "worker.engine": "profile", "vectors.url": "exact", "console.port": "0"}
    with served(base, home, ROLES, values) as running:
        assert client.said(ASKING, running.gateway) == "Completed True PNG True\n"


def test_the_tiny_models_are_served_where_they_and_what_workers_need_are_installed(
    home: pathlib.Path, wheels: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """Without the laboratory, and without what reuse, object stores and reports need."""
    names = ("pochade", "pochade-client", "pochade-tiny")
    made = make(tmp_path / "venv", [wheels[name] for name in names], ["pochade[worker]", "pochade-tiny"])
    done = made.run(made.pochade, "--home", home, "demo", "--count", "6", "--rate", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((home / "demo" / "report.json").read_text())
    assert report["outcomes"] == {"COMPLETED": 6}
    assert left_over(home) == []


@pytest.mark.parametrize("command", sorted(LABORATORY))
def test_a_command_of_the_laboratory_names_it_where_it_is_missing(base: Environment, command: str) -> None:
    done = base.run(base.pochade, command)
    assert done.returncode == 1
    assert done.stderr == f"error: '{command}' is a command of the laboratory: pip install pochade-lab\n"


@pytest.mark.parametrize(
    ("command", "extras"),
    [
        (["profile", "--catalog", "tiny"], "reports,worker"),
        (["demo"], "worker"),
        (
            ["simulate", "t.csv", "--catalog", "profile", "--policy", "joint", "--slo", "5", "--report", "out"],
            "reports",
        ),
        (["replay", "run", "t.csv"], "reports"),
        (["replay", "inspect", "t.csv", "--report", "out"], "reports"),
        (["--set", "catalog=tiny", "serve", "worker"], "worker"),
        (["--set", "catalog=tiny", "serve", "discriminator"], "worker"),
        (["--set", "catalog=tiny", "serve", "classifier"], "worker"),
        (["--set", "store.url=s3://bucket/images", "serve", "ledger"], "s3"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_needs_an_extra_says_which_in_one_line(
    tiny: Environment, tmp_path: pathlib.Path, command: list[str], extras: str
) -> None:
    (tmp_path / "t.csv").write_text("arrival_ms\n0\n")
    done = tiny.run(tiny.pochade, *command, cwd=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(rf"error: [\w, ]+ not installed: pip install 'pochade\[{extras}\]'\n", done.stderr), done.stderr


def test_models_that_are_not_installed_are_named_with_their_distribution(
    base: Environment, tmp_path: pathlib.Path
) -> None:
    script = "from agents.engines import model_source; model_source('models/heavy')"
    done = base.run(base.python, "-c", script, cwd=tmp_path)
    assert "pip install pochade-tiny" in done.stderr


def test_every_extra_is_declared_with_what_its_imports_bring() -> None:
    declared = {
        (match[1].lower().replace("-", "_"), match[2])
        for text in requirements_of("pochade")
        if (match := re.match(r"([\w.-]+).*extra == '(\w+)'", text))
    }
    renamed = {"c2pa": "c2pa_python", "grpc": "grpcio", "pynvml": "nvidia_ml_py"}
    assert {(renamed.get(module, module), extra) for module, extra in EXTRA_OF.items()} <= declared
